"""One function, run on the CPU and on the tpu with the same data; subprocesses."""

from __future__ import annotations

import os
import subprocess
import sys

import torch
from torch.utils._pytree import tree_leaves, tree_map

DEV = "tpu"
FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
INTS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
COMPLEX = (torch.complex64, torch.complex128)
ALL = FLOATS + INTS + (torch.bool,) + COMPLEX


def data(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    """Random CPU data without NaN, small enough for every dtype."""
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(shape, generator=g)
    if dtype == torch.bool:
        return x > 0
    if dtype.is_complex:
        return torch.complex(x, torch.randn(shape, generator=g)).to(dtype)
    if dtype.is_floating_point:
        return x.to(dtype)
    low = 0 if dtype == torch.uint8 else -20
    return torch.randint(low, 20, shape, generator=g).to(dtype)


def move(x, device: str = DEV):
    """A copy of every tensor in x on the device: same strides, requires_grad, and sharing of one tensor."""
    seen: dict[int, torch.Tensor] = {}

    def one(t):
        if not isinstance(t, torch.Tensor):
            return t
        if id(t) not in seen:
            copy = t.detach()
            if copy.device.type == device.split(":")[0]:
                copy = copy.clone(memory_format=torch.preserve_format)
            seen[id(t)] = copy.to(device).requires_grad_(t.requires_grad)
        return seen[id(t)]

    return tree_map(one, x)


def host(x):
    return tree_map(lambda t: t.detach().cpu() if isinstance(t, torch.Tensor) else t, x)


def same(got, expected, **tolerance) -> None:
    """Equal structure, dtype, shape and, within torch.testing's default tolerances, values (NaN too)."""
    for t in tree_leaves(got):
        assert not isinstance(t, torch.Tensor) or t.device.type == "tpu", f"a result on {t.device}"
    torch.testing.assert_close(host(got), host(expected), equal_nan=True, check_device=False, **tolerance)


def both(fn, *args, exact: bool = False, strides: bool = True, **tolerance):
    """fn on CPU copies and on tpu copies of args; results and the arguments afterwards must agree."""
    cpu_args, tpu_args = move(args, "cpu"), move(args)
    expected, got = fn(*cpu_args), fn(*tpu_args)
    if exact:
        tolerance = dict(rtol=0, atol=0)
    same(got, expected, **tolerance)
    torch.testing.assert_close(host(tpu_args), host(cpu_args), equal_nan=True, **tolerance)
    if strides:
        for g, e in zip(tree_leaves(got), tree_leaves(expected), strict=True):
            if isinstance(e, torch.Tensor):
                assert g.stride() == e.stride(), (g.stride(), e.stride())
    return got


def raises_alike(fn, *args, words: str = "") -> None:
    """fn raises on the CPU and on the tpu, the same type; `words` stand in both texts."""
    errors = []
    for where in ("cpu", DEV):
        try:
            result = fn(*move(args, where))
            if where != "cpu":
                torch.tpu.synchronize()
            raise AssertionError(f"no error on {where}: {result}")
        except AssertionError:
            raise
        except Exception as error:
            errors.append(error)
    assert isinstance(errors[1], type(errors[0])), errors
    for error in errors:
        assert words in str(error), error


def run_python(code: str, timeout: int = 300, check: bool = True, **env: str) -> subprocess.CompletedProcess:
    """A fresh interpreter; env values of "" unset the variable."""
    full = {**os.environ, **env}
    full = {k: v for k, v in full.items() if v != ""}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=timeout, env=full, check=False
    )
    if check:
        assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done
