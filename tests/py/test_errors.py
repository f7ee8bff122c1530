"""PyTorch's exception types and, where it has them, its words; failures that leave the device usable."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest
import torch
import torch.nn.functional as F
from helpers import DEV, data, raises_alike, run_python, same
from torch_tpu import _C


def long(x, n: int):
    return torch.zeros(n, dtype=torch.long, device=x.device)


ALIKE = {
    "broadcast": (lambda x: x + x[:, :2], "must match the size"),
    "mm": (lambda x: x @ x, "cannot be multiplied"),
    "bmm": (lambda x: torch.bmm(x[None], x[None]), "batch"),
    "cat": (lambda x: torch.cat([x, x[:, :2]]), "Sizes of tensors must match"),
    "view": (lambda x: x.view(5, 5), "shape '[5, 5]' is invalid"),
    "view_strides": (lambda x: x.t().view(-1), "view size is not compatible"),
    "dim": (lambda x: x.sum(5), "Dimension out of range"),
    "expand": (lambda x: x.expand(5, 5), "must match the existing size"),
    "softmax": (lambda x: torch.softmax(x, 7), "Dimension out of range"),
    "permute": (lambda x: x.permute(0, 0), "permute"),
    "squeeze": (lambda x: x.squeeze(9), "Dimension out of range"),
    "linear": (lambda x: F.linear(x, x[:, :3]), "cannot be multiplied"),
    "conv": (lambda x: F.conv2d(x[None, None], x[None, None].expand(1, 2, 3, 4)), "channels"),
    "index_dtype": (lambda x: x[x], "tensors used as indices must be"),
    "gather": (lambda x: x.gather(0, long(x, 1)), "same number of dimensions"),
    "cross_entropy": (lambda x: F.cross_entropy(x, long(x, 2)), "batch_size"),
    "leaf": (lambda x: x.requires_grad_().add_(1), "leaf Variable"),
    "integer_grad": (lambda x: x.long().requires_grad_(), "loating point"),
    "item": (lambda x: x.item(), "cannot be converted to Scalar"),
    "bool": (lambda x: bool(x), "ambiguous"),
    "repeat": (lambda x: x.repeat(2), "Number of dimensions"),
    "multinomial": (lambda x: torch.multinomial(x.abs(), 9), "cannot sample"),
    "topk": (lambda x: x.topk(9), "out of range"),
    "argmax_of_nothing": (lambda x: x[:0].argmax(), "Expected reduction dim to be specified"),
    "max_of_nothing": (lambda x: x[:0].max(), "Expected reduction dim to be specified"),
    "cholesky": (lambda x: torch.linalg.cholesky(-torch.eye(3, device=x.device)), "positive-definite"),
    "inverse": (lambda x: torch.linalg.inv(torch.zeros(2, 2, device=x.device)), "singular"),
}


@pytest.mark.parametrize("name", list(ALIKE))
def test_words_of_pytorch(name):
    f, words = ALIKE[name]
    raises_alike(f, data(3, 4), words=words)
    same(torch.ones(2, device=DEV) + 1, torch.full((2,), 2.0))


@pytest.mark.parametrize("source", ["cpu", "tpu"])
def test_a_copy_of_nothing_has_to_fit(source):
    with pytest.raises(RuntimeError, match="size"):
        torch.empty(3, 0, device="tpu").copy_(torch.empty(2, 0, 24, device=source))
    assert torch.empty(3, 0, device="tpu").copy_(torch.empty(1, 1, device=source)).shape == (3, 0)


def test_devices_do_not_mix():
    x = data(3).to(DEV)
    for f in (
        lambda: x + torch.ones(3),
        lambda: x @ torch.ones(3),
        lambda: x + torch.ones(3, device="tpu:1"),
        lambda: torch.where(x > 0, x, torch.ones(3)),
        lambda: torch.cat([x, torch.ones(3)]),
        lambda: F.linear(x, torch.ones(2, 3)),
    ):
        with pytest.raises(RuntimeError, match="(?i)device"):
            f()
    y = torch.ones(3)
    y.copy_(x)
    same(x, y)


@pytest.mark.parametrize(
    "f",
    [
        lambda dt, x: torch.zeros(2, dtype=dt, device=DEV),
        lambda dt, x: torch.full((2,), 1, dtype=dt, device=DEV),
        lambda dt, x: torch.arange(3, dtype=dt, device=DEV),
        lambda dt, x: torch.ones_like(x, dtype=dt),
        lambda dt, x: x.sum(dtype=dt),
        lambda dt, x: x.cumsum(0, dtype=dt),
        lambda dt, x: x.to(dt),
    ],
)
@pytest.mark.parametrize("dtype", [torch.complex32, torch.float8_e8m0fnu, torch.float4_e2m1fn_x2])
def test_a_dtype_that_xla_does_not_have_is_not_replaced_by_another(f, dtype):
    with pytest.raises(NotImplementedError, match="a dtype that XLA does not have"):
        f(dtype, data(3).to(DEV))


@pytest.mark.filterwarnings("ignore::UserWarning")  # that these layouts are beta
def test_other_layouts_say_what_to_do():
    eye, q = torch.eye(2), torch.quantize_per_tensor(torch.eye(2), 0.1, 0, torch.qint8)
    for f, words in (
        (lambda: eye.to_sparse().to(DEV), "sparse tensors on TPU"),
        (lambda: torch.sparse_coo_tensor([[0, 1]], [1.0, 2.0], device=DEV), "sparse tensors on TPU"),
        (lambda: repr(eye.to_sparse_csr().to(DEV)), "sparse tensors on TPU"),
        (lambda: q.to(DEV), "quantized tensors on TPU"),
        (lambda: repr(torch.nested.nested_tensor([eye.to(DEV)])), "layout=torch.jagged"),
    ):
        with pytest.raises(NotImplementedError, match=words):
            f()


def test_what_follows_from_a_failure_does_not_come_up_later():
    x = data(6).to(DEV)
    x.quantile(torch.tensor([2.0], device=DEV))  # a bad q, and what is gathered with it
    with pytest.raises(RuntimeError, match="quantile|out of range"):
        torch.tpu.synchronize()
    torch.tpu.synchronize()
    for bad in (6, 7):
        x[torch.tensor([bad], device=DEV)]
    with pytest.raises(IndexError):
        torch.tpu.synchronize()
    same(x + 1, data(6) + 1)
    torch.tpu.synchronize()


def test_missing_kernel_names_the_op(capfd):
    library = torch.library.Library("torch_tpu_test", "DEF")
    library.define("nothing(Tensor x) -> Tensor")
    library.impl("nothing", lambda x: x + 1, "CPU")
    x = data(3).to(DEV)
    with pytest.raises(
        NotImplementedError, match="torch_tpu_test::nothing.* is not implemented for TPU.*Float"
    ):
        torch.ops.torch_tpu_test.nothing(x)
    torch.tpu.set_fallback_policy("warn")
    torch.tpu.reset_fallback_report()
    same(torch.ops.torch_tpu_test.nothing(x), x.cpu() + 1)  # torch.ops shows C++ warnings on stderr
    same(torch.ops.torch_tpu_test.nothing(x), x.cpu() + 1)
    assert capfd.readouterr().err.count("'torch_tpu_test::nothing' runs on the CPU") == 1
    torch.tpu.set_fallback_policy("silent")
    torch.ops.torch_tpu_test.nothing(x)
    assert torch.tpu.fallback_report() == {"torch_tpu_test::nothing": 3}
    assert torch.tpu.fallback_report(reasons=True)["torch_tpu_test::nothing"]["why"]


def test_debug_raises_on_the_line():
    x, i = data(3).to(DEV), torch.tensor([9], device=DEV)
    with torch.tpu.eager_mode("debug"), pytest.raises((IndexError, RuntimeError)):
        x[i]
    with torch.tpu.eager_mode("fused"):
        y = x[i] + 1
        with pytest.raises((IndexError, RuntimeError)):
            y.cpu()


def test_a_failed_step_does_not_poison_the_next(mode):
    x, i = data(3).to(DEV), torch.tensor([9], device=DEV)
    with pytest.raises((IndexError, RuntimeError)):
        (x[i] * 2).sum().item()
    same(x * 2, x.cpu() * 2)


# --- plugins ---

USE = """
import torch
for _ in range(2):
    try:
        torch.ones(2, device='tpu') + 1
    except RuntimeError as error:
        print(str(error).split('\\n')[0])
    else:
        raise SystemExit('no error')
"""


def cut(path, part: float) -> None:
    """The real plugin up to a part of its length."""
    whole = json.loads(_C.info())["plugin"]
    with open(whole, "rb") as file:
        path.write_bytes(file.read(int(os.path.getsize(whole) * part)))


def libm() -> str:
    with open("/proc/self/maps") as maps:
        return next(line.split()[-1] for line in maps if "/libm" in line)


BAD_PLUGINS = {
    "missing": (lambda path: None, "No such file"),
    "directory": (lambda path: path.mkdir(), "is not a file"),
    "fifo": (os.mkfifo, "is not a file"),
    "empty": (lambda path: path.write_text(""), "the file is empty"),
    "text": (lambda path: path.write_text("#!/bin/sh"), "not in ELF format"),
    "program": (lambda path: path.symlink_to("/bin/true"), "cannot .*be loaded|no library|loaded:"),
    "another library": (lambda path: path.symlink_to(libm()), "GetPjrtApi"),
    "cut at 1%": (lambda path: cut(path, 0.01), "cut short"),
    "cut at half": (lambda path: cut(path, 0.5), "cut short"),
    "cut near its end": (lambda path: cut(path, 0.999), "cut short"),
}


@pytest.mark.parametrize("name", BAD_PLUGINS)
def test_a_bad_plugin_is_one_sentence(tmp_path, name):
    make, words = BAD_PLUGINS[name]
    path = tmp_path / "plugin.so"
    make(path)
    first, second = run_python(USE, TORCH_TPU_PJRT_PLUGIN=str(path)).stdout.strip().split("\n")
    assert re.search(words, first), first
    assert first.endswith("; correct TORCH_TPU_PJRT_PLUGIN, or unset it"), first
    assert second == first


# --- interrupts ---


def test_ctrl_c_during_a_compile():
    code = """
import os, signal, threading, time, torch
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
x = torch.randn(30, 30, device='tpu')
(x @ x).sum().item()
torch.tpu.set_eager_mode('fused')
threading.Timer(1.0, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
start = time.time()
try:
    for n in range(2, 100):
        y = x
        for i in range(n):
            y = torch.softmax(y @ x, i % 2).cumsum(1).tanh() + y.sort(0)[0] * (1.0 + i)
        y.sum().item()
except KeyboardInterrupt:
    print('interrupted', time.time() - start < 30)
torch.tpu.set_eager_mode('strict')
print((torch.ones(2, device='tpu') + 1).sum().item())
"""
    assert run_python(code, TORCH_TPU_CACHE="off").stdout.split() == ["interrupted", "True", "4.0"]


LEAVE = """
import os, signal, sys, threading, time, torch
signal.signal(signal.SIGINT, signal.default_int_handler)
torch.tpu.set_eager_mode('fused')
(torch.ones(8, device='tpu') + 1).cpu()

def deep(n):  # no part of it repeats: one program that takes seconds
    y = torch.ones(1000 + n, device='tpu')
    for i in range(65):
        y = torch.sin(y) * (1.0 + i) + torch.cumsum(y, 0)
        for b in range(7):
            y = torch.exp(y) if (i * 2654435761 >> b) & 1 else torch.tanh(y).sort()[0]
    return y.cpu()

def press(after):
    threading.Thread(target=lambda: (time.sleep(after), os.kill(os.getpid(), signal.SIGINT)), daemon=True).start()

def caught(n):
    press(0.4)
    try:
        deep(n)
        print('was faster')
    except KeyboardInterrupt:
        print('caught', flush=True)

junk = [{} for _ in range(500_000)]  # what the end of the process takes time for
"""


@pytest.mark.parametrize(
    "end, code",
    [
        ("", 0),
        ("sys.exit(7)", 7),
        ("raise ValueError", 1),
        ("os._exit(5)", 5),
        ("caught(1)", 0),
        ("press(0.2)", -signal.SIGINT),
        ("sys.exit(0 if os.fork() else 3)", 0),
        ("raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(os.fork() or sys.exit(3), 0)[1]))", 3),
    ],
    ids=["end", "exit", "error", "_exit", "two", "again", "parent", "child"],
)
def test_leaving_after_ctrl_c_during_a_compile(end, code, tmp_path):
    """The compile goes on where nobody waits for it: the end of the process must not pull the plugin from
    under it."""
    done = run_python(LEAVE + "caught(0)\n" + end, check=False, TORCH_TPU_CACHE_DIR=str(tmp_path))
    assert done.returncode == code, done.stderr
    assert set(done.stdout.split()) == {"caught"}


def test_a_program_that_ctrl_c_left_reaches_the_cache(tmp_path):
    run_python(LEAVE + "caught(0)", TORCH_TPU_CACHE_DIR=str(tmp_path))
    again = LEAVE + "deep(0); print(torch.tpu.compile_stats()['programs_compiled'])"
    assert run_python(again, TORCH_TPU_CACHE_DIR=str(tmp_path)).stdout.split() == ["0"]


# --- the cache directory ---

PROGRAM = """
import torch
x = torch.arange(5., device='tpu') * 3
print(x.sum().item(), torch.tpu.compile_stats()['programs_compiled'])
"""


def total(folder, **env) -> list[str]:
    return run_python(PROGRAM, TORCH_TPU_CACHE_DIR=str(folder), **env).stdout.split()


def test_a_cache_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("in the way")
    assert total(tmp_path / "file")[0] == "30.0"
    assert total("/proc/no/such/folder")[0] == "30.0"


def test_foreign_files_in_the_cache(tmp_path):
    total(tmp_path)
    for i, p in enumerate(p for p in tmp_path.rglob("*") if p.is_file()):
        p.write_bytes([b"", b"hello", os.urandom(5000)][i % 3])
    (tmp_path / "README").write_text("not an entry")
    assert total(tmp_path)[0] == "30.0"
    assert total(tmp_path) == ["30.0", "0"]


def test_full_disk(tmp_path):
    """A limit on the size of files stands for a disk without room."""
    code = "import resource, signal\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
    code += "resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))\n" + PROGRAM
    assert run_python(code, TORCH_TPU_CACHE_DIR=str(tmp_path)).stdout.split()[0] == "30.0"
    assert total(tmp_path)[0] == "30.0"
    assert total(tmp_path) == ["30.0", "0"]


def test_killed_while_it_writes(tmp_path):
    code = """
import torch
for i in range(10000):
    (torch.arange(8. + i, device='tpu').reshape(-1, 1) * 2).sum().item()
"""
    env = {**os.environ, "TORCH_TPU_CACHE_DIR": str(tmp_path)}
    for delay in (0.1, 0.35):
        process = subprocess.Popen([sys.executable, "-c", code], env=env)
        deadline = time.time() + 120
        while not any(p.is_file() for p in tmp_path.rglob("*")) and time.time() < deadline:
            time.sleep(0.05)
        time.sleep(delay)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert total(tmp_path)[0] == "30.0"
    assert total(tmp_path) == ["30.0", "0"]


def test_the_cap_of_the_cache(tmp_path):
    code = """
import torch
for n in range(2, 30):
    (torch.arange(float(n), device='tpu') * 3).sum().item()
"""
    run_python(code, TORCH_TPU_CACHE_DIR=str(tmp_path), TORCH_TPU_CACHE_MAX_BYTES="200K")
    assert sum(p.stat().st_size for p in tmp_path.rglob("*") if p.is_file()) <= 300 << 10
