"""Fused steps and the program cache, by counts: how many programs, how many buffers, what a second process compiles."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest
import torch
import torch.nn as nn
from helpers import data, run_python


def compiled() -> int:
    return torch.tpu.compile_stats()["programs_compiled"] + torch.tpu.compile_stats()["programs_loaded"]


def test_equal_layers_are_a_handful_of_programs() -> None:
    """Thirty equal layers: the layer's program is made once, with the parts before and after it."""

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(8, 32), nn.Linear(32, 8)
            self.norm = nn.LayerNorm(8)

        def forward(self, x):
            return x + self.b(torch.nn.functional.gelu(self.a(self.norm(x)))) * 0.5

    torch.manual_seed(0)
    cpu = nn.Sequential(*(Layer() for _ in range(30)))
    import copy

    tpu = copy.deepcopy(cpu).to("tpu")
    x = data(4, 8)
    with torch.tpu.eager_mode("fused"), torch.inference_mode():
        torch.tpu.reset_compile_stats()
        got = tpu(x.to("tpu")).cpu()
        assert compiled() <= 5
    torch.testing.assert_close(got, cpu(x))


def test_a_loop_without_reads_is_bounded() -> None:
    x = torch.ones(64, device="tpu")
    before = torch.tpu.memory_stats()["allocation.all.current"]
    with torch.tpu.eager_mode("fused"):
        for _ in range(3000):
            x = x * 1.0001 + 0.5 - x * 0.0001
        assert torch.tpu.memory_stats()["allocation.all.current"] - before < 20
    assert torch.isfinite(x).all().item()


def test_what_is_dropped_is_not_computed() -> None:
    """Not even the result of the op at which a step is cut."""
    x = data(8).to("tpu")
    before = torch.tpu.memory_stats()["allocation.all.allocated"]
    with torch.tpu.eager_mode("fused"):
        for _ in range(500):
            x.add(x)
    assert torch.tpu.memory_stats()["allocation.all.allocated"] == before


def test_a_step_of_which_less_is_read_is_the_same_program(fresh) -> None:
    def step(x, read_both: bool) -> torch.Tensor:
        y = x.sin()
        z = y.exp()
        if not read_both:
            del y
        z.sum().item()
        return z.cpu() if not read_both else (y + z).cpu()

    x = data(8)
    t = x.to("tpu")
    with torch.tpu.eager_mode("fused"):
        torch.testing.assert_close(step(t, True), x.sin() + x.sin().exp())
        torch.tpu.reset_compile_stats()
        torch.testing.assert_close(step(t, False), x.sin().exp())
    assert compiled() == 0


def test_a_step_that_takes_memory_over_is_for_those_who_give_it(fresh) -> None:
    """The same ops with an operand that dies and with one that lives on: two programs, and the second one's operand is as it was."""
    x = data(8)
    torch.tpu.reset_compile_stats()
    with torch.tpu.eager_mode("fused"):
        for keep in (False, True, False):
            t = x.to("tpu")
            torch.tpu.synchronize()
            kept = t.detach() if keep else None
            for _ in range(2):
                t = t.mul(2).add(1)
            torch.testing.assert_close(t.cpu(), (x * 2 + 1) * 2 + 1)
            if kept is not None:
                torch.testing.assert_close(kept.cpu(), x)
        assert compiled() == 2


def test_much_that_nobody_reads_is_not_computed(fresh) -> None:
    """A program that gives more serves only where that is no memory to speak of."""
    x = data(1000)
    t = x.to("tpu")
    torch.tpu.reset_compile_stats()
    with torch.tpu.eager_mode("fused"):
        for keep in (True, False):
            y = t.sin()
            z = y.sum()
            if not keep:
                del y
            torch.testing.assert_close(z.cpu(), x.sin().sum())
        assert compiled() == 2


def test_training_loop_leaks_nothing(mode: str) -> None:
    model = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 1)).to("tpu")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    x = data(8, 16).to("tpu")

    def steps(n: int) -> int:
        for _ in range(n):
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
        loss.item()
        torch.tpu.synchronize()
        return torch.tpu.memory_stats()["allocation.all.current"]

    first = steps(20)
    assert abs(steps(200) - first) <= 4


def test_donated_updates_keep_other_holders() -> None:
    x = torch.arange(4.0, device="tpu")
    y = x.clone()
    v = x.view(2, 2)
    for _ in range(3):
        x.add_(1)
    assert v.flatten().tolist() == [3, 4, 5, 6] and y.tolist() == [0, 1, 2, 3]


def test_a_part_is_read_before_it_is_written(mode: str) -> None:
    """In one program: what is written is computed from other places of what is there."""

    def run(x: torch.Tensor) -> torch.Tensor:
        y = x.index_select(0, torch.arange(13, device=x.device) % 2)
        v = y.select(2, -1)
        v.copy_(v.flip(0) * 0.5)
        return y

    x = data(2, 13, 4)
    assert torch.equal(run(x.to("tpu")).cpu(), run(x))


PROGRAM = """
import torch
x = torch.arange(12.0).reshape(3, 4).to("tpu")
y = torch.softmax(x @ x.t() * 0.1, -1).sum(0)
with torch.tpu.eager_mode("fused"):
    y = (y * 2 + 1).exp().log()
print([round(v, 4) for v in y.cpu().tolist()])
s = torch.tpu.compile_stats()
print(s["programs_compiled"], s["programs_loaded"])
"""


def run(folder: pathlib.Path, **env: str) -> tuple[str, int, int]:
    env = {**os.environ, "TORCH_TPU_CACHE_DIR": str(folder), **env}
    out = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=env, capture_output=True, text=True, timeout=300
    )
    assert out.returncode == 0, out.stderr
    values, counts = out.stdout.strip().split("\n")
    made, loaded = counts.split()
    return values, int(made), int(loaded)


def entries(folder: pathlib.Path) -> list[pathlib.Path]:
    return [p for p in folder.rglob("*") if p.is_file() and p.stat().st_size > 1000]


def test_a_second_process_compiles_nothing(tmp_path: pathlib.Path) -> None:
    values, made, _ = run(tmp_path)
    assert made > 0
    again, made2, loaded2 = run(tmp_path)
    assert again == values and made2 == 0 and loaded2 == made


@pytest.mark.parametrize("damage", ["flip", "cut", "swap"])
def test_damaged_entries_are_made_anew(tmp_path: pathlib.Path, damage: str) -> None:
    values, made, _ = run(tmp_path)
    files = entries(tmp_path)
    assert len(files) == made
    blobs = [f.read_bytes() for f in files]
    for i, f in enumerate(files):
        b = bytearray(blobs[i])
        if damage == "flip":
            b[len(b) // 2] ^= 0xFF
        elif damage == "cut":
            b = b[: len(b) // 3]
        else:
            b = blobs[(i + 1) % len(blobs)]
        f.write_bytes(bytes(b))
    again, made2, _ = run(tmp_path)
    assert again == values and made2 == made
    assert run(tmp_path)[1] == 0


def test_no_cache(tmp_path: pathlib.Path) -> None:
    values, made, _ = run(tmp_path, TORCH_TPU_CACHE="off")
    assert entries(tmp_path) == []
    assert run(tmp_path, TORCH_TPU_CACHE="off")[:2] == (values, made)


CROWDED = """
import ctypes, mmap, torch
MOST = int(open("/proc/sys/vm/max_map_count").read())
libc = ctypes.CDLL(None)
room = mmap.mmap(-1, 8192 * (MOST * 5 // 16), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
start = ctypes.addressof(ctypes.c_char.from_buffer(room))
for i in range(MOST * 5 // 16):  # every second page is of another kind: two maps each
    assert not libc.mprotect(ctypes.c_void_p(start + 8192 * i), 4096, mmap.PROT_READ)

def work():
    x = torch.arange(6.0).to("tpu")
    y = x.softmax(0).sqrt()
    with torch.tpu.eager_mode("fused"):
        return (y * 3 + x).exp().log().cpu()

with torch.tpu.sizes("exact"):
    before = work()
    for n in range(200):
        assert torch.ones(n + 1, device="tpu").sum().item() == n + 1
    torch.tpu.reset_compile_stats()
    assert torch.equal(work(), before)
s = torch.tpu.compile_stats()
print(s["programs_compiled"], s["programs_loaded"])
"""


def test_unloads_programs_before_the_process_has_no_room_for_them() -> None:
    most = int(pathlib.Path("/proc/sys/vm/max_map_count").read_text())
    if most > 2_000_000:
        pytest.skip("this kernel's limit of memory maps is too high to come near to it")
    compiled, loaded = map(int, run_python(CROWDED).stdout.split())
    assert compiled == 0 and loaded >= 3


def test_two_processes_at_once(tmp_path: pathlib.Path) -> None:
    env = {**os.environ, "TORCH_TPU_CACHE_DIR": str(tmp_path)}
    both = [
        subprocess.Popen([sys.executable, "-c", PROGRAM], env=env, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    outs = [p.communicate(timeout=300)[0].strip().split("\n") for p in both]
    assert outs[0][0] == outs[1][0]
    made = [int(o[1].split()[0]) for o in outs]
    assert sum(made) == len(entries(tmp_path))
