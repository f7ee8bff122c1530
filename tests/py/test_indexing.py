"""Indexing, scatters, sorts and results whose size depends on the data, against CPU PyTorch."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from helpers import DEV, FLOATS, INTS, both, data, raises_alike, same

# --- reading ---

READS = {
    "list": lambda x, i: x[i],
    "grid": lambda x, i: x[i.reshape(2, 2)],
    "middle": lambda x, i: x[:, i],
    "last": lambda x, i: x[..., i],
    "neighbours": lambda x, i: x[:, i, i.flip(0)],
    "apart": lambda x, i: x[i, :, i],
    "apart_broadcast": lambda x, i: x[i[:, None], :, i[None]],
    "new_dim": lambda x, i: x[None, i, ..., None],
    "number_and_list": lambda x, i: x[1, :, i],
    "nothing": lambda x, i: x[i[:0]],
    "select": lambda x, i: x.index_select(1, i.abs()),
    "take": lambda x, i: x.take(i - 2),
    "take_along": lambda x, i: x.take_along_dim(x.argsort(dim=1, stable=True), 1),
    "gather_short": lambda x, i: x.gather(2, i.reshape(2, 2, 1).abs()),
    "embedding": lambda x, i: F.embedding(i.clamp(0), x[0]),
}


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64], ids=str
)
@pytest.mark.parametrize("name", READS)
def test_read(name: str, dtype: torch.dtype) -> None:
    if name == "take_along" and dtype.is_complex:
        pytest.skip("no order")
    both(READS[name], data(4, 5, 6, dtype=dtype), torch.tensor([0, -4, 3, -1]), exact=True, strides=False)


MASKS = {
    "all_dims": lambda x, m: x[m],
    "first_dim": lambda x, m: x[m[:, 0, 0]],
    "two_dims": lambda x, m: x[m[:, :, 0]],
    "later_dim": lambda x, m: x[:, m[0, :, 0]],
    "beside_a_list": lambda x, m: x[m[:, 0, 0], torch.zeros(1, dtype=torch.int64, device=x.device)],
    "none_true": lambda x, m: x[m & ~m],
    "byte": lambda x, m: x[m.byte()] if x.device.type == "tpu" else x[m],
    "select": lambda x, m: x.masked_select(m[0]),
    "nonzero": lambda x, m: (m.nonzero(), *m.nonzero(as_tuple=True), (m & ~m).nonzero()),
    "nonzero_static": lambda x, m: torch.nonzero_static(m, size=7, fill_value=-9),
    "argwhere": lambda x, m: torch.argwhere(m),
}


@pytest.mark.filterwarnings("ignore:indexing with dtype torch.uint8")
@pytest.mark.parametrize("name", MASKS)
def test_masks_read(name: str, mode: str) -> None:
    x = data(4, 5, 6)
    both(MASKS[name], x, x > 0.3, exact=True, strides=False)


def test_programs_do_not_depend_on_the_count() -> None:
    x = torch.arange(1000.0, device=DEV)

    def read(n: int) -> None:
        same(x[x < n], torch.arange(1000.0)[:n])
        same((x < n).nonzero(), torch.arange(n)[:, None])

    for n in (0, 1, 2, 600):
        read(n)
    torch.tpu.reset_compile_stats()
    for n in (520, 700, 768):
        read(n)
    stats = torch.tpu.compile_stats()
    assert stats["programs_compiled"] + stats["programs_loaded"] == 0, stats


# --- writing ---


def _put(x, m, i, v):
    x[m] = v


WRITES = {
    "mask_number": lambda x, m, i: _put(x, m, i, 0),
    "mask_row": lambda x, m, i: _put(x, m[:, 0], i, torch.arange(6.0, device=x.device)),
    "mask_each": lambda x, m, i: _put(x, m, i, torch.arange(30.0, device=x.device)[: int(m.sum())]),
    "mask_rows": lambda x, m, i: _put(x, m[:, 0], i, torch.ones(int(m[:, 0].sum()), 6, device=x.device)),
    "mask_columns": lambda x, m, i: _put(x, (slice(None), m[0]), i, 7.0),
    "mask_and_number": lambda x, m, i: _put(x, (m[:, 0], 1), i, 7.0),
    "list": lambda x, m, i: _put(x, i, i, torch.arange(6.0, device=x.device)),
    "pairs": lambda x, m, i: _put(x, (i, i), i, 5.0),
    "strided": lambda x, m, i: _put(x.t(), i, i, 3.0),
    "add": lambda x, m, i: x.index_put_((i,), torch.ones(6, device=x.device), accumulate=True),
    "index_add": lambda x, m, i: x.index_add_(0, i, torch.ones(4, 6, device=x.device), alpha=2),
    "index_copy": lambda x, m, i: x.index_copy_(1, i[:2], torch.ones(5, 2, device=x.device)),
    "index_fill": lambda x, m, i: x.index_fill_(1, i, 4.0),
    "scatter": lambda x, m, i: x.scatter_(1, i[None], 9.0),
    "scatter_add": lambda x, m, i: x.scatter_add_(
        0, i[:, None].expand(4, 6), torch.ones(4, 6, device=x.device)
    ),
    "scatter_mean": lambda x, m, i: x.scatter_reduce_(0, i[:, None].expand(4, 6), x[:4].clone(), "mean"),
    "scatter_amax": lambda x, m, i: x.scatter_reduce_(
        0, i[:, None].expand(4, 6), x[:4] + 1, "amax", include_self=False
    ),
    "put": lambda x, m, i: x.put_(i, i.float(), accumulate=True),
    "masked_scatter": lambda x, m, i: x.masked_scatter_(m, torch.arange(30.0, device=x.device)),
}


@pytest.mark.parametrize("name", WRITES)
def test_write(name: str, mode: str) -> None:
    x = data(5, 6)
    i = torch.tensor([2, 0, 1, 3]) if "scatter_" in name else torch.tensor([2, 0, 2, 3])
    both(lambda x, m, i: (WRITES[name](x, m, i), x)[1], x, data(5, 6, seed=1) > 0, i, strides=False)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_many_duplicates_add_up(dtype: torch.dtype) -> None:
    x = torch.zeros(2, dtype=dtype, device=DEV)
    x.index_put_(
        (torch.zeros(1000, dtype=torch.int64, device=DEV),),
        torch.ones(1, dtype=dtype, device=DEV),
        accumulate=True,
    )
    assert x[0].item() == 1000


# --- errors ---


def test_errors() -> None:
    x, i = data(3, 4), torch.tensor([3])
    raises_alike(lambda x, i: x[i], x, i, words="out of")
    raises_alike(lambda x, i: x.index_select(0, i), x, i, words="index out of range in self")
    raises_alike(
        lambda x, i: x[0, 0].index_select(0, i),
        x,
        torch.zeros(3, dtype=torch.int64),
        words="only 1 value, got 3",
    )
    raises_alike(lambda x, i: F.embedding(i, x), x, i, words="index out of range in self")
    raises_alike(lambda x, i: x.gather(0, i[None]), x, i, words="out of")
    raises_alike(lambda x, i: x.scatter(0, i[None], 1.0), x, i, words="out of")
    raises_alike(lambda x, i: x[i, i, i], x, i, words="too many indices")
    raises_alike(lambda x, m: x[m], x, torch.ones(2, dtype=torch.bool), words="The shape of the mask")
    raises_alike(lambda x: x[[0, 1], [0, 1, 2]], x, words="shape mismatch")
    raises_alike(lambda x: x.topk(5), x, words="selected index k out of range")
    raises_alike(
        lambda x: torch.cat([x, x[:, :2]]), x, words="Sizes of tensors must match except in dimension 0"
    )


# --- order ---


def ordered(dtype: torch.dtype) -> torch.Tensor:
    """Ties, and for floats NaN, infinities and both zeros."""
    x = data(3, 50, dtype=dtype)
    x[:, 20:30] = x[:, 5:15]
    if dtype.is_floating_point:
        x[:, ::7] = math.nan
        x[:, 1], x[:, 2], x[:, 3], x[:, 4] = math.inf, -math.inf, -0.0, 0.0
        x[1] = -x[1]
    elif dtype != torch.bool:
        x[:, 0], x[:, 1] = torch.iinfo(dtype).max, torch.iinfo(dtype).min
    return x


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", [*FLOATS, *INTS, torch.bool], ids=str)
def test_stable_sort(dtype: torch.dtype, descending: bool) -> None:
    for dim in (0, 1):
        both(lambda x: torch.sort(x, dim=dim, descending=descending, stable=True), ordered(dtype), exact=True)


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int64, torch.uint8], ids=str)
def test_topk_and_kin(dtype: torch.dtype) -> None:
    x = ordered(dtype)
    for k, largest in ((1, True), (3, True), (3, False), (30, True), (30, False)):
        value, at = x.to(DEV).topk(k, 1, largest)
        same(value, x.topk(k, 1, largest)[0])
        torch.testing.assert_close(x.gather(1, at.cpu()), value.cpu(), equal_nan=True)
    both(
        lambda x: (
            x.kthvalue(4, 1)[0],
            x.median(1)[0],
            x.median(),
            x.argmax(1),
            x.argmin(),
            x.max(0),
            x.cummax(1),
        ),
        x,
    )
    if dtype.is_floating_point:
        both(lambda x: (x.nanmedian(1)[0], x.nanmedian()), x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.int32, torch.bool], ids=str)
def test_unique(dtype: torch.dtype) -> None:
    x = data(6, 8, dtype=torch.int64).remainder(3).to(dtype)
    full = dict(return_inverse=True, return_counts=True)
    both(lambda x: (torch.unique(x), torch.unique(x, **full)), x, strides=False)
    both(lambda x: torch.unique_consecutive(x, **full), x, strides=False)
    for dim in (0, 1):
        both(lambda x: torch.unique(x[:, :2].repeat(1, 9), dim=dim, **full), x, strides=False)
        both(lambda x: torch.unique_consecutive(x, dim=dim, **full), x, strides=False)


def test_counts_and_searches() -> None:
    i = data(40, dtype=torch.int64).abs()
    edges = torch.tensor([-1.0, 0.0, 0.0, 0.5, math.inf])
    both(lambda i: (i.bincount(), i.bincount(minlength=99), i.bincount(i.float()), i[:0].bincount()), i)
    both(lambda i: (torch.repeat_interleave(i), torch.repeat_interleave(i[:5], i[:5])), i)
    both(
        lambda x, e: (torch.bucketize(x, e), torch.bucketize(x, e, right=True, out_int32=True)),
        data(30),
        edges,
    )
    both(
        lambda x: (torch.searchsorted(x.sort(1)[0], x), torch.searchsorted(x, x, sorter=x.argsort(1))),
        data(3, 50),
    )
    both(lambda x: (torch.isin(x, x[:3]), torch.isin(x, 3), torch.isin(x, x.repeat(20)[5:], invert=True)), i)
    both(lambda x: (x.histc(7), x.histc(5, -1, 1), torch.histogram(x, 4)[0]), data(50))
