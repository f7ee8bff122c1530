"""Rows on generic sizes in other dtypes than float32, with the extreme values of those in the padding; and on generic dims of two
sizes, where test_sizes_rows.py has one for all."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import product

import pytest
import torch
import torch.nn.functional as F
from helpers import data
from test_sizes_rows import CASES, RUNG, Case, close, operands, run

Tensors = list[torch.Tensor]


def padded(xs: Tensors, shapes: list[tuple[int | str, ...]], fill: float) -> Tensors:
    """On the device, the dims "n" and "m" padded to a rung."""
    out = [x.to("tpu") for x in xs]
    for t, s in zip(out, shapes, strict=True):
        for d, n in enumerate(s):
            if isinstance(n, str):
                torch.ops.tpu._mark_generic(t, d, RUNG if t.shape[d] > 16 else 16, fill)
    return out


def sized(shapes: list[tuple[int | str, ...]], sizes: dict[str, int]) -> list[tuple[int, ...]]:
    return [tuple(sizes[d] if isinstance(d, str) else d for d in s) for s in shapes]


# --- bfloat16 ---

# Where rounding decides: their sums are of many numbers, or their gradients divide by small ones.
COARSE = (
    "batch_norm",
    "group_norm",
    "layer_norm",
    "rms_norm",
    "cosine",
    "conv",
    "normalize",
    "gaussian",
    "bce",
)


@pytest.mark.parametrize("name", CASES)
def test_bfloat16(name: str) -> None:
    fn, shapes = CASES[name]
    for n in (19, 24):
        xs = [x.bfloat16().float() for x in operands(shapes, n)]
        expected = run(fn, xs)
        for fill in (math.nan, 1e30):
            got = run(fn, padded([x.detach().bfloat16() for x in xs], shapes, fill))
            for g, e in zip(got, expected, strict=True):
                scale = e.abs().max().item() if e.numel() else 0.0
                tolerance = (0.1 if name.startswith(COARSE) else 0.04) * max(scale, 0.25)
                torch.testing.assert_close(g.float(), e, rtol=0.05, atol=tolerance)


# --- whole numbers and truth values ---


def below(i: torch.Tensor, n: int) -> torch.Tensor:
    return i.long() % n


WHOLE: dict[str, Case] = {
    "add": (lambda x, y: x + y, [("n", "m"), ("n", "m")]),
    "mul spread": (lambda x, y: x * y, [("n", "m"), ("n", 1)]),
    "where": (lambda x, y: torch.where(x > y, x, y), [("n", "m"), ("m",)]),
    "compare": (lambda x, y: (x == y) | (x < y), [("n", "m"), ("n", "m")]),
    "bits": (lambda x, y: (x & y) ^ x, [("n", "m"), ("n", "m")]),
    "sum": (lambda x: x.sum(0), [("n", "m")]),
    "sum minor": (lambda x: x.sum(1), [("n", "m")]),
    "sum all": (lambda x: x.sum(), [("n", "m")]),
    "prod": (lambda x: (x > 0).long().prod(0), [("n", "m")]),
    "prod minor": (lambda x: x.prod(-1), [("n", "m")]),
    "amax": (lambda x: x.amax(0), [("n", "m")]),
    "amin": (lambda x: x.amin((0, 1)), [("n", "m")]),
    "max": (lambda x: x.max(0)[0], [("n", "m")]),
    "max index": (lambda x: x.max(1)[1], [("n", "m")]),
    "min index": (lambda x: x.min(0)[1], [("n", "m")]),
    "aminmax": (lambda x: torch.stack(torch.aminmax(x, dim=1)), [("n", "m")]),
    "argmax": (lambda x: x.argmax(), [("n", "m")]),
    "argmin": (lambda x: x.argmin(0), [("n", "m")]),
    "any": (lambda x: (x > 100).any(1), [("n", "m")]),
    "any itself": (lambda x: (x & 0).any(0), [("n", "m")]),
    "all": (lambda x: (x < 100).all(), [("n", "m")]),
    "all itself": (lambda x: (x | 1).all(1), [("n", "m")]),
    "count_nonzero": (lambda x: x.count_nonzero(0), [("n", "m")]),
    "cumsum": (lambda x: x.cumsum(0), [("n", "m")]),
    "cumsum back": (lambda x: x.flip(1).cumsum(1).flip(1), [("n", "m")]),
    "cumprod": (lambda x: (x % 2 + 1).cumprod(0), [("n", 3)]),
    "cummax": (lambda x: torch.stack((x.cummax(0)[0].long(), x.cummax(0)[1])), [("n", "m")]),
    "cummin": (lambda x: x.cummin(1)[0], [("n", "m")]),
    "diff": (lambda x: x.diff(dim=0), [("n", "m")]),
    "sort": (lambda x: x.sort(0)[0], [("n", "m")]),
    "sort descending": (lambda x: x.sort(1, descending=True)[0], [("n", "m")]),
    "argsort": (lambda x: x.argsort(dim=0, stable=True), [("n", "m")]),
    "argsort descending": (lambda x: x.argsort(dim=0, descending=True, stable=True), [("n", "m")]),
    "topk": (lambda x: x.topk(3, 0)[0], [("n", "m")]),
    "topk smallest": (lambda x: x.topk(3, 1, largest=False)[0], [("n", "m")]),
    "kthvalue": (lambda x: x.kthvalue(2, 0)[0], [("n", "m")]),
    "median": (lambda x: x.median(0)[0], [("n", "m")]),
    "unique": (lambda x: x.unique(), [("n", "m")]),
    "isin": (lambda x, y: torch.isin(x, y), [("n",), ("m",)]),
    "searchsorted": (lambda x, y: torch.searchsorted(x.sort()[0], y), [("n",), ("m",)]),
    "nonzero": (lambda x: x.nonzero(), [("n", "m")]),
    "masked_select": (lambda x: x.masked_select(x > 0), [("n", "m")]),
    "masked_fill": (lambda x: x.masked_fill(x > 0, 1), [("n", "m")]),
    "bincount": (lambda x: below(x, 9).bincount(), [("n",)]),
    "gather": (lambda x, i: x.gather(0, below(i, 5)), [("n", "m"), (4, "m")]),
    "gather minor": (lambda x, i: x.gather(1, below(i, 5)), [("n", 7), ("n", "m")]),
    "index_select": (lambda x, i: x.index_select(0, below(i, 5)), [("n", "m"), (4,)]),
    "index": (lambda x, i: x[below(i, 5)], [("n", 3), ("m",)]),
    "scatter": (lambda x, i: x.scatter(0, below(i, 5)[:1], x[2:3]), [("n", "m"), ("n", "m")]),
    "scatter_add": (lambda x, i: x.scatter_add(0, below(i, 5), x), [("n", "m"), ("n", "m")]),
    "scatter amax": (lambda x, i: x.scatter_reduce(0, below(i, 5), x, "amax"), [("n", "m"), ("n", "m")]),
    "index_add": (lambda x, i, y: x.index_add(0, below(i, 5), y), [("n", 3), ("m",), ("m", 3)]),
    "index_put": (
        lambda x, i, y: x.index_put((below(i, 5),), y, accumulate=True),
        [("n", 3), ("m",), ("m", 3)],
    ),
    "tril": (lambda x: x.tril(1), [("n", "m")]),
    "triu": (lambda x: x.triu(-1), [(2, "n", "m")]),
    "flip": (lambda x: x.flip((0, 1)), [("n", "m")]),
    "roll": (lambda x: x.roll((1, 2), (0, 1)), [("n", "m")]),
    "roll flat": (lambda x: x.roll(3), [("n", "m")]),
    "cat": (lambda x, y: torch.cat((x, y)), [("n", 3), ("m", 3)]),
    "cat minor": (lambda x, y: torch.cat((x, y, x), 1), [("n", 3), ("n", "m")]),
    "stack": (lambda x, y: torch.stack((x, y), 1), [("n", "m"), ("n", "m")]),
    "pad": (lambda x: F.pad(x, (1, 2), value=1), [("n", "m")]),
    "repeat": (lambda x: x.repeat(2, 1), [("n", "m")]),
    "repeat_interleave": (lambda x: x.repeat_interleave(2, 0), [("n", "m")]),
    "matmul": (lambda x, y: x @ y, [("n", "m"), ("m", 3)]),
    "bmm": (lambda x, y: torch.bmm(x, y), [("n", 2, "m"), ("n", "m", 2)]),
    "mv": (lambda x, y: x @ y, [("n", "m"), ("m",)]),
    "outer": (lambda x, y: torch.outer(x, y), [("n",), ("m",)]),
    "max_pool2d": (lambda x: F.max_pool2d(x, 2, 1, 1), [(2, "n", "m")]),
    "embedding": (lambda i, w: F.embedding(below(i, 5), w), [("n", "m"), (5, 3)]),
    "to float": (lambda x: x.float().softmax(0), [("n", "m")]),
    "mean": (lambda x: x.float().mean(1) + x.double().mean(), [("n", "m")]),
    "one_hot": (lambda x: F.one_hot(below(x, 5), 5), [("n", "m")]),
    "reshape": (lambda x: x.reshape(-1), [("n", "m")]),
    "transpose": (lambda x: x.t().contiguous(), [("n", "m")]),
}


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.uint8, torch.int32])
@pytest.mark.parametrize("name", WHOLE)
def test_whole_numbers(name: str, dtype: torch.dtype) -> None:
    fn, shapes = WHOLE[name]
    for n, m in ((19, 13), (7, 7)):
        xs = [data(*s, dtype=dtype, seed=k) for k, s in enumerate(sized(shapes, {"n": n, "m": m}))]
        try:
            expected = fn(*xs)
        except RuntimeError as e:
            pytest.skip(f"not on the CPU: {e}")
        for fill in (1e30, -1e30):
            before = torch.tpu.explain_sizes()["exact"]
            got = fn(*padded(xs, shapes, fill))
            assert got.dtype == expected.dtype
            torch.testing.assert_close(got.cpu(), expected)
            assert torch.tpu.explain_sizes()["exact"] == before


# --- two sizes ---


def split(shapes: list[tuple[int | str, ...]]) -> Iterator[list[tuple[int | str, ...]]]:
    """The shapes with some of their dims "n" called "m": of two such ways that are each other's inverse, one."""
    count = sum(d == "n" for s in shapes for d in s)
    for names in list(product("nm", repeat=count))[1 : 2 ** (count - 1)]:
        it = iter(names)
        yield [tuple(next(it) if d == "n" else d for d in s) for s in shapes]


def runs(fn: Callable[..., torch.Tensor], shapes: list[tuple[int, ...]]) -> Tensors | None:
    try:
        return run(fn, [data(*s, seed=k) for k, s in enumerate(shapes)])
    except (RuntimeError, IndexError, ValueError):
        return None  # the two dims are one


@pytest.mark.parametrize("name", [n for n, (_, s) in CASES.items() if any(split(s))])
@pytest.mark.filterwarnings("ignore:Using a target size")
def test_two_sizes(name: str) -> None:
    fn, shapes = CASES[name]
    for named in split(shapes):
        for n, m in ((19, 13), (13, 21), (21, 21)):
            concrete = sized(named, {"n": n, "m": m})
            expected = runs(fn, concrete)
            if expected is None:
                break
            for fill in (math.nan, 1e30):
                close(
                    run(fn, padded([data(*s, seed=k) for k, s in enumerate(concrete)], named, fill)), expected
                )
