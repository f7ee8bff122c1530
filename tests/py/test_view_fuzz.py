"""Random chains of views, read and written, against CPU: the geometry of value/geometry.c."""

import random

import pytest
import torch

DTYPES = [torch.float32, torch.int64, torch.bool, torch.bfloat16, torch.complex64, torch.float64]


def step(rng, t):
    """One random view of t, as a function to be applied on both sides."""
    kind = rng.choice(
        [
            "transpose",
            "slice",
            "step",
            "select",
            "expand",
            "unsqueeze",
            "diagonal",
            "unfold",
            "reshape",
            "flatten",
            "narrow",
        ]
    )
    r = t.dim()
    if kind == "unsqueeze" and r < 6:
        d = rng.randint(0, r)
        return lambda x: x.unsqueeze(d)
    if r == 0:
        return lambda x: x
    d, e = rng.randrange(r), rng.randrange(r)
    n = t.shape[d]
    if kind == "transpose":
        return lambda x: x.transpose(d, e)
    if kind in ("slice", "narrow") and n > 1:
        a = rng.randrange(n)
        b = rng.randint(a + 1, n)
        return lambda x: x.narrow(d, a, b - a)
    if kind == "step" and n > 2:
        a, s = rng.randrange(n), rng.randint(2, 3)
        return lambda x: x[(slice(None),) * d + (slice(a, None, s),)]
    if kind == "select" and n > 0:
        i = rng.randrange(n)
        return lambda x: x.select(d, i)
    if kind == "diagonal" and r > 1 and d != e:
        return lambda x: x.diagonal(0, d, e)
    if kind == "unfold" and n > 2:
        size = rng.randint(1, n - 1)
        s = rng.randint(1, 2)
        return lambda x: x.unfold(d, size, s)
    if kind == "expand" and n == 1:
        shape = list(t.shape)
        shape[d] = 3
        return lambda x: x.expand(shape)
    if kind == "flatten" and t.is_contiguous():
        return lambda x: x.flatten()
    if kind == "reshape" and t.is_contiguous() and n % 2 == 0 and n > 0:
        shape = list(t.shape)
        shape[d : d + 1] = [2, n // 2]
        return lambda x: x.view(shape)
    return lambda x: x


def make(rng, dtype):
    shape = [rng.randint(1, 6) for _ in range(rng.randint(1, 4))]
    t = torch.randint(-20, 20, shape)
    return t.to(dtype) if not dtype.is_complex else torch.complex(t.float(), t.float().roll(1))


def overlaps(t):
    """More than one index for one element: such tensors are not written."""
    idx = torch.zeros((), dtype=torch.int64)
    for n, s in zip(t.shape, t.stride()):
        idx = idx.unsqueeze(-1) + torch.arange(n) * s
    return idx.unique().numel() != idx.numel()


@pytest.mark.parametrize("seed", range(60))
def test_views(seed):
    rng = random.Random(seed)
    torch.manual_seed(seed)
    dtype = rng.choice(DTYPES)
    base = make(rng, dtype)
    dev = base.to("tpu")
    for _ in range(3):
        a, b = base, dev
        for _ in range(rng.randint(1, 4)):
            if a.numel() == 0:
                break
            f = step(rng, a)
            a, b = f(a), f(b)
        assert a.shape == b.shape and a.stride() == b.stride() and a.storage_offset() == b.storage_offset()
        torch.testing.assert_close(b.cpu(), a, rtol=0, atol=0)
        torch.testing.assert_close(b.clone().cpu(), a.clone(), rtol=0, atol=0)
        if a.dtype is not torch.bool:
            torch.testing.assert_close((b + b).cpu(), a + a, rtol=0, atol=0)
        if a.numel() and not overlaps(a):
            new = make(rng, dtype).flatten()[0].expand(a.shape)
            a.copy_(new)
            b.copy_(new.to("tpu"))
            torch.testing.assert_close(dev.cpu(), base, rtol=0, atol=0)
            if dtype not in (torch.bool,):
                a.mul_(2)
                b.mul_(2)
                torch.testing.assert_close(dev.cpu(), base, rtol=0, atol=0)
