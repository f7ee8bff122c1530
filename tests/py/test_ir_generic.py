"""Generic dims: one program for all sizes up to the rung, right whatever the padding holds; and wrong without masks."""

import ctypes as C

import pytest
import torch
from ir_harness import *

load()
RUNG = 12
idx = C.c_int32


def pair(f):
    def g(b, *vs):
        o = idx()
        v = f(b, C.byref(o), *vs)
        return [v, o.value]

    return g


def sm(b, x):
    e = b.b_exp(b.b_sub(x, b.b_max(x, 2, 1)))
    return b.b_div(e, b.b_sum(e, 2, 1))


def data(n, *shape_):
    g = torch.Generator().manual_seed(n * 31 + len(shape_))
    return torch.randn([n if s == "n" else s for s in shape_], generator=g)


# name: (verbs, torch's word, operand shapes, does it need masks)
CASES = {
    "add": (lambda b, x, y: b.b_add(x, y), lambda x, y: x + y, [(3, "n"), ("n",)], False),
    "bcast1": (lambda b, x, y: b.b_mul(x, y), lambda x, y: x * y, [("n", 3), ("n", 1)], False),
    "sum": (lambda b, x: b.b_sum(x, 2, 0), lambda x: x.sum(1), [(3, "n")], True),
    "sum_mid": (lambda b, x: b.b_sum(x, 2, 1), lambda x: x.sum(1, keepdim=True), [(3, "n", 4)], True),
    "sum_other": (lambda b, x: b.b_sum(x, 1, 0), lambda x: x.sum(0), [(3, "n")], False),
    "sum_two": (lambda b, x: b.b_sum(x, 3, 0), lambda x: x.sum((0, 1)), [("n", "n", 2)], True),
    "prod": (lambda b, x: b.b_reduce(1, x, 1, 0), lambda x: x.prod(0), [("n", 3)], True),
    "max": (lambda b, x: b.b_max(x, 2, 0), lambda x: x.amax(1) if x.shape[1] else torch.full((3,), -inf), [(3, "n")], True),
    "min": (lambda b, x: b.b_min(x, 1, 0), lambda x: x.amin(0) if x.shape[0] else torch.full((3,), inf), [("n", 3)], True),
    "mean": (lambda b, x: b.b_mean(x, 2, 0), lambda x: x.mean(1), [(3, "n")], True),
    "mean_all": (lambda b, x: b.b_mean(x, 7, 0), lambda x: x.mean(), [(3, "n", 2)], True),
    "count": (lambda b, x: b.b_add(b.b_numel(x, DT["F32"]), b.b_sum(b.b_mul(x, b.b_like(x, 0.0)), 3, 0)), lambda x: torch.tensor(float(x.numel())), [(3, "n")], True),
    "argmax": (lambda b, x: b.b_argreduce(1, x, 1, 0, None), lambda x: x.argmax(1), [(3, "n")], True),
    "argmin": (lambda b, x: b.b_argreduce(0, x, 0, 1, None), lambda x: x.argmin(0, keepdim=True), [("n", 3)], True),
    "softmax": (sm, lambda x: x.softmax(1), [(3, "n")], True),
    "cumsum": (lambda b, x: b.b_cumulative(0, x, 1, 0), lambda x: x.cumsum(1), [(3, "n")], False),
    "cumsum_rev": (lambda b, x: b.b_cumulative(0, x, 1, 1), lambda x: x.flip(1).cumsum(1).flip(1), [(3, "n")], True),
    "cummax": (pair(lambda b, o, x: b.b_cum_arg(1, x, 0, o)), lambda x: [x.cummax(0).indices, x.cummax(0).values], [("n", 3)], False),
    "sort": (pair(lambda b, o, x: b.b_sort(x, 1, 0, o)), lambda x: list(x.sort(dim=1, stable=True)), [(3, "n")], None),
    "sort_desc": (pair(lambda b, o, x: b.b_sort(x, 0, 1, o)), lambda x: list(x.sort(dim=0, descending=True, stable=True)), [("n", 3)], True),
    "dot": (lambda b, x, y: b.b_matmul(x, y), lambda x, y: x @ y, [(3, "n"), ("n", 4)], True),
    "dot_free": (lambda b, x, y: b.b_matmul(x, y), lambda x, y: x @ y, [("n", 3), (3, 4)], False),
    "dot_batch": (lambda b, x, y: b.b_matmul(x, y), lambda x, y: x @ y, [("n", 3, 2), ("n", 2, 4)], False),
    "attention": (lambda b, q, k, v: b.b_matmul(sm3(b, b.b_matmul(q, b.b_swap(k, 1, 2))), v), lambda q, k, v: (q @ k.mT).softmax(2) @ v, [(2, 1, 4), (2, "n", 4), (2, "n", 4)], True),
    "vec_dot": (lambda b, x, y: b.b_matmul(x, y), lambda x, y: x @ y, [("n",), ("n",)], True),
    "reverse": (lambda b, x: b.b_reverse(x, 1), lambda x: x.flip(1), [(3, "n")], False),
    "transpose": (lambda b, x: b.b_sum(b.b_transpose(x, ints([1, 0])), 1, 0), lambda x: x.mT.sum(0), [(3, "n")], True),
    "reshape": (lambda b, x: b.b_max(b.b_reshape(x, b_shape_with(b, x)), 4, 0), lambda x: x.reshape(3, 2, -1, 2, 3).amax(2), [(6, "n", 6)], True),
    "unsqueeze": (lambda b, x: b.b_squeeze(b.b_unsqueeze(x, 0), 0), lambda x: x, [(3, "n")], False),
    "concat_other": (lambda b, x, y: b.b_concat(vals([x, y]), 2, 0), lambda x, y: torch.cat([x, y]), [(3, "n"), (2, "n")], False),
    "select": (lambda b, x, y: b.b_sum(b.b_select(b.b_gt(x, y), x, y), 3, 0), lambda x, y: torch.where(x > y, x, y).sum(), [(3, "n"), ("n",)], True),
    "take_idx": (lambda b, x, y: b.b_sum(b.b_take(x, b.b_cast(y, torch.int64), 0), 1, 0), lambda x, y: x[y.long()].sum(0), [(5, 3), ("n",)], True),
    "take_from": (lambda b, x: b.b_take(x, b.b_sub(b.b_size(x, 0, DT["I64"]), b.b_const(torch.int64, 1.0)), 0), lambda x: x[-1], [("n", 3)], False),
    "last": (lambda b, x: b.b_dynamic_slice(x, vals([b.b_sub(b.b_size(x, 0, DT["I32"]), b.b_const(torch.int32, 1.0)), b.b_const(torch.int32, 0.0)]), i64([1, 3])), lambda x: x[-1:], [("n", 3)], False),
    "scatter": (lambda b, x, u, y: b.b_scatter_nd(1, x, vals([b.b_cast(y, torch.int64)]), 1, u), lambda x, u, y: x.index_put((y.long(),), u, accumulate=True), [(5, 3), ("n", 3), ("n",)], True),
    "scatter_axis": (lambda b, x, u, y: b.b_scatter_axis(1, x, b.b_cast(y, torch.int64), u, 0), lambda x, u, y: x.scatter_add(0, y.long(), u), [(5,), ("n",), ("n",)], True),
    "gather_axis": (lambda b, x, y: b.b_gather_axis(x, b.b_cast(b.b_minimum(b.b_cast(b.b_abs(y), torch.int32), b.b_const(torch.int32, 2.0)), torch.int64), 0), lambda x, y: x.gather(0, y.abs().int().clamp(max=2).long()), [(3, "n"), (2, "n")], False),
    "append": (lambda b, x, y: b.b_sum(b.b_append(x, y, 1, wide(16)), 2, 0), lambda x, y: torch.cat([x, y], 1).sum(1), [(3, "n"), (3, 2)], True),
    "append_gen": (lambda b, x, y: b.b_sum(b.b_append(x, y, 1, wide(24)), 2, 0), lambda x, y: torch.cat([x, y], 1).sum(1), [(3, "n"), (3, "n")], True),
    "append_static": (lambda b, x, y: b.b_sum(b.b_append(x, y, 0, wide(16)), 1, 0), lambda x, y: torch.cat([x, y], 0).sum(0), [(2, 3), ("n", 3)], True),
    "valid": (lambda b, x: b.b_sum(b.b_select(b.b_valid(b_shape(b, x), 2), b.b_abs(x), b.b_like(x, 0.0)), 1, 0), lambda x: x.abs().sum(0), [(3, "n")], False),
    "window_batch": (lambda b, x: b.b_reduce_window(0, x, win()), lambda x: x.unfold(2, 2, 1).sum(3), [("n", 2, 5)], False),
    "conv_batch": (lambda b, x, w: b.b_convolution(x, w, Conv(spatial=1)), lambda x, w: torch.nn.functional.conv1d(x, w), [("n", 2, 5), (3, 2, 3)], False),
    "conv_1x1": (lambda b, x, w: b.b_convolution(x, w, Conv(spatial=1)), lambda x, w: torch.nn.functional.conv1d(x, w), [("n", 2, 5), (3, 2, 1)], False),
    "conv_depth": (lambda b, x, w: b.b_convolution(x, w, Conv(spatial=1, feature_groups=2)), lambda x, w: torch.nn.functional.conv1d(x, w, groups=2), [("n", 2, 5), (4, 1, 3)], False),
    "conv_f64": (lambda b, x, w: b.b_cast(b.b_convolution(b.b_cast(x, torch.float64), w, Conv(spatial=1)), torch.float32), lambda x, w: torch.nn.functional.conv1d(x, w), [("n", 2, 5), (3, 2, 3)], False),
    "int_sum": (lambda b, x: b.b_sum(b.b_cast(b.b_gt(x, b.b_like(x, 0.0)), torch.int64), 2, 0), lambda x: (x > 0).sum(1), [(3, "n")], True),
    "bf16": (lambda b, x, y: b.b_matmul(b.b_cast(x, torch.bfloat16), b.b_cast(y, torch.bfloat16)), lambda x, y: (x.bfloat16() @ y.bfloat16()), [(3, "n"), ("n", 4)], True),
    "topk": (pair(lambda b, o, x: b.b_topk(x, wide(1), 1, 1, o)), lambda x: list(x.topk(1, 1)), [(3, "n")], True),
}  # fmt: skip
EMPTY_BAD = {"argmax", "argmin", "take_from", "last", "topk", "cummax", "reshape"}


def sm3(b, x):
    e = b.b_exp(b.b_sub(x, b.b_max(x, 4, 1)))
    return b.b_div(e, b.b_sum(e, 4, 1))


def win():
    w = Window()
    for i, n in enumerate((1, 1, 2)):
        w.size[i] = n
    return w


def b_shape(b, x):
    import ir_harness

    return ir_harness.lib.b_shape(b.p, x).contents


def b_shape_with(b, x):
    d = b_shape(b, x).d[1]
    return shape(3, 2, (d.n, d.sym), 2, 3)


def runs(name, n, fill, masks=True):
    f, want, shapes, _ = CASES[name]
    p = Program(sizes={"n": n}, rung={"n": RUNG}, fill=fill, masks=masks)
    ts = [data(n, *s) for s in shapes]
    if name == "scatter" or name == "scatter_axis" or name == "take_idx":
        ts[-1] = torch.arange(n).remainder(5).float()
    vs = [p.param(t, {i: "n" for i, d in enumerate(s) if d == "n"}) for t, s in zip(ts, shapes)]
    r = f(p.b, *vs)
    p.ret(*(r if isinstance(r, list) else [r]))
    assert p.error() is None
    w = want(*ts)
    got, w = p.run(), w if isinstance(w, list) else [w]
    return got if isinstance(got, list) else [got], w


@pytest.mark.parametrize("name", CASES)
def test_generic(name):
    for n in (5, 1, RUNG, 0):
        if n == 0 and name in EMPTY_BAD:
            continue
        for fill in (nan, 1e30):
            got, want = runs(name, n, fill)
            for g, w in zip(got, want):
                torch.testing.assert_close(
                    g, w, equal_nan=True, rtol=1e-2 if name == "bf16" else 1e-4, atol=1e-4
                )


@pytest.mark.parametrize("name", [n for n in CASES if CASES[n][3]])
def test_negative_control(name):
    bad = 0
    for fill in (nan, 1e30, -1e30):
        got, want = runs(name, 5, fill, masks=False)
        bad += any(
            not torch.allclose(g.double(), w.double(), 1e-2, 1e-4, equal_nan=True) for g, w in zip(got, want)
        )
    assert bad, "right without masks: the test would not see a missing one"


@pytest.mark.parametrize("desc", [0, 1])
def test_sort_nan_inf_data(desc):
    """Data that ties with the padding's key."""
    x = torch.tensor([[nan, 1.0, -inf, inf, nan], [-inf, -inf, inf, nan, 0.0]])
    for fill in (nan, 1e30, -inf, inf):
        p = Program(sizes={"n": 5}, rung={"n": 8}, fill=fill)
        o = idx()
        v = p.b.b_sort(p.param(x, {1: "n"}), 1, desc, C.byref(o))
        p.ret(v, o.value, p.b.b_argreduce(1, v, 1, 0, None))
        got = p.run()
        w = x.sort(dim=1, descending=bool(desc), stable=True)
        assert torch.equal(got[1], w.indices)
        torch.testing.assert_close(got[0], w.values, equal_nan=True)


def test_sums_keep_symbols():
    p = Program(sizes={"n": 5, "m": 3}, rung={"n": 8, "m": 8})
    b = p.b
    x, y = p.param(torch.ones(5, 4), {0: "n"}), p.param(torch.ones(3, 4), {0: "m"})
    s = p.syms
    assert p.dims(b.b_exp(x)) == [(8, s["n"]), (4, 0)] and p.dims(b.b_sum(x, 2, 1)) == [(8, s["n"]), (1, 0)]
    assert p.dims(b.b_matmul(x, b.b_swap(y, 0, 1))) == [(8, s["n"]), (8, s["m"])]
    v = b.b_append(x, p.param(torch.ones(1, 4)), 0, wide(8))
    w = b.b_append(b.b_exp(x), p.param(torch.ones(1, 4)), 0, wide(8))
    assert p.dims(v) == p.dims(w) and p.dims(v)[0][1] not in (0, s["n"])  # one provenance, one symbol
    padded, twice = b.b_pad_axis(x, 0, wide(1), wide(0), b.b_like(x, 0.0)), b.b_tile_dim(x, 0, wide(2))
    assert p.dims(padded)[0][1] not in (0, s["n"]) and p.dims(twice)[0][1] not in (
        0,
        s["n"],
    )  # sizes of their own
    assert p.error() is None
    for f, words in [
        (lambda: b.b_add(x, y), "broadcast of a generic dim"), (lambda: b.b_slice(x, 0, wide(0), wide(2), wide(1)), "slice of a generic dim"),
        (lambda: b.b_flatten(x, 0, 1), "generic dim"),
        (lambda: b.b_concat(vals([x, y]), 2, 0), "along a generic dim"), (lambda: b.b_dim_static(x, 0), "asked for as a number"),
        (lambda: b.b_add(x, p.param(torch.ones(8, 4))), "generic dim"),
    ]:  # fmt: skip
        f()
        assert words in (p.error() or ""), words


def test_two_rungs_of_one_symbol():
    p = Program(sizes={"n": 5}, rung={"n": 8})
    x = p.param(torch.arange(5.0), {0: "n"})
    p.rung["n"] = 12
    y = p.param(torch.arange(5.0) * 10, {0: "n"})
    p.ret(p.b.b_add(x, y), p.b.b_matmul(x, y))
    got = p.run()
    assert torch.equal(got[0], torch.arange(5.0) * 11) and got[1].item() == 300


def test_masks_are_shared_and_vanish():
    p = Program(sizes={"n": 5}, rung={"n": 8}, fill=0.0)
    b = p.b
    x = p.param(torch.ones(3, 5), {1: "n"})
    zero = b.b_const(torch.float32, 0.0)
    m = b.b_mask_pad(x, 2, zero)
    assert b.b_mask_pad(m, 2, zero) == m and b.b_mask_pad(x, 1, zero) == x
    assert b.b_mask_pad(b.b_transpose(m, ints([1, 0])), 1, zero) == b.b_transpose(m, ints([1, 0]))
    assert b.b_mask_pad(m, 2, b.b_const(torch.float32, 1.0)) != m
    for n in (5, 7):  # through an append, and right
        p = Program(sizes={"n": n}, rung={"n": 8}, fill=0.0)
        x, y = p.param(torch.ones(2, n), {1: "n"}), p.param(torch.ones(2, 1))
        x = p.b.b_mask_pad(x, 2, p.b.b_const(torch.float32, 0.0))
        v = p.b.b_append(x, y, 1, wide(12))
        assert p.b.b_mask_pad(v, 2, p.b.b_const(torch.float32, 0.0)) == v
        p.ret(p.b.b_sum(v, 2, 0))
        assert p.run().tolist() == [n + 1.0, n + 1.0]
        z = p.b.b_append(v, p.param(torch.ones(2, n), {1: "n"}), 1, wide(24))
        assert p.b.b_mask_pad(z, 2, p.b.b_const(torch.float32, 0.0)) != z
