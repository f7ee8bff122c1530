"""Reductions, scans and shape ops: dtypes of results, empty tensors, NaN, and the same values whatever the padding of generic dims."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from helpers import COMPLEX, DEV, FLOATS, INTS, both, data, move, raises_alike, same
from torch_tpu import _C


def generic(x: torch.Tensor, dims: tuple[int, ...], fill: float) -> torch.Tensor:
    """x on the device, these dims padded with `fill` to the next rung."""
    t = x.to(DEV)
    for d in dims:
        rung = 8 if x.shape[d] <= 8 else 12
        _C.mark_generic(t.data_ptr(), 6, list(t.shape), list(t.stride()), 0, d, rung, fill)
    return t


def at(x: torch.Tensor, *i: int) -> torch.Tensor:
    return torch.tensor(i, device=x.device)


CASES = {
    "sum": lambda x: (x.sum(), x.sum(1), x.sum((0, 2), keepdim=True), x.nansum(1)),
    "mean": lambda x: (x.mean(), x.mean((1, 2)), torch.var_mean(x, 1), torch.std(x, (0, 1), correction=0)),
    "prod": lambda x: (x.prod(1), x.cumprod(0)),
    "extreme": lambda x: (x.max(), x.amax((0, 1)), x.max(0), x.min(2), x.aminmax(), x.aminmax(dim=1)),
    "arg": lambda x: (x.argmax(), x.argmin(1), x.argmax(2, keepdim=True)),
    "logic": lambda x: ((x > 2).any(), (x > -9).all(1), x.any(0), x.count_nonzero(1)),
    "norm": lambda x: (
        x.norm(),
        x.norm(1, 1),
        *(torch.linalg.vector_norm(x, p, dim=1) for p in (0, 3.5, math.inf, -math.inf)),
    ),
    "distance": lambda x: (torch.dist(x, x * 2), x.renorm(2, 1, 1.0)),
    "logsumexp": lambda x: (x.logsumexp(1), x.logsumexp((0, 2))),
    "scan": lambda x: (x.cumsum(1), x.cummax(1), x.cummin(0), x.logcumsumexp(2)),
    "order": lambda x: (
        x.sort(dim=1, stable=True),
        x.sort(dim=0, descending=True, stable=True),
        x.topk(2, 1)[0],
    ),
    "places": lambda x: (x.median(1)[0], x.kthvalue(2, 1)[0], x.nanmedian(2)[0]),
    "flip": lambda x: (x.flip(0, 1), x.roll(2, 1), x.repeat(2, 1, 1), F.pad(x, (1, 1, 0, 2))),
    "cat": lambda x: (
        torch.cat([x, x * 2], 0),
        torch.cat([x, x * 2], 1),
        torch.cat([x, x[:, :, :1]], 2),
        torch.stack([x, x], 1),
    ),
    "take": lambda x: (x.index_select(1, at(x, 0, 4, 2)), x.index_select(0, at(x, 4)), x.take(at(x, 0, -1))),
    "index": lambda x: (x[at(x, 0, 4), :, at(x, 1, -1)], x[:, at(x, 0, -1)], x[x > 0], (x > 0).nonzero()),
    "gather": lambda x: (
        x.gather(1, x.argsort(dim=1, stable=True)),
        x.gather(1, x.argsort(dim=1, stable=True)[:, :2]),
    ),
    "write": lambda x: (
        x.index_put((x > 0,), x.new_tensor(7.0)),
        x.index_add(0, at(x, 1), x[:1]),
        x.scatter(1, (x * 0 + 1).nan_to_num().long(), 1.0),
    ),
}


@pytest.mark.parametrize("fill", [math.nan, 1e30])
@pytest.mark.parametrize("dims", [(), (1,), (2,), (0, 1, 2)], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_any_padding(name: str, dims: tuple[int, ...], fill: float) -> None:
    x = data(5, 7, 9)
    x[0, 0, 0] = math.nan
    if dims or fill > 0:
        same(CASES[name](generic(x, dims, fill)), CASES[name](x))


@pytest.mark.parametrize("dtype", [*FLOATS, *INTS, torch.bool, *COMPLEX], ids=str)
def test_dtypes(dtype: torch.dtype) -> None:
    x = data(3, 4, dtype=dtype)
    both(
        lambda x: (
            x.sum(),
            x.sum(1),
            x.sum(1, dtype=torch.float64),
            x.prod(0),
            x.cumsum(1),
            x.cumprod(0),
            x.any(1),
            x.all(),
        ),
        x,
    )
    if not dtype.is_complex:
        both(lambda x: (x.max(), x.amin(1), x.max(1), x.cummax(0), x.count_nonzero()), x)
    if dtype.is_floating_point or dtype.is_complex:
        both(
            lambda x: (
                x.mean(),
                x.mean(0),
                x.var(),
                x.std(1),
                x.norm(),
                torch.linalg.vector_norm(x, 3, dim=0),
                x.logsumexp(0),
            ),
            x,
        )


def test_low_floats_accumulate_wide() -> None:
    for dtype in (torch.bfloat16, torch.float16):
        x = torch.ones(10000, dtype=dtype, device=DEV)
        assert x.sum().item() == torch.tensor(10000.0, dtype=dtype).item()
        assert x.cumsum(0)[-1].item() == torch.tensor(10000.0, dtype=dtype).item()


def test_empty() -> None:
    both(
        lambda x: (
            x.sum(),
            x.sum(0),
            x.prod(1),
            x.mean(0),
            x.any(),
            x.all(0),
            x.logsumexp(0),
            x.amax(1),
            x.cumsum(0),
        ),
        torch.zeros(0, 3),
    )
    both(
        lambda x: (
            torch.cat([x, x.new_zeros(0), x]),
            torch.stack([x[:0], x[:0]]),
            x[:0].flip(0),
            x[:0].repeat(2, 2),
        ),
        data(2, 3),
    )
    both(
        lambda x: (x.sort(), x[:, :0].sort(), x[:0].topk(0, 0), x[:0].nonzero(), x[:0].unique()),
        data(2, 3),
        strides=False,
    )
    raises_alike(
        lambda x: x.max(),
        torch.zeros(0),
        words="Expected reduction dim to be specified for input.numel() == 0",
    )
    raises_alike(
        lambda x: x.max(0), torch.zeros(0, 2), words="Expected reduction dim 0 to have non-zero size"
    )
    raises_alike(lambda x: x.sum(2), torch.zeros(1, 2), words="Dimension out of range")
    raises_alike(lambda x: x.mean(), torch.zeros(2, dtype=torch.int64), words="could not infer output dtype")


def test_gradients() -> None:
    x = data(4, 5, 6).requires_grad_()
    for fn in (
        lambda x: x.prod(1) + x.std(1) + x.norm(dim=1) + x.logsumexp(1) + x.amax(1),
        lambda x: x.max(1)[0] + x.cumprod(1).sum(1) + x.cummax(1)[0].sum(1) + x.median(1)[0],
        lambda x: x[torch.tensor([0, 0, 2])] * x.index_select(0, torch.tensor([1, 1, 1], device=x.device)),
        lambda x: x[x.detach() > 0],
        lambda x: F.pad(x, (1, 2, 1, 1), mode="reflect") + F.pad(x, (2, 1, 1, 1), mode="replicate"),
        lambda x: x.unfold(1, 3, 2) * 2,
        lambda x: F.fold(F.unfold(x[None], (2, 3), stride=2, padding=1), (5, 6), (2, 3), stride=2, padding=1),
        lambda x: torch.cdist(x, x + 1) + torch.cdist(x, x + 1, p=1.0),
        lambda x: x.scatter_add(1, x.detach().argsort(1), x * 2).gather(2, x.detach().argsort(2)),
    ):
        results = []
        for device in ("cpu", DEV):
            y = move(x, device).requires_grad_()
            out = fn(y)
            out.backward(torch.linspace(-1, 1, out.numel()).reshape(out.shape).to(device))
            results.append((out, y.grad))
        same(results[1], results[0])
