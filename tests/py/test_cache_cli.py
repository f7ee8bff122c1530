"""The disk tiers of the program cache: the commands over them, the shared one, the entries of torch.compiler."""

import json
import os
import re
import subprocess
import sys
import time

import pytest
from helpers import run_python

PROGRAM = """
import json, torch
x = torch.ones({n}, device="tpu")
s = (x + 1).sin().sum().item()
stats = torch.tpu.compile_stats()
print(json.dumps([stats["programs_compiled"], stats["programs_loaded"], s]))
"""


def program(folder, n=5, **env):
    out = run_python(PROGRAM.format(n=n), TORCH_TPU_CACHE_DIR=str(folder), **env).stdout
    return json.loads(out.splitlines()[-1])


def cache(folder, *args, code=0):
    done = subprocess.run(
        [sys.executable, "-m", "torch_tpu", "cache", *args],
        capture_output=True,
        text=True,
        env=dict(os.environ, TORCH_TPU_CACHE_DIR=str(folder)),
    )
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    return done.stdout


def programs(folder):
    return sorted(p for p in folder.iterdir() if p.suffix == ".tpu")


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cache")
    assert program(folder)[:2] == [4, 0]
    return folder


@pytest.fixture
def copy(filled, tmp_path):
    for p in programs(filled):
        (tmp_path / p.name).write_bytes(p.read_bytes())
    return tmp_path


def test_list_tells_name_ops_and_size(copy):
    found = json.loads(cache(copy, "list", "--json"))
    assert found["dir"] == str(copy) and len(found["entries"]) == len(programs(copy)) == 4
    by_name = {e["name"]: e for e in found["entries"]}
    add = by_name["aten::add.Tensor"]
    assert add["ops"] == 1 and add["seconds"] > 0 and add["state"] == "not checked"
    assert add["bytes"] == (copy / add["file"]).stat().st_size and abs(time.time() - add["used"]) < 100
    text = cache(copy, "list")
    assert re.search(rf"{add['file']} .* KiB .* ago .* 1 ops  aten::add.Tensor\n", text)
    assert f"{len(found['entries'])} programs" in text.splitlines()[-1]


def test_verify_finds_damage_and_removes_it_when_told(copy):
    assert cache(copy, "verify").startswith("4 fine in ")
    a, b, *rest = programs(copy)
    bad = bytearray(a.read_bytes())
    bad[-1] ^= 1
    a.write_bytes(bad)
    moved = copy / ("0" * 32 + ".tpu")  # whole, but under a name that its key does not have
    b.rename(moved)
    for _ in range(2):  # without --fix nothing is touched
        states = {
            e["file"]: e["state"] for e in json.loads(cache(copy, "verify", "--json", code=1))["entries"]
        }
        assert states == {a.name: "damaged", moved.name: "damaged"} | {p.name: "fine" for p in rest}
    text = cache(copy, "verify", "--fix", code=1)
    assert f"{a.name}  damaged, removed" in text and programs(copy) == rest
    assert f"{len(rest)} fine" in cache(copy, "verify")


def test_an_entry_of_another_version_is_no_damage(copy):
    a = programs(copy)[0]
    other = bytearray(a.read_bytes())
    other[8] += 1  # the format's number
    a.write_bytes(other)
    text = cache(copy, "verify", "--fix")
    assert f"{a.name}  of another version\n" in text and a.exists()


def test_prune_by_age_and_by_size(copy):
    old, *rest = programs(copy)
    os.utime(old, (time.time() - 7200,) * 2)
    assert "0 programs removed" in cache(copy, "prune", "--older-than", "3h")
    assert "1 programs removed" in cache(copy, "prune", "--older-than", "1h")
    assert programs(copy) == rest
    for i, p in enumerate(rest):
        os.utime(p, (time.time() - 1000 + i,) * 2)
    keep = rest[-1]
    cache(copy, "prune", "--max-size", str(keep.stat().st_size))
    assert programs(copy) == [keep]  # used last
    cache(copy, "prune", code=2)
    cache(copy, "prune", "--max-size", "much", code=2)


def test_clear_leaves_what_others_are_at_work_on(copy):
    (copy / "tmp.1.2.3").write_bytes(b"half")
    (copy / "x.lock").write_bytes(b"")
    (copy / "foreign.txt").write_text("mine")
    n = len(programs(copy))
    assert f"{n} programs removed" in cache(copy, "clear")
    assert sorted(p.name for p in copy.iterdir()) == ["foreign.txt", "tmp.1.2.3", "x.lock"]
    assert program(copy)[0] == 4  # and the cache goes on


def test_another_directory_and_none(copy, tmp_path):
    assert str(copy) in cache(tmp_path / "own", "list", "--dir", str(copy))
    assert "cannot be read" in cache(copy, "list", "--dir", str(tmp_path / "missing"), code=1)


def test_clearing_while_a_process_compiles(tmp_path):
    """Whatever goes meanwhile is compiled again or loaded; nobody fails."""
    code = """
import torch
for n in range(2, 22):
    assert (torch.ones(n, device="tpu") * n).sum().item() == n * n
assert not torch.tpu._info().get("cache_trouble"), torch.tpu._info()
"""
    env = dict(os.environ, TORCH_TPU_CACHE_DIR=str(tmp_path), TORCH_TPU_SIZES="exact")
    work = [subprocess.Popen([sys.executable, "-c", code], env=env) for _ in range(2)]
    from torch_tpu import _C

    while any(w.poll() is None for w in work):
        _C.cache_prune(str(tmp_path), 0, -1)
        time.sleep(0.05)
    assert [w.returncode for w in work] == [0, 0]


# --- the shared tier ---


def test_a_second_host_compiles_nothing(tmp_path):
    shared = tmp_path / "shared"
    first = program(tmp_path / "one", TORCH_TPU_SHARED_CACHE_DIR=str(shared))
    second = program(tmp_path / "two", TORCH_TPU_SHARED_CACHE_DIR=str(shared))
    assert first[:2] == [4, 0] and second[:2] == [0, 4] and first[2] == second[2]
    assert [p.name for p in programs(shared)] == [p.name for p in programs(tmp_path / "two")]
    assert program(tmp_path / "two")[:2] == [0, 4]  # it is the host's own now
    other_flags = program(
        tmp_path / "three",
        TORCH_TPU_SHARED_CACHE_DIR=str(shared),
        XLA_FLAGS="--xla_cpu_enable_fast_math=false",
    )
    assert other_flags[:2] == [4, 0]


def test_a_damaged_shared_entry_is_replaced(tmp_path):
    shared = tmp_path / "shared"
    program(tmp_path / "one", TORCH_TPU_SHARED_CACHE_DIR=str(shared))
    a = programs(shared)[0]
    good = a.read_bytes()
    a.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    assert program(tmp_path / "two", TORCH_TPU_SHARED_CACHE_DIR=str(shared))[:2] == [1, 3]
    assert cache(tmp_path, "verify", "--dir", str(shared)).startswith("4 fine in ")


def test_a_shared_directory_that_is_not_there(tmp_path):
    missing = tmp_path / "not" / "mounted"
    assert program(tmp_path / "one", TORCH_TPU_SHARED_CACHE_DIR=str(missing))[:2] == [4, 0]
    assert not missing.parent.exists()  # what it would lie on is not made


def test_off_is_off(tmp_path):
    shared = tmp_path / "shared"
    program(tmp_path / "one", TORCH_TPU_SHARED_CACHE_DIR=str(shared), TORCH_TPU_CACHE="off")
    assert not shared.exists()


# --- torch.compiler's artifacts ---

CARRY = """
import json, pathlib, torch
path = pathlib.Path({path!r})
if {load}:
    info = torch.compiler.load_cache_artifacts(path.read_bytes())
    print(json.dumps(sorted(info.tpu_program_artifacts)))
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2)).to("tpu")
torch.nn.functional.linear(torch.ones(1, 4, device="tpu"), net[0].weight)  # eager: not carried
torch.tpu.reset_compile_stats()
net = torch.compile(net, backend="tpu")
x = torch.ones(3, 4, device="tpu")
torch.tpu.synchronize()
y = net(x)
y.backward(torch.ones_like(y))
steps = [p["loaded"] for p in torch.tpu.compile_stats()["programs"] if p["name"].startswith("step")]
if not {load}:
    saved, info = torch.compiler.save_cache_artifacts()
    print(json.dumps(sorted(info.tpu_program_artifacts)))
    path.write_bytes(saved)
print(json.dumps(steps))
"""


def test_artifacts_carry_the_programs_of_graphs(tmp_path):
    path = str(tmp_path / "artifacts")
    runs = [
        run_python(CARRY.format(path=path, load=load), TORCH_TPU_CACHE_DIR=str(tmp_path / f"host{load}"))
        for load in (False, True)
    ]
    (saved, made), (loaded, had) = ([json.loads(line) for line in r.stdout.splitlines()] for r in runs)
    assert made == [False, False] and had == [True, True]  # forward and backward
    assert saved == loaded and len(saved) == 2
    entries = json.loads(cache(tmp_path / "hostTrue", "list", "--json"))["entries"]
    assert {e["file"] for e in entries if e["name"].startswith("step")} == set(saved)
