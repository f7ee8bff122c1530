"""Reductions, cumulative verbs and windows of the builder against torch's CPU values, on the real CPU plugin."""

import ctypes as C

import pytest
import torch
from ir_harness import *

load()
torch.manual_seed(0)


@pytest.mark.parametrize("dt", FLOATS + INTS + [torch.bool])
def test_reduce(dt):
    x = (torch.randn(3, 4, 5) * 3).to(dt)
    for axes in [(0,), (1,), (2,), (0, 1), (1, 2), (0, 2), (0, 1, 2)]:
        mask = sum(1 << a for a in axes)
        got = run(
            lambda b, p, x: [
                b.b_sum(x, mask, 0),
                b.b_max(x, mask, 1),
                b.b_min(x, mask, 0),
                b.b_reduce(1, x, mask, 0),
            ],
            x,
        )
        acc = x.float() if dt in (torch.bfloat16, torch.float16) else x
        prod = acc
        for a in reversed(axes):
            prod = prod.prod(a, dtype=acc.dtype) if dt != torch.bool else prod.all(a)
        s = (
            acc.sum(axes, dtype=acc.dtype)
            if dt != torch.bool
            else x.any(axes[0])
            if len(axes) == 1
            else x.sum(axes) > 0
        )
        want = [s.to(dt), x.amax(axes, keepdim=True), x.amin(axes), prod.to(dt)]
        same(got, want, 1e-2 if dt in (torch.bfloat16, torch.float16) else None)


@pytest.mark.parametrize(
    "shape_", [(5,), (37,), (1000,), (5, 7), (64, 33), (192, 576), (3, 4, 5), (8, 16, 32), (1, 9), (9, 1)]
)
def test_reduce_nan(shape_):
    for dt in FLOATS[:3]:
        for where in (0, -1):
            x = torch.randn(shape_).to(dt)
            x.view(-1)[where] = nan
            for mask in range(1, 1 << x.dim()):
                axes = [a for a in range(x.dim()) if mask >> a & 1]
                got = run(lambda b, p, x: [b.b_max(x, mask, 0), b.b_min(x, mask, 0)], x)
                same(got, [x.amax(axes), x.amin(axes)], 0)


def test_reduce_more():
    ones = torch.ones(10000, dtype=torch.bfloat16)
    assert run(lambda b, p, x: b.b_sum(x, 1, 0), ones).item() == torch.tensor(10000.0).bfloat16().item()
    x = torch.tensor([[5, 3], [6, 1]], dtype=torch.int32)
    same(run(lambda b, p, x: [b.b_reduce(4, x, 1, 0), b.b_reduce(5, x, 1, 0), b.b_reduce(6, x, 1, 0), b.b_reduce(4, b.b_gt(x, b.b_like(x, 2.0)), 3, 0)], x),
         [torch.tensor([4, 1], dtype=torch.int32), torch.tensor([7, 3], dtype=torch.int32), torch.tensor([3, 2], dtype=torch.int32), torch.tensor(False)], 0)  # fmt: skip
    y = torch.randn(3, 4)
    same(run(lambda b, p, y: [b.b_mean(y, 1, 0), b.b_mean(b.b_cast(y, torch.bfloat16), 3, 1), b.b_count(y, 2, DT["I64"]), b.b_numel(y, DT["F32"])], y),
         [y.mean(0), y.bfloat16().mean((0, 1), keepdim=True), torch.tensor(4), torch.tensor(12.0)], 1e-2)  # fmt: skip
    z = torch.complex(torch.randn(3, 4), torch.randn(3, 4))
    same(
        run(lambda b, p, z: [b.b_sum(z, 1, 0), b.b_reduce(1, z, 2, 0), b.b_mean(z, 3, 0)], z),
        [z.sum(0), z.prod(1), z.mean()],
    )
    e = torch.zeros(0, 3)
    same(run(lambda b, p, e: [b.b_sum(e, 1, 0), b.b_max(e, 1, 0), b.b_mean(e, 1, 0), b.b_sum(e, 2, 0), b.b_reduce(1, e, 3, 0)], e),
         [torch.zeros(3), torch.full((3,), -inf), torch.full((3,), nan), torch.zeros(0), torch.tensor(1.0)], 0)  # fmt: skip


@pytest.mark.parametrize("dt", FLOATS + INTS + [torch.bool])
def test_arg(dt):
    x = torch.randint(0, 4, (6, 7)).to(dt)
    if dt.is_floating_point:
        x[2, 3] = x[2, 5] = nan
        x[3] = -inf
        x[4, 1] = inf
    for axis in (0, 1):
        for mx in (1, 0):
            v = C.c_int32()
            got = run(
                lambda b, p, x: [
                    b.b_argreduce(mx, x, axis, 0, C.byref(v)),
                    v.value,
                    b.b_argreduce(mx, x, axis, 1, None),
                ],
                x,
            )
            f = (torch.max if mx else torch.min)(x.float() if dt == torch.bool else x, axis)
            first = (torch.argmax if mx else torch.argmin)(x.float() if dt in (torch.bool,) else x, axis)
            same(got, [first, f.values.to(dt), first.unsqueeze(axis)], 0)


@pytest.mark.parametrize("n", [1, 2, 5, 33, 100])
def test_cumulative(n):
    x = torch.randn(3, n)
    x[1, n // 2] = nan
    i, j = C.c_int32(), C.c_int32()

    def f(b, p, x):
        k = b.b_cast(b.b_mul(x, b.b_like(x, 4.0)), torch.int32)
        return [b.b_cumulative(0, x, 1, 0), b.b_cumulative(1, x, 1, 0), b.b_cumulative(0, x, 0, 0), b.b_cumulative(0, x, 1, 1), b.b_cumulative(0, k, 1, 0),
                b.b_cum_arg(1, x, 1, C.byref(i)), i.value, b.b_cum_arg(0, x, 1, C.byref(j)), j.value, b.b_cumulative(2, x, 1, 0),
                b.b_cumulative(0, b.b_cast(x, torch.bfloat16), 1, 0)]  # fmt: skip

    k = (x * 4).nan_to_num(0).int()
    cm, cn = x.cummax(1), x.cummin(1)
    same(run(f, x), [x.cumsum(1), x.cumprod(1), x.cumsum(0), x.flip(1).cumsum(1).flip(1), k.cumsum(1).int(), cm.indices, cm.values, cn.indices, cn.values,
                     cm.values, x.bfloat16().float().cumsum(1).bfloat16()], 2e-3 if n < 100 else 2e-2)  # fmt: skip
    t = torch.tensor([[3, 1, 3, 2, 3, 1, 1]])
    same(
        run(
            lambda b, p, t: [
                b.b_cum_arg(1, t, 1, None),
                b.b_cum_arg(0, t, 1, None),
                b.b_cumulative(0, t, 1, 0),
            ],
            t,
        ),
        [t.cummax(1).indices, t.cummin(1).indices, t.cumsum(1)],
        0,
    )


def window(**kw):
    w = Window()
    for k, v in kw.items():
        for i, n in enumerate(v):
            getattr(w, k)[i] = n
    return w


@pytest.mark.parametrize("dt", FLOATS + [torch.int32])
def test_window(dt):
    import torch.nn.functional as F

    x = (torch.randn(2, 3, 7, 8) * 9).to(dt)
    w = window(size=(1, 1, 3, 2), stride=(1, 1, 2, 2), lo=(0, 0, 1, 1), hi=(0, 0, 1, 1))
    y = x.float() if dt in (torch.float16, torch.bfloat16) else x.double()
    got = run(
        lambda b, p, x: [
            b.b_reduce_window(0, x, w),
            b.b_reduce_window(2, x, w),
        ],
        x,
    )
    s = F.avg_pool2d(y, (3, 2), (2, 2), (1, 1), divisor_override=1).to(dt)
    m = F.max_pool2d(x if dt != torch.int32 else y, (3, 2), (2, 2), (1, 1))
    same(got, [s, m.to(dt)], 2e-2 if dt != torch.int32 else 0)


def test_window_nan():
    import torch.nn.functional as F

    x = torch.randn(2, 2, 9, 9)
    x[0, 0, 3, 3] = x[0, 0, 4, 4] = nan
    x[1, 1, :3, :3] = -inf
    for k, s, q, d in [
        ((3, 3), (1, 1), (1, 1), (1, 1)),
        ((2, 2), (2, 2), (0, 0), (1, 1)),
        ((2, 3), (1, 2), (1, 1), (2, 2)),
    ]:
        w = window(
            size=(1, 1) + k, stride=(1, 1) + s, lo=(0, 0) + q, hi=(0, 0) + q, window_dilation=(1, 1) + d
        )
        got = run(
            lambda b, p, x: [
                b.b_reduce_window(2, x, w),
                b.b_reduce_window(3, x, w),
            ],
            x,
        )
        v = F.max_pool2d(x, k, s, q, d)
        mn = -F.max_pool2d(-x, k, s, q, d)
        same(got, [v, mn], 0)
    e = torch.zeros(0, 2, 4, 4)
    w = window(size=(1, 1, 2, 2), stride=(1, 1, 2, 2))
    same(run(lambda b, p, x: b.b_reduce_window(2, x, w), e), torch.zeros(0, 2, 2, 2), 0)
