"""Convolutions and dots of the builder against torch's CPU values, on the real CPU plugin."""

import pytest
import torch
from ir_harness import *

load()
torch.manual_seed(0)


def conv(spatial, **kw):
    c = Conv(spatial=spatial)
    for k, v in kw.items():
        if isinstance(v, (tuple, list)):
            for i, n in enumerate(v):
                getattr(c, k)[i] = n
        else:
            setattr(c, k, v)
    return c


CONVS = [  # N, C, size, O, kernel, stride, pad, dilation, groups
    (2, 3, (9,), 4, (3,), (2,), (1,), (1,), 1), (2, 4, (9, 8), 6, (3, 2), (1, 2), (1, 0), (1, 1), 1), (2, 4, (9, 8), 6, (3, 3), (1, 1), (2, 2), (2, 2), 2),
    (2, 4, (9, 8), 4, (3, 3), (1, 1), (1, 1), (1, 1), 4), (2, 4, (9, 8), 8, (3, 3), (2, 2), (1, 1), (1, 1), 4), (1, 2, (5, 6, 7), 3, (2, 3, 2), (1, 1, 1), (1, 1, 0), (1, 1, 1), 1),
    (2, 8, (2, 2), 8, (3, 3), (1, 1), (1, 1), (1, 1), 1), (2, 6, (1, 1), 8, (1, 1), (1, 1), (0, 0), (1, 1), 1), (2, 6, (7,), 6, (3,), (1,), (1,), (1,), 6),
    (2, 6, (2, 2), 6, (3, 3), (2, 2), (1, 1), (1, 1), 3), (2, 3, (1, 1), 4, (3, 3), (1, 1), (1, 1), (1, 1), 1), (1, 3, (8, 8), 5, (8, 8), (1, 1), (0, 0), (1, 1), 1),
    (2, 3, (9, 10), 4, (2, 3), (2, 3), (0, 0), (1, 1), 1), (2, 3, (9, 10), 4, (2, 2), (3, 4), (1, 0), (1, 1), 1), (2, 4, (6, 6), 6, (3, 3), (1, 1), (1, 1), (1, 1), 2),
    (2, 4, (6, 5, 4), 6, (3, 2, 2), (2, 1, 2), (1, 1, 0), (1, 2, 1), 2), (2, 4, (3, 3, 3), 4, (3, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1), 4),
    (2, 4, (6, 5), 4, (1, 1), (2, 2), (0, 0), (1, 1), 1), (1, 2, (12,), 3, (9,), (2,), (9,), (2,), 1),
]  # fmt: skip


@pytest.mark.parametrize("cpu", [True, False])
@pytest.mark.parametrize("case", CONVS)
@pytest.mark.parametrize("dt", [torch.float32, torch.bfloat16, torch.float64, torch.int32])
def test_conv(case, dt, cpu):
    import torch.nn.functional as F

    n, c, size, o, k, stride, pad, dil, groups = case
    x, w = (torch.randn(n, c, *size) * 3).to(dt), (torch.randn(o, c // groups, *k) * 3).to(dt)
    f = [F.conv1d, F.conv2d, F.conv3d][len(size) - 1]
    a = conv(len(size), stride=stride, lo=pad, hi=pad, rhs_dilation=dil, feature_groups=groups)
    p = Program(cpu=cpu)
    p.ret(p.b.b_convolution(p.param(x), p.param(w), a))
    up = torch.float32 if dt == torch.bfloat16 else torch.float64 if dt == torch.int32 else dt
    want = f(x.to(up), w.to(up), None, stride, pad, dil, groups).to(dt)
    same(p.run(), want, 2e-2 if dt == torch.bfloat16 else 1e-4)


@pytest.mark.parametrize("cpu", [True, False])
@pytest.mark.parametrize("case", CONVS)
def test_conv_backward(case, cpu):
    """Gradients written as convolutions (lhs dilation, batch groups, flip, odd pads): as lower/ writes them."""
    import torch.nn.functional as F

    n, c, size, o, k, stride, pad, dil, groups = case
    f = [F.conv1d, F.conv2d, F.conv3d][len(size) - 1]
    x, w = torch.randn(n, c, *size, requires_grad=True), torch.randn(o, c // groups, *k, requires_grad=True)
    y = f(x, w, None, stride, pad, dil, groups)
    g = torch.randn_like(y)
    gx, gw = torch.autograd.grad(y, (x, w), g)
    r = len(size)
    p = Program(cpu=cpu)
    b, xv, wv, gv = p.b, p.param(x), p.param(w), p.param(g)
    # input gradient: conv of dilated g with the flipped kernel, O and C exchanged within a group
    wt = b.b_reshape(wv, shape(groups, o // groups, c // groups, *k))
    wt = b.b_reshape(b.b_swap(wt, 1, 2), shape(c, o // groups, *k))
    span = [(k[i] - 1) * dil[i] for i in range(r)]
    lo = [span[i] - pad[i] for i in range(r)]
    hi = [size[i] - ((y.shape[2 + i] - 1) * stride[i] + 1 + lo[i] - span[i]) for i in range(r)]
    gxv = b.b_convolution(
        gv,
        wt,
        conv(
            r,
            stride=(1,) * r,
            lo=lo,
            hi=hi,
            lhs_dilation=stride,
            rhs_dilation=dil,
            feature_groups=groups,
            flip=True,
        ),
    )
    # weight gradient: x as [C, N, ...], g as kernel [O, N, ...], batch groups
    hw = [(k[i] - 1) * dil[i] + (y.shape[2 + i] - 1) * stride[i] + 1 - size[i] - pad[i] for i in range(r)]
    gwv = b.b_convolution(
        b.b_swap(xv, 0, 1),
        b.b_swap(gv, 0, 1),
        conv(r, stride=dil, lo=pad, hi=hw, rhs_dilation=stride, batch_groups=groups),
    )
    p.ret(gxv, b.b_swap(gwv, 0, 1))
    got = p.run()
    same(got[0], gx, 1e-3)
    same(got[1], gw, 1e-3)


def test_conv_empty():
    for x, w in [((0, 3, 5, 5), (4, 3, 3, 3)), ((2, 0, 5, 5), (4, 0, 3, 3)), ((2, 3, 5, 5), (0, 3, 3, 3))]:
        got = run(lambda b, p, x, w: b.b_convolution(x, w, conv(2)), torch.ones(x), torch.ones(w))
        same(got, torch.zeros(x[0], w[0], 3, 3), 0)


@pytest.mark.parametrize(
    "dt", FLOATS + [torch.int32, torch.int64, torch.uint8, torch.int8, torch.complex64, torch.bool]
)
def test_matmul(dt):
    for a, c in [((4,), (4,)), ((3, 4), (4,)), ((4,), (4, 5)), ((3, 4), (4, 5)), ((2, 3, 4), (4, 5)), ((2, 3, 4), (2, 4, 5)), ((7, 1, 3, 4), (2, 4, 5)),
                 ((4,), (2, 4, 5)), ((2, 3, 4), (4,)), ((0, 4), (4, 3)), ((3, 0), (0, 2))]:  # fmt: skip
        x, y = (torch.randn(a) * 3).to(dt), (torch.randn(c) * 3).to(dt)
        got = run(lambda b, p, x, y: b.b_matmul(x, y), x, y)
        if dt == torch.bool:
            want = (x.int() @ y.int()) > 0
        elif dt in (torch.float16, torch.bfloat16):
            want = (x.float() @ y.float()).to(dt)
        else:
            want = x @ y
        same(got, want, 1e-2 if dt in (torch.float16, torch.bfloat16) else 1e-4)
    if dt == torch.bfloat16:
        x, y = torch.randn(3, 4).to(dt), torch.randn(4, 5).to(dt)
        for cpu in (True, False):
            p = Program(cpu=cpu)
            p.ret(p.b.b_matmul_acc(p.param(x), p.param(y), torch.float32))
            same(p.run(), x.float() @ y.float(), 1e-5)


def test_dot_general():
    x, y = torch.randn(2, 3, 4, 5), torch.randn(5, 7, 2, 3)
    got = run(
        lambda b, p, x, y: b.b_dot_general(x, y, 2, ints([3, 1]), ints([0, 3]), 1, ints([0]), ints([2])), x, y
    )
    same(got, torch.einsum("bijk,kobi->bjo", x, y), 1e-4)
