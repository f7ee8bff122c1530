"""PyTorch's own operator database on device "tpu": forward and backward against the CPU.

    python tests/py/conformance.py            every op once, float32 (what CI runs through test_conformance.py)
    python tests/py/conformance.py --all      every sample of every op, float32 and bfloat16 (make conformance)
    python tests/py/conformance.py --write    once, and conformance.json is written anew

conformance.json names the ops that are not native yet, each with its state and the reason. Coverage only grows: an op
that is better than its entry fails the test until the entry is taken out.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import itertools
import json
import os
import pathlib
import sys
import warnings
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import conftest as _conftest  # the environment, before torch
import torch
from helpers import host, move
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map

STATES = pathlib.Path(__file__).with_name("conformance.json")
OPS = {f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name: op for op in op_db}
# native: no CPU fallback, values right. The others are what conformance.json may say.
NATIVE, LOOSE, FALLBACK, NO_CPU, ERROR, WRONG = "native", "loose", "fallback", "no cpu", "error", "wrong"
ORDER = [NATIVE, LOOSE, FALLBACK, NO_CPU, ERROR, WRONG]  # the best first
# Several right answers (a vector's sign or phase): what is defined is compared instead of the vectors.
GAUGE = {
    "linalg.eigh": lambda out: (out[0], torch.einsum("...ij,...j,...kj->...ik", out[1], out[0].to(out[1].dtype), out[1].conj())),
    "linalg.eig": lambda out: (torch.linalg.norm(out[0]),),
}  # fmt: skip

UNDEFINED = ("empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided")
# Dense results that do not lie in memory as the CPU's do, and why.
_FFT = "the CPU's FFT library leaves the dims that it transforms innermost"
STRIDES = {
    **dict.fromkeys(
        (f"fft.{i}{kind}fft{dims}" for kind in ("", "h", "r") for i in ("", "i") for dims in ("", "2", "n")),
        _FFT,
    ),
    "nonzero": "a prefix of as many rows as there could be, so that no program is made for a count",
    "argwhere": "see nonzero",
    "unique_consecutive": "the CPU's kernel puts the dim first and leaves it there",
}
HOST_ARGUMENTS = ("tensor_split",)  # which PyTorch wants on the CPU, whatever the device


@dataclasses.dataclass
class Outcome:
    state: str
    why: str = ""


def tensors(x: Any) -> list[torch.Tensor]:
    return [t for t in tree_leaves(x) if isinstance(t, torch.Tensor)]


def samples(op, dtype: torch.dtype, limit: int | None):
    """Inputs of an op on the CPU; with limit 1 the first that has something in it."""
    torch.manual_seed(0)
    autograd = op.supports_autograd and (dtype.is_floating_point or dtype.is_complex)
    found = op.sample_inputs("cpu", dtype, requires_grad=autograd)
    if limit is None:
        yield from found
        return
    empty = []
    for s in itertools.islice(found, 40):
        inside = tensors((s.input, s.args, s.kwargs))
        if inside and all(t.numel() > 1 for t in inside[:1]) and all(t.numel() for t in inside):
            yield s
            return
        empty.append(s)
    yield from empty[:limit]


def weights(t: torch.Tensor, seed: int) -> torch.Tensor:
    """Fixed numbers in [0, 1) of t's shape, dtype and device, without drawing any: see Draws."""
    steps = torch.arange(t.numel(), dtype=torch.float64) + seed
    return (steps * 0.6180339887498949).frac().reshape(t.shape).to(dtype=t.dtype, device=t.device)


def call(op, sample, where: str):
    """The outputs, and the gradients of what needs them."""
    value, args, kwargs = move((sample.input, list(sample.args), sample.kwargs), where)
    args = list(sample.args) if op.name in HOST_ARGUMENTS else args
    kwargs = {k: (torch.device(where) if k == "device" and v is not None else v) for k, v in kwargs.items()}
    needs = [t for t in tensors((value, args, kwargs)) if t.requires_grad]
    out = op(value, *args, **kwargs)
    if not needs:
        return host(out), []
    loss: Any = 0
    for i, t in enumerate(tensors(sample.output_process_fn_grad(out))):
        if not t.requires_grad or not (t.is_floating_point() or t.is_complex()):
            continue
        part = (t * weights(t, i)).sum()
        loss = loss + (part.real + part.imag if part.is_complex() else part)
    if not isinstance(loss, torch.Tensor):
        return host(out), []
    return host(out), host(torch.autograd.grad(loss, needs, allow_unused=True))


def alike(got, expected) -> str:
    """ "" when equal at default tolerances; "loose" when to 1e-3; else what differs."""
    g, _ = tree_flatten(got)
    e, _ = tree_flatten(expected)
    if len(g) != len(e):
        return f"{len(g)} results for {len(e)}"
    worst = ""
    for x, y in zip(g, e, strict=True):
        if not isinstance(y, torch.Tensor):
            if x != y and not (isinstance(x, float) and abs(x - y) <= 1e-5 * abs(y)):
                return f"{x} for {y}"
            continue
        if x.layout != torch.strided:
            x, y = x.to_dense(), y.to_dense()
        try:
            torch.testing.assert_close(x, y, equal_nan=True)
        except AssertionError as error:
            text = " ".join(str(error).split())
            try:
                torch.testing.assert_close(x, y, equal_nan=True, rtol=1e-3, atol=1e-3)
                worst = LOOSE
            except AssertionError:
                return text
    return worst


def dense(t: torch.Tensor) -> bool:
    """Without gaps and overlaps: .cpu() keeps such strides."""
    return t.layout == torch.strided and torch.ops.aten.is_non_overlapping_and_dense.default(t)


def layouts(got, expected) -> str:
    """ "" when dense tensors have the CPU's strides along dims of more than one element."""
    for x, y in zip(tensors(got), tensors(expected), strict=True):
        if x.layout == y.layout and x.numel() and dense(x) and dense(y):
            a, b = ([s for s, n in zip(t.stride(), t.shape, strict=True) if n > 1] for t in (x, y))
            if a != b:
                return f"strides {tuple(x.stride())} for {tuple(y.stride())} of {tuple(y.shape)}"
    return ""


class Draws(TorchDispatchMode):
    """Whether an op that draws random numbers was seen."""

    seen = False

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen |= torch.Tag.nondeterministic_seeded in func.tags
        return func(*args, **(kwargs or {}))


def shapes(x):
    """What random results have in common."""
    return tree_map(lambda t: (t.dtype, t.shape) if isinstance(t, torch.Tensor) else type(t), x)


def compare(op, got, expected, random: bool) -> str:
    if random:
        a, b = shapes(got[0]), shapes(expected[0])
        return "" if a == b else f"{a} for {b}"
    laid = "" if op.name in STRIDES or op.name in UNDEFINED else layouts(got[0], expected[0])
    gauge = GAUGE.get(op.name, lambda out: out)
    forward, backward = alike(gauge(got[0]), gauge(expected[0])), alike(got[1], expected[1])
    if forward in ("", LOOSE) and backward not in ("", LOOSE):
        return "backward: " + backward
    return forward if forward not in ("", LOOSE) else laid or forward or backward


def run(op, sample) -> Outcome:
    """One sample, with the fallback where there is no kernel."""
    try:
        expected = call(op, sample, "cpu")
        with Draws() as draws:
            call(op, sample, "cpu")
    except Exception as error:
        return Outcome(NO_CPU, f"the CPU raises {type(error).__name__}")
    torch.tpu.reset_fallback_report()
    try:
        got = call(op, sample, "tpu")
        torch.tpu.synchronize()
    except Exception as error:
        return Outcome(ERROR, f"{type(error).__name__}: {' '.join(str(error).split())[:200]}")
    used = sorted(name.removeprefix("aten::") for name in torch.tpu.fallback_report())
    problem = compare(op, got, expected, draws.seen or op.name in UNDEFINED)
    if problem not in ("", LOOSE):
        return Outcome(WRONG, problem[:200])
    if used:
        return Outcome(FALLBACK, "on the CPU: " + ", ".join(used))
    return Outcome(LOOSE, "right to 1e-3") if problem == LOOSE else Outcome(NATIVE)


def check(name: str, dtype: torch.dtype = torch.float32, limit: int | None = 1) -> Outcome:
    """The worst outcome over the samples."""
    op = OPS[name]
    worst = Outcome(NATIVE)
    policy = torch.tpu.get_fallback_policy()
    torch.tpu.set_fallback_policy("silent")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for sample in samples(op, dtype, limit):
                outcome = run(op, sample)
                if ORDER.index(outcome.state) > ORDER.index(worst.state):
                    worst = outcome
    except Exception as error:  # the samples themselves cannot be made on this machine
        return Outcome(NO_CPU, f"no samples: {type(error).__name__}")
    finally:
        torch.tpu.set_fallback_policy(policy)
    return worst


def names(dtype: torch.dtype = torch.float32) -> list[str]:
    return [n for n, op in OPS.items() if op.supports_dtype(dtype, "cpu")]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--only", default="", help="part of a name")
    parser.add_argument("--part", default="0/1", help="i/n: every n-th op, from the i-th")
    args = parser.parse_args()
    first, step = map(int, args.part.split("/"))
    states: dict[str, dict[str, str]] = {}
    for dtype in (torch.float32, torch.bfloat16) if args.all else (torch.float32,):
        counts: collections.Counter[str] = collections.Counter()
        for name in [n for n in names(dtype) if args.only in n][first::step]:
            outcome = check(name, dtype, None if args.all else 1)
            counts[outcome.state] += 1
            if outcome.state != NATIVE:
                states[name] = {"state": outcome.state, "why": outcome.why}
                print(f"{name:45} {outcome.state:9} {outcome.why}", flush=True)
        total = sum(counts.values())
        rates = ", ".join(
            f"{s} {counts[s]} ({100 * counts[s] / max(total, 1):.1f} %)" for s in ORDER if counts[s]
        )
        print(f"{dtype}: {total} ops: {rates}", flush=True)
    if args.write:
        STATES.write_text(json.dumps(dict(sorted(states.items())), indent=1) + "\n")
    return 0


if __name__ == "__main__":
    os.chdir(_conftest.ROOT)
    sys.exit(main())
