"""Every operator of PyTorch's database on operands with padding: which rows are right, which are used on exact copies.

    python tests/py/sweep.py [--only NAME] [--part i/n] [--limit SAMPLES]

For each sample and each size in it, all dims of that size are padded with NaN, then with 1e30 (integers and bools with extreme
values), and forward and backward are compared with the CPU. Prints the ops that are wrong, and those that needed exact copies.
"""

from __future__ import annotations

import argparse
import itertools
import math
import sys
import warnings

import conformance as c
import torch
from torch.utils._pytree import tree_map

FILLS = [math.nan, 1e30]


def rung(n: int) -> int:
    p = 2
    while p < n + 1:
        if p + p // 2 >= n + 1 and p > 1:
            return p + p // 2
        p *= 2
    return p


def pad(x, size: int, fill: float):
    """A tpu copy of x, every dim of this size padded."""
    if not isinstance(x, torch.Tensor) or x.layout != torch.strided:
        return x
    t = x.detach().clone(memory_format=torch.contiguous_format).to("tpu")
    for d, n in enumerate(t.shape):
        if n == size and t.numel() and t.dtype not in (torch.complex32,):
            torch.ops.tpu._mark_generic(t, d, rung(n), fill)
    return t.requires_grad_(x.requires_grad)


def moved(op, x, size: int, fill: float):
    """The arguments on the device; what PyTorch wants on the CPU stays there."""
    return x if op.name in c.HOST_ARGUMENTS else tree_map(lambda t: pad(t, size, fill), x)


def sizes(sample) -> list[int]:
    tensors = c.tensors((sample.input, sample.args, sample.kwargs))
    return sorted({n for t in tensors for n in t.shape if 1 < n < 200})


def run(op, sample, value, args, kwargs):
    needs = [t for t in c.tensors((value, args, kwargs)) if t.requires_grad]
    out = op(value, *args, **kwargs)
    loss = 0
    for i, t in enumerate(c.tensors(sample.output_process_fn_grad(out))):
        if t.requires_grad and (t.is_floating_point() or t.is_complex()):
            part = (t * c.weights(t, i)).sum()
            loss = loss + (part.real + part.imag if part.is_complex() else part)
    if not needs or not isinstance(loss, torch.Tensor):
        return c.host(out), []
    return c.host(out), c.host(torch.autograd.grad(loss, needs, allow_unused=True))


def check(name: str, limit: int) -> tuple[list[str], set[str]]:
    op = c.OPS[name]
    dtype = (
        torch.float32 if op.supports_dtype(torch.float32, "cpu") else next(iter(op.supported_dtypes("cpu")))
    )
    wrong: list[str] = []
    exact: set[str] = set()
    for k, sample in enumerate(itertools.islice(c.samples(op, dtype, None), limit)):
        try:
            expected = c.call(op, sample, "cpu")
            with c.Draws() as draws:
                c.call(op, sample, "cpu")
            plain = c.run(op, sample)
        except Exception:
            continue
        if draws.seen or name in c.UNDEFINED or plain.state not in (c.NATIVE,):
            continue
        for size in sizes(sample):
            for fill in FILLS:
                before = {o: e["count"] for o, e in torch.tpu.explain_sizes()["exact"].items()}
                try:
                    value = tree_map(lambda t: pad(t, size, fill), sample.input)
                    args, kwargs = moved(op, (list(sample.args), sample.kwargs), size, fill)
                    kwargs = {
                        n: (torch.device("tpu") if n == "device" and v is not None else v)
                        for n, v in kwargs.items()
                    }
                    got = run(op, sample, value, args, kwargs)
                    problem = c.compare(op, got, expected, False)
                except Exception as error:
                    problem = f"{type(error).__name__}: {' '.join(str(error).split())[:150]}"
                if problem:
                    wrong.append(f"{name} sample {k} size {size} fill {fill}: {problem[:200]}")
                after = {o: e["count"] for o, e in torch.tpu.explain_sizes()["exact"].items()}
                exact |= {o for o, n in after.items() if n != before.get(o, 0)}
    return wrong, exact


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="")
    parser.add_argument("--part", default="0/1")
    parser.add_argument("--limit", type=int, default=4)
    parser.add_argument("--nan", action="store_true", help="padding with NaN alone")
    args = parser.parse_args()
    first, step = map(int, args.part.split("/"))
    if args.nan:
        del FILLS[1:]
    names = [n for n in sorted(c.OPS) if args.only in n][first::step]
    bad = 0
    warnings.simplefilter("ignore")
    for name in names:
        try:
            wrong, exact = check(name, args.limit)
        except Exception as error:
            print(f"{name}: no samples: {type(error).__name__}", flush=True)
            continue
        for w in wrong[:3]:
            print("WRONG", w, flush=True)
        if exact:
            print("exact", name, sorted(exact), flush=True)
        bad += bool(wrong)
    print(f"{len(names)} ops, {bad} wrong")
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
