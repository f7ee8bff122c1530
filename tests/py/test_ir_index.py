"""Shapes, gathers, scatters and sorts of the builder against torch's CPU values, on the real CPU plugin."""

import ctypes as C

import pytest
import torch
from ir_harness import *

load()
torch.manual_seed(0)


def test_select_clamp():
    x = EDGE
    same(run(lambda b, p, x: [b.b_select(b.b_gt(x, b.b_like(x, 0.0)), x, b.b_const(torch.int32, 3.0)), b.b_clamp(b.b_like(x, -1.0), x, b.b_like(x, 2.0)),
                              b.b_maximum(x, b.b_like(x, nan)), b.b_minimum(b.b_like(x, nan), x)], x),
         [torch.where(x > 0, x, 3.0), x.clamp(-1, 2), torch.full_like(x, nan), torch.full_like(x, nan)], 0)  # fmt: skip


def test_shapes():
    x = torch.randn(2, 3, 4)
    e = torch.randn(2, 0, 3)
    none = shape(2, 3, 4)

    def f(b, p, x, e):
        return [
            b.b_transpose(x, ints([2, 0, 1])), b.b_swap(x, 0, -1), b.b_unsqueeze(x, -1), b.b_squeeze(b.b_unsqueeze(x, 1), 1), b.b_flatten(x, 1, 2),
            b.b_slice(x, 2, wide(1), wide(4), wide(2)), b.b_slice(x, 1, wide(2), wide(1), wide(1)), b.b_pad_axis(x, 1, wide(2), wide(-1), b.b_like(x, 7.0)),
            b.b_pad(x, i64([0, 1, 0]), i64([0, 0, 1]), i64([0, 2, 1]), b.b_like(x, 0.0)), b.b_concat(vals([x, x, b.b_neg(x)]), 3, 1),
            b.b_reverse(x, 2), b.b_tile_dim(x, 1, wide(2)), b.b_repeat_interleave(x, 1, wide(2)), b.b_broadcast_to(b.b_slice(x, 1, wide(0), wide(1), wide(1)), shape(5, 2, 3, 4)),
            b.b_transpose(e, ints([1, 0, 2])), b.b_concat(vals([e, e]), 2, 1), b.b_sum(e, 2, 0), b.b_reshape(e, shape(0, 6)), b.b_reverse(e, 0), b.b_tile_dim(e, 1, wide(3)),
            b.b_broadcast_to(b.b_reshape(e, shape(2, 0, 3)), shape(4, 2, 0, 3)), b.b_flatten(b.b_sum(x, 7, 0), 0, 0), b.b_max(e, 4, 1), b.b_exp(e),
        ]  # fmt: skip

    ip = torch.full((2, 8, 7 + 1), 0.0)
    ip[:, 1::3, 0:7:2] = x
    same(run(f, x, e), [
        x.permute(2, 0, 1), x.transpose(0, 2), x[..., None], x, x.flatten(1), x[:, :, 1:4:2], x[:, 2:2], torch.cat([torch.full((2, 2, 4), 7.0), x[:, :2]], 1),
        ip, torch.cat([x, x, -x], 1), x.flip(2), x.repeat(1, 2, 1), x.repeat_interleave(2, 1), x[:, :1].expand(5, 2, 3, 4),
        e.permute(1, 0, 2), torch.cat([e, e], 1), e.sum(1), e.reshape(0, 6), e.flip(0), e.repeat(1, 3, 1), e.expand(4, 2, 0, 3), x.sum().reshape(1),
        torch.zeros(2, 0, 1), e], 1e-5)  # fmt: skip


def test_dynamic():
    x = torch.arange(12.0).reshape(3, 4)
    i = torch.tensor(2, dtype=torch.int64)
    u = torch.tensor([[50.0, 51.0]])
    got = run(lambda b, p, x, i, u: [b.b_dynamic_slice(x, vals([i, b.b_const(torch.int32, 1.0)]), i64([1, 3])),
                                     b.b_dynamic_update(x, u, vals([i, b.b_const(torch.int32, 1.0)])),
                                     b.b_dynamic_slice(x, vals([b.b_mul(i, i), i]), i64([2, 2]))], x, i, u)  # fmt: skip
    w = x.clone()
    w[2:3, 1:3] = u
    same(got, [x[2:3, 1:4], w, x[1:3, 2:4]], 0)


def test_gather():
    x = torch.randn(5, 6, 7)
    i = torch.tensor([[0, 4], [2, 1]])
    big = torch.randint(0, 6, (5, 3, 7))
    j = torch.tensor([0, 3, 5], dtype=torch.int32)
    got = run(lambda b, p, x, i, big, j: [b.b_take(x, i, 0), b.b_take(x, i, 1), b.b_take(x, i, 2), b.b_gather_axis(x, big, 1), b.b_gather_nd(x, vals([i, b.b_const(torch.int64, 2.0)]), 2),
                                          b.b_gather_nd(x, vals([i, b.b_cast(i, torch.int32), i]), 3), b.b_take(x, b.b_cast(j, torch.uint8), 1), b.b_gather_nd(x, vals([j]), 1),
                                          b.b_take(x, b.b_const(torch.int64, 3.0), 1), b.b_take(b.b_sum(x, 7, 0), i, 0)], x, i, big, j)  # fmt: skip
    same(
        got[:7] + got[8:9],
        [x[i], x[:, i], x[:, :, i], x[: 4 + 1].gather(1, big), x[i, 2], x[i, i, i], x[:, j], x[:, 3]],
        0,
    )
    big2 = torch.randint(0, 5, (2, 3, 4))
    same(
        run(
            lambda b, p, x, i: [b.b_gather_axis(x, i, 0), b.b_gather_axis(b.b_cast(x, torch.bfloat16), i, 2)],
            x,
            big2,
        ),
        [x.gather(0, big2), x.bfloat16().gather(2, big2)],
        0,
    )
    e = torch.zeros(0, 3)
    same(
        run(
            lambda b, p, e, i: [
                b.b_take(e, i, 1),
                b.b_take(e, b.b_slice(i, 0, wide(0), wide(0), wide(1)), 0),
            ],
            e,
            i % 3,
        ),
        [e[:, i % 3], torch.zeros(0, 2, 3)],
        0,
    )
    v = torch.randn(7)
    k = torch.randint(0, 7, (9,))
    same(run(lambda b, p, v, k: b.b_gather_axis(v, k, 0), v, k), v[k], 0)


@pytest.mark.parametrize("dt", FLOATS + [torch.int64, torch.bool])
def test_scatter(dt):
    x = (torch.randn(5, 6) * 3).to(dt)
    idx, src = torch.randint(0, 5, (3, 4)), (torch.randn(4, 5) * 3).to(dt)
    up = torch.float32 if dt in (torch.bfloat16, torch.float16) else dt
    kinds = [(3, "amax"), (4, "amin")] + [(1, "sum"), (2, "prod")] * (dt != torch.bool)
    for axis in (0, 1):
        got = run(
            lambda b, p, x, i, s: (
                [b.b_scatter_axis(k, x, i, s, axis) for k, _ in kinds]
                + [b.b_scatter_axis(0, x, i, b.b_const(torch.float32, 1.0), axis)]
            ),
            x,
            idx,
            src,
        )
        want = [
            x.to(up).scatter_reduce(axis, idx, src.to(up), r).to(dt)
            if dt != torch.bool
            else x.int().scatter_reduce(axis, idx, src.int(), r).bool()
            for _, r in kinds
        ] + [x.scatter(axis, idx, torch.tensor(1.0).to(dt).item())]
        same(got, want, 2e-2 if up != dt else 1e-5)
    perm = torch.stack([torch.randperm(5)[:3] for _ in range(4)], 1)
    same(run(lambda b, p, x, i, s: b.b_scatter_axis(0, x, i, s, 0), x, perm, src), x.scatter(0, perm, src), 0)
    rows = torch.tensor([1, 4, 1])
    up3 = (torch.randn(3, 6) * 3).to(dt)
    if dt != torch.bool:
        same(
            run(lambda b, p, x, r, u: b.b_scatter_nd(1, x, vals([r]), 1, u), x, rows, up3),
            x.to(up).index_put((rows,), up3.to(up), accumulate=True).to(dt),
            2e-2,
        )
    same(run(lambda b, p, x, r, u: b.b_scatter_nd(0, x, vals([r, b.b_add(r, b.b_const(torch.int64, 1.0))]), 2, b.b_const(torch.float32, 0.0)), x, rows, up3),
         x.index_put((rows, rows + 1), torch.zeros((), dtype=dt)), 0)  # fmt: skip
    same(
        run(
            lambda b, p, x, r, u: b.b_scatter_nd(0, x, vals([b.b_add(r, b.b_const(torch.int64, 3.0))]), 1, u),
            x,
            rows,
            up3,
        ),
        x.index_put((torch.tensor([4]),), up3[2:3]),
        0,
    )


def test_scatter_more():
    x = torch.randn(4)
    x[1] = nan
    i, s = torch.tensor([0, 1, 1, 3, 3]), torch.tensor([5.0, 2.0, 1.0, nan, 7.0])
    same(
        run(
            lambda b, p, x, i, s: [b.b_scatter_axis(3, x, i, s, 0), b.b_scatter_axis(4, x, i, s, 0)], x, i, s
        ),
        [x.scatter_reduce(0, i, s, "amax"), x.scatter_reduce(0, i, s, "amin")],
        0,
    )
    e = torch.zeros(0, dtype=torch.int64)
    same(
        run(
            lambda b, p, x, e: [
                b.b_scatter_nd(1, x, vals([e]), 1, b.b_const(torch.float32, 1.0)),
                b.b_scatter_axis(0, x, e, b.b_const(torch.float32, 1.0), 0),
            ],
            x,
            e,
        ),
        [x, x],
        0,
    )


@pytest.mark.parametrize("dt", FLOATS + INTS + [torch.bool])
def test_sort(dt):
    x = torch.randint(0, 5, (6, 9)).to(dt)
    if dt.is_floating_point:
        x[0, 3] = x[2, 2] = x[2, 4] = nan
        x[1, 1], x[1, 2], x[1, 0], x[1, 4] = -0.0, 0.0, inf, -inf
    i, j = C.c_int32(), C.c_int32()
    for axis in (0, 1):
        for desc in (False, True):
            got = run(
                lambda b, p, x: [
                    b.b_sort(x, axis, desc, C.byref(i)),
                    i.value,
                    b.b_sort(x, axis, desc, None),
                    b.b_topk(x, wide(3), axis, desc, C.byref(j)),
                    j.value,
                ],
                x,
            )
            v, k = x.sort(dim=axis, descending=desc, stable=True)
            assert torch.equal(got[1], k), (x, got[1], k)
            cut = [slice(None)] * 2
            cut[axis] = slice(3)
            same(got, [v, k, v, v[tuple(cut)], k[tuple(cut)]], 0)
    e = torch.zeros(2, 0, dtype=dt)
    same(
        run(lambda b, p, e: [b.b_sort(e, 1, 0, C.byref(i)), i.value], e),
        [e, torch.zeros(2, 0, dtype=torch.int64)],
        0,
    )


def test_sort_multi():
    x, y = torch.tensor([2, 1, 2, 1, 3]), torch.tensor([1.0, nan, 0.5, 2.0, -1.0])
    out = vals([0, 0, 0])

    def f(b, p, x, y):
        b.b_sort_multi(vals([x, y, b.b_iota(torch.int64, shape(5), 0)]), 3, 2, 0, False, out)
        return list(out)

    same(
        run(f, x, y),
        [
            torch.tensor([1, 1, 2, 2, 3]),
            torch.tensor([2.0, nan, 0.5, 1.0, -1.0]),
            torch.tensor([3, 1, 2, 0, 4]),
        ],
        0,
    )
