"""Order statistics, scans, searches and writes by index along generic dims: right whatever the padding holds, and not by exact
copies."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from helpers import data
from torch_tpu import _C

A, B, M = 5, 7, 3  # of x[A, B]; the indices are [A] or [A, B]


def places(n: int, *shape: int) -> torch.Tensor:
    return (data(*shape, seed=3) * 1000).long() % n


CASES = {  # of x[a, b], i[a] below 3, j[a, b] below 3, a table [3, b] that has no padding along its rows
    "sort": lambda x, i, j, t: x.sort(0)[0],
    "sort down": lambda x, i, j, t: x.sort(1, descending=True),
    "argsort": lambda x, i, j, t: j.argsort(stable=True, dim=1),
    "topk": lambda x, i, j, t: x.topk(3, 1),
    "topk least": lambda x, i, j, t: x.topk(2, 0, largest=False)[0],
    "kthvalue": lambda x, i, j, t: x.kthvalue(4, 0),
    "median": lambda x, i, j, t: x.median(1),
    "nanmedian": lambda x, i, j, t: x.where(x < 1, math.nan).nanmedian(0),
    "median of all": lambda x, i, j, t: x.median(),
    "mode": lambda x, i, j, t: j.mode(1)[0],
    "mode of rows": lambda x, i, j, t: (x * 2).round().mode(0),
    "quantile": lambda x, i, j, t: x.quantile(0.3, 1),
    "cumsum": lambda x, i, j, t: x.cumsum(1),
    "cumsum of ints": lambda x, i, j, t: j.cumsum(0),
    "cumprod": lambda x, i, j, t: x.cumprod(0),
    "cummax": lambda x, i, j, t: x.cummax(1),
    "cummin": lambda x, i, j, t: x.cummin(0),
    "logcumsumexp": lambda x, i, j, t: x.logcumsumexp(1),
    "complex logcumsumexp": lambda x, i, j, t: torch.complex(x, x.flip(0)).logcumsumexp(0),
    "searchsorted": lambda x, i, j, t: torch.searchsorted(x.sort(1)[0], x.flip(1), right=True),
    "searchsorted of one": lambda x, i, j, t: torch.searchsorted(x[:, 0].sort()[0], x),
    "bucketize": lambda x, i, j, t: torch.bucketize(x, x[0].sort()[0]),
    "isin": lambda x, i, j, t: torch.isin(j, i, invert=True),
    "flip": lambda x, i, j, t: x.flip(0, 1),
    "roll": lambda x, i, j, t: x.roll((2, -9), (0, 1)),
    "roll of all": lambda x, i, j, t: x.roll(4),
    "tril": lambda x, i, j, t: x.tril(1),
    "triu": lambda x, i, j, t: x.triu(-1),
    "index_put": lambda x, i, j, t: t.index_put((i,), x),
    "index_put accumulate": lambda x, i, j, t: t.index_put((i,), x, accumulate=True),
    "index_put columns": lambda x, i, j, t: x.t().index_put((i,), x[:, 0]),
    "index_add": lambda x, i, j, t: t.index_add(0, i, x, alpha=2),
    "index_copy": lambda x, i, j, t: x.index_copy(0, i.argsort(stable=True, dim=0), x * 3),
    "index_fill": lambda x, i, j, t: x.index_fill(0, i, 9.0),
    "index_reduce": lambda x, i, j, t: t.index_reduce(0, i, x, "mean", include_self=False),
    "scatter": lambda x, i, j, t: torch.zeros_like(x).scatter(1, j.sort(1)[1], x),
    "scatter_add": lambda x, i, j, t: t.scatter_add(0, j, x),
    "scatter_reduce": lambda x, i, j, t: t.scatter_reduce(0, j, x, "amax", include_self=False),
    "gather": lambda x, i, j, t: x.gather(1, j),
    "gather of a part": lambda x, i, j, t: x.gather(0, j[:2]),
    "take": lambda x, i, j, t: x.take(j + 4),
    "put": lambda x, i, j, t: x.put(j * 2, x, accumulate=True),
    "embedding": lambda x, i, j, t: F.embedding(j, t),
    "embedding gradient": lambda x, i, j, t: torch.ops.aten.embedding_dense_backward(x, i, 3, 1, False),
    "embedding by frequency": lambda x, i, j, t: torch.ops.aten.embedding_dense_backward(x, i, 3, -1, True),
    "bags": lambda x, i, j, t: F.embedding_bag(i, t, torch.tensor([0, 2], device=i.device), mode="mean"),
    "bags of rows": lambda x, i, j, t: F.embedding_bag(j, t, mode="sum", per_sample_weights=x),
    "greatest of bags": lambda x, i, j, t: F.embedding_bag(j, t, mode="max"),
    "one_hot": lambda x, i, j, t: F.one_hot(j, 3),
    "one_hot of any": lambda x, i, j, t: F.one_hot(i),
}


def check(name: str, x, i, j, t, dims: tuple[int, ...], fill: float) -> None:
    def pad(v: torch.Tensor, of: tuple[int, ...]) -> torch.Tensor:
        v = v.to("tpu")
        for d, k in enumerate(of):
            if k in dims:
                torch.ops.tpu._mark_generic(v, d, (8, 12)[k], fill)
        return v

    got = CASES[name](pad(x, (0, 1)), pad(i, (0,)), pad(j, (0, 1)), pad(t, (-1, 1)))
    expected = CASES[name](x, i, j, t)
    if isinstance(got, torch.Tensor):
        got, expected = (got,), (expected,)
    for g, e in zip(got, expected, strict=True):
        torch.testing.assert_close(g.cpu(), e)


@pytest.mark.parametrize("fill", [math.nan, 1e30])
@pytest.mark.parametrize("dims", [(0,), (1,), (0, 1)], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_right_with_any_padding(name: str, dims: tuple[int, ...], fill: float) -> None:
    before = torch.tpu.explain_sizes()["exact"]
    with torch.tpu.sizes("auto"):
        check(name, data(A, B), places(M, A), places(M, A, B), data(M, B, seed=5), dims, fill)
    assert torch.tpu.explain_sizes()["exact"] == before


@pytest.mark.parametrize("name", ["topk", "kthvalue", "gather of a part"])
def test_more_than_there_is(name: str) -> None:
    """The size is known when the program runs; what lies behind it is no element."""
    x, j = data(3, 2).to("tpu"), places(2, 3, 2).to("tpu")
    torch.ops.tpu._mark_generic(x, 0, 8, 1e30)
    torch.ops.tpu._mark_generic(x, 1, 8, 1e30)
    with pytest.raises(RuntimeError):
        {
            "topk": lambda: x.topk(3, 1)[0].cpu(),
            "kthvalue": lambda: x.kthvalue(4, 0)[0].cpu(),
            "gather of a part": lambda: x.gather(1, j.new_zeros(4, 1)).cpu(),
        }[name]()


# Where the least number in the padding shows; a wild index in it is dropped by scatters, and no element is made of what is behind it.
BITES = [
    "sort",
    "kthvalue",
    "median",
    "nanmedian",
    "quantile",
    "mode of rows",
    "index_add",
    "scatter_add",
    "gather",
]


@pytest.mark.parametrize("name", BITES)
def test_wrong_without_masks(name: str) -> None:
    _C.disable_masks(True)
    try:
        with pytest.raises((AssertionError, RuntimeError, IndexError)), torch.tpu.sizes("auto"):
            args = data(A, B), places(M, A), places(M, A, B), data(M, B, seed=5)
            check(name, *args, (0, 1), -1e30)
    finally:
        _C.disable_masks(False)
