"""Every builder verb against torch's CPU values, on the real CPU plugin."""

import ctypes as C
import itertools
import math

import pytest
import torch
from ir_harness import *

nan, inf = math.nan, math.inf
load()
torch.manual_seed(0)
FLOATS = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
INTS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
EDGE = torch.tensor([0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.7, nan, inf, -inf, 1e-3, 100.0])


def same(got, want, tol=None):
    if not isinstance(want, (list, tuple)):
        got, want = [got], [want]
    for g, w in zip(got, want, strict=True):
        assert g.dtype == w.dtype and g.shape == w.shape, (g.dtype, g.shape, w.dtype, w.shape)
        if tol is None:
            torch.testing.assert_close(g, w, equal_nan=True)
        elif tol == 0:
            torch.testing.assert_close(g, w, equal_nan=True, rtol=0, atol=0)
        else:
            torch.testing.assert_close(g, w, equal_nan=True, rtol=tol, atol=tol)


UNARY = {
    "abs": torch.abs, "neg": torch.neg, "sign": torch.sign, "exp": torch.exp, "expm1": torch.expm1, "log": torch.log,
    "log1p": torch.log1p, "logistic": torch.sigmoid, "sin": torch.sin, "cos": torch.cos, "tan": torch.tan, "tanh": torch.tanh,
    "asin": torch.asin, "acos": torch.acos, "atan": torch.atan, "sinh": torch.sinh, "cosh": torch.cosh, "asinh": torch.asinh,
    "acosh": torch.acosh, "atanh": torch.atanh, "sqrt": torch.sqrt, "rsqrt": torch.rsqrt, "floor": torch.floor,
    "ceil": torch.ceil, "round": torch.round, "is_finite": torch.isfinite, "isnan": torch.isnan, "isinf": torch.isinf,
    "erf": torch.erf, "erfc": torch.erfc, "erf_inv": torch.erfinv, "lgamma": torch.lgamma, "digamma": torch.digamma,
}  # fmt: skip


@pytest.mark.parametrize("dt", FLOATS)
def test_unary_float(dt):
    x = torch.cat([EDGE, torch.linspace(-0.9, 0.9, 7)]).to(dt)
    p = Program()
    v = p.param(x)
    names = [n for n in UNARY if not (n == "digamma")]
    p.ret(*[getattr(p.b, "b_" + n)(v) for n in names])
    for n, g in zip(names, p.run()):
        try:
            same(
                g,
                UNARY[n](x),
                2e-2 if dt in (torch.bfloat16, torch.float16) else 2e-5 if dt == torch.float32 else 1e-9,
            )
        except AssertionError as e:
            raise AssertionError(f"{n} {dt}: {x}\n{g}\n{UNARY[n](x)}") from e


@pytest.mark.parametrize("dt", INTS + [torch.bool])
def test_unary_int(dt):
    x = torch.tensor([0, 1, 2, 100, -3 if dt.is_signed else 5]).to(dt)
    names = ["abs", "sign", "floor", "ceil", "round", "is_finite", "isnan", "isinf", "real", "conj"]
    p = Program()
    v = p.param(x)
    p.ret(*[getattr(p.b, "b_" + n)(v) for n in names])
    for n, g in zip(names, p.run()):
        w = (
            x
            if n in ("real", "conj") or dt == torch.bool and n in ("abs", "floor", "ceil", "round")
            else getattr(torch, {"is_finite": "isfinite"}.get(n, n))(x)
        )
        same(g, w, 0)


def test_unary_bits():
    x = torch.tensor([0, 1, -1, 5, -128], dtype=torch.int32)
    g = run(lambda b, p, x: [b.b_not(x), b.b_popcnt(x), b.b_clz(x), b.b_imag(x)], x)
    same(g, [~x, torch.tensor([bin(v & 0xFFFFFFFF).count("1") for v in x.tolist()], dtype=torch.int32),
             torch.tensor([32 - (v & 0xFFFFFFFF).bit_length() for v in x.tolist()], dtype=torch.int32), torch.zeros_like(x)], 0)  # fmt: skip


def test_unary_complex():
    x = torch.complex(torch.randn(9), torch.randn(9))
    names = {"abs": torch.abs, "neg": torch.neg, "exp": torch.exp, "log": torch.log, "sin": torch.sin, "cos": torch.cos, "tan": torch.tan,
             "tanh": torch.tanh, "asin": torch.asin, "acos": torch.acos, "atan": torch.atan, "sinh": torch.sinh, "cosh": torch.cosh,
             "asinh": torch.asinh, "acosh": torch.acosh, "atanh": torch.atanh, "sqrt": torch.sqrt, "rsqrt": torch.rsqrt,
             "real": torch.real, "imag": torch.imag, "conj": lambda x: x.conj().resolve_conj(), "is_finite": torch.isfinite,
             "expm1": torch.expm1, "log1p": torch.log1p, "logistic": torch.sigmoid, "sign": torch.sgn, "isnan": torch.isnan}  # fmt: skip
    p = Program()
    v = p.param(x)
    p.ret(*[getattr(p.b, "b_" + n)(v) for n in names])
    for (n, f), g in zip(names.items(), p.run()):
        try:
            same(g, f(x), 1e-4)
        except AssertionError as e:
            raise AssertionError(f"{n}\n{g}\n{f(x)}") from e


@pytest.mark.parametrize("dt", FLOATS)
def test_binary_float(dt):
    x, y = [t.reshape(-1).to(dt) for t in torch.meshgrid(EDGE, EDGE, indexing="ij")]
    names = {"add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "rem": torch.fmod, "pow": torch.pow, "atan2": torch.atan2,
             "maximum": torch.maximum, "minimum": torch.minimum, "floor_mod": torch.remainder, "floor_div": torch.floor_divide,
             "eq": torch.eq, "ne": torch.ne, "lt": torch.lt, "le": torch.le, "gt": torch.gt, "ge": torch.ge}  # fmt: skip
    p = Program()
    v, w = p.param(x), p.param(y)
    p.ret(*[getattr(p.b, "b_" + n)(v, w) for n in names])
    for (n, f), g in zip(names.items(), p.run()):
        want = f(x, y)
        bad = ~torch.isclose(
            g.float(),
            want.float(),
            1e-2 if dt in (torch.bfloat16, torch.float16) else 1e-5,
            1e-6,
            equal_nan=True,
        )
        assert not bad.any(), (n, x[bad], y[bad], g[bad], want[bad])


@pytest.mark.parametrize("dt", INTS)
def test_binary_int(dt):
    a = torch.tensor([0, 1, 2, 3, 7, 100] + ([-1, -7, -128] if dt.is_signed else [200]), dtype=dt)
    x, y = [t.reshape(-1) for t in torch.meshgrid(a, a, indexing="ij")]
    x, y = x[y != 0], y[y != 0]
    tr = lambda x, y: torch.div(x, y, rounding_mode="trunc")
    names = {"add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": tr, "rem": torch.fmod, "maximum": torch.maximum, "minimum": torch.minimum,
             "floor_mod": torch.remainder, "floor_div": torch.floor_divide, "and": torch.bitwise_and, "or": torch.bitwise_or,
             "xor": torch.bitwise_xor, "lt": torch.lt, "ge": torch.ge}  # fmt: skip
    p = Program()
    v, w = p.param(x), p.param(y)
    p.ret(*[getattr(p.b, "b_" + n)(v, w) for n in names])
    for (n, f), g in zip(names.items(), p.run()):
        assert torch.equal(g, f(x, y)), (n, x, y, g, f(x, y))


def test_binary_bool_shift_promote():
    x, y = torch.tensor([0, 0, 1, 1], dtype=torch.bool), torch.tensor([0, 1, 0, 1], dtype=torch.bool)
    same(run(lambda b, p, x, y: [b.b_add(x, y), b.b_mul(x, y), b.b_maximum(x, y), b.b_minimum(x, y), b.b_xor(x, y), b.b_lt(x, y)], x, y),
         [x | y, x & y, x | y, x & y, x ^ y, x < y], 0)  # fmt: skip
    a, s = torch.tensor([1, -8, 1 << 30], dtype=torch.int32), torch.tensor([3, 1, 40], dtype=torch.int32)
    same(run(lambda b, p, x, y: [b.b_shl(x, y), b.b_shra(x, y), b.b_shrl(x, y)], a, s),
         [torch.tensor([8, -16, 0], dtype=torch.int32), torch.tensor([0, -4, 0], dtype=torch.int32), torch.tensor([0, 0x7FFFFFFC, 0], dtype=torch.int32)], 0)  # fmt: skip
    dts = FLOATS + INTS + [torch.bool, torch.complex64]
    for p, q in itertools.combinations(dts, 2):
        g = Program()
        v = g.b.b_mul(g.param(torch.ones(2, dtype=p)), g.param(torch.ones(2, dtype=q)))
        assert FROM[g.b.b_dtype(v)] == torch.promote_types(p, q), (p, q)


def test_errors_stick():
    p = Program()
    x, y = p.param(torch.ones(2, 3)), p.param(torch.ones(2, 4))
    v = p.b.b_add(x, y)
    assert v == BAD and p.b.b_exp(v) == BAD and p.b.b_rank(v) == 0 and p.b.b_dtype(v) == DT["F32"]
    p.b.b_reduce(0, v, 1, 0)
    assert (
        "The size of tensor a (3) must match the size of tensor b (4) at non-singleton dimension 1"
        in p.error()
    )
    for f, words in [
        (
            lambda b, x: b.b_slice(x, 5, wide(0), wide(1), wide(1)),
            "Dimension out of range (expected to be in range of [-2, 1], but got 5)",
        ),
        (lambda b, x: b.b_reshape(x, shape(5)), "shape '[5]' is invalid for input of size 6"),
        (lambda b, x: b.b_not(x), "\"not\" not implemented for 'Float'"),
        (lambda b, x: b.b_matmul(x, x), "mat1 and mat2 shapes cannot be multiplied (2x3 and 2x3)"),
        (
            lambda b, x: b.b_broadcast_to(x, shape(2, 5)),
            "The expanded size of the tensor (5) must match the existing size (3)",
        ),
    ]:
        p = Program()
        assert f(p.b, p.param(torch.ones(2, 3))) == BAD
        assert words in p.error()
    # verbs given BAD do nothing, whatever they are
    p = Program()
    (
        p.b.b_mean(BAD, 1, 0),
        p.b.b_sort(BAD, 0, 0, None),
        p.b.b_philox(BAD, BAD, wide(3)),
        p.b.b_take(BAD, BAD, 0),
    )
    assert p.error() is None and p.b.b_num_nodes() == 0


def test_cons():
    p = Program()
    x = p.param(torch.ones(4, 3))
    b = p.b
    assert (
        b.b_exp(x) == b.b_exp(x)
        and b.b_sum(x, 1, 0) == b.b_sum(x, 1, 0)
        and b.b_max(x, 1, 1) == b.b_max(x, 1, 1)
    )
    assert b.b_sum(x, 1, 0) != b.b_sum(x, 2, 0) and b.b_sum(x, 1, 0) != b.b_max(x, 1, 0)
    assert b.b_const(DT["F32"], 1.0) == b.b_const(DT["F32"], 1.0) != b.b_const(DT["F64"], 1.0)
    assert b.b_const(DT["F32"], 0.0) != b.b_const(DT["F32"], -0.0)
    i = C.c_int32()
    v = b.b_sort(x, 0, 0, C.byref(i))
    j = C.c_int32()
    assert v == b.b_sort(x, 0, 0, C.byref(j)) and i.value == j.value
    assert v != b.b_sort(x, 0, 1, C.byref(j))
    assert p.b.b_transpose(b.b_transpose(x, ints([1, 0])), ints([0, 1])) == b.b_transpose(x, ints([1, 0]))


def test_consts():
    values = [
        0.0,
        -0.0,
        1.0,
        -2.5,
        0.1,
        1e-30,
        3.4e38,
        1e30,
        inf,
        -inf,
        nan,
        123456789.0,
        1 / 3,
        1e-45,
        65504.0,
        1e39,
    ]
    for dt in FLOATS + [torch.float8_e4m3fn, torch.float8_e5m2]:
        p = Program()
        p.ret(*[p.b.b_const(dt, v) for v in values])
        for v, g in zip(values, p.run()):
            w = torch.tensor(v, dtype=torch.float64).to(dt)
            g, w = g.double(), w.double()
            assert (torch.isnan(g) and torch.isnan(w)) or (
                g == w and math.copysign(1, g) == math.copysign(1, w)
            ), (dt, v, g, w)
    for dt in INTS + [torch.bool, torch.uint16, torch.uint32, torch.uint64]:
        p = Program()
        vs = [0, 1, 5] if dt == torch.bool else [torch.iinfo(dt).min, torch.iinfo(dt).max, 3]
        p.ret(*[p.b.b_const_i(dt, C.c_int64(v)) for v in vs], p.b.b_min_value(dt), p.b.b_max_value(dt))
        lim = [False, True] if dt == torch.bool else vs[:2]
        assert [g.item() for g in p.run()] == ([bool(v) for v in vs] if dt == torch.bool else vs) + lim
    p = Program()
    p.ret(p.b.b_const_c(torch.complex64, 1.5, -0.25), p.b.b_const_c(torch.complex128, nan, inf))
    g = p.run()
    assert g[0].item() == 1.5 - 0.25j and math.isnan(g[1].real) and g[1].imag == inf
    p = Program()
    p.ret(p.b.b_dense_i64(torch.int64, i64([1, -5, 2**40]), 3), p.b.b_dense_f64(torch.float32, (C.c_double * 2)(0.5, nan), 2),
          p.b.b_dense_i64(torch.int64, i64([]), 0), p.b.b_full(shape(2, 0, 3), p.b.b_const(torch.float32, 2.0)),
          p.b.b_zeros(torch.bool, shape(2)), *[p.b.b_iota(dt, shape(2, 3), 1) for dt in FLOATS + INTS + [torch.bool]])  # fmt: skip
    row = torch.arange(3).expand(2, 3)
    same(p.run(), [torch.tensor([1, -5, 2**40]), torch.tensor([0.5, nan]), torch.tensor([], dtype=torch.int64), torch.full((2, 0, 3), 2.0),
                   torch.zeros(2, dtype=torch.bool)] + [row.to(dt) for dt in FLOATS + INTS + [torch.bool]], 0)  # fmt: skip
    out = C.c_double()
    p = Program()
    assert (
        p.b.b_const_value(p.b.b_full(shape(2, 3), p.b.b_const(torch.int32, 7.0)), C.byref(out))
        and out.value == 7
    )
    assert not p.b.b_const_value(p.param(torch.ones(())), C.byref(out)) & 1


ALL = FLOATS + INTS + [torch.bool, torch.complex64, torch.complex128]


@pytest.mark.parametrize("src", ALL)
def test_cast(src):
    x = torch.tensor([0.0, 1.0, 2.0, 0.5, 100.7] + ([-1.0, -3.7] if src.is_signed else [])).to(src)
    p = Program()
    v = p.param(x)
    p.ret(*[p.b.b_cast(v, d) for d in ALL])
    for d, g in zip(ALL, p.run()):
        import warnings

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert torch.equal(g, x.to(d)), (src, d, x, g, x.to(d))


def test_cast_wrap():
    x = torch.tensor([300.0, -1.0, -300.0, 70000.0])
    for d in (torch.uint8, torch.int8, torch.int16):
        assert torch.equal(run(lambda b, p, x: b.b_cast(x, d), x), x.to(d)), d
    x = torch.tensor([nan, 0.0, -0.0, inf])
    same(run(lambda b, p, x: b.b_cast(x, torch.bool), x), x.bool(), 0)
    x = torch.tensor([300, -1, 2**40 + 3])
    for d in INTS:
        same(run(lambda b, p, x: b.b_cast(x, d), x), x.to(d), 0)
    p = Program()  # folded constants
    p.ret(
        *[
            p.b.b_cast(p.b.b_const(torch.float32, v), d)
            for v in (1.7, -1.7, 0.0)
            for d in INTS + FLOATS + [torch.bool]
        ]
    )
    same(p.run(), [torch.tensor(v).to(d) for v in (1.7, -1.7, 0.0) for d in INTS + FLOATS + [torch.bool]], 0)


def test_bitcast():
    x = torch.randn(3, 4)
    c = torch.complex(torch.randn(3, 2), torch.randn(3, 2))
    same(run(lambda b, p, x, c: [b.b_bitcast(x, torch.int32), b.b_bitcast(x, torch.uint8), b.b_bitcast(b.b_bitcast(x, torch.uint8), torch.float32),
                                 b.b_bitcast(b.b_reshape(x, shape(3, 2, 2)), torch.float64), b.b_bitcast(c, torch.float32),
                                 b.b_bitcast(b.b_reshape(x, shape(3, 2, 2)), torch.complex64), b.b_bitcast(c, torch.uint8)], x, c),
         [x.view(torch.int32), x.view(torch.uint8).reshape(3, 4, 4), x, x.view(torch.float64), torch.view_as_real(c),
          x.view(torch.complex64), torch.view_as_real(c).view(torch.uint8).reshape(3, 2, 2, 4)], 0)  # fmt: skip
    t = torch.tensor([True, False, True])
    same(
        run(
            lambda b, p, t: [
                b.b_bitcast(t, torch.uint8),
                b.b_bitcast(b.b_bitcast(t, torch.int8), torch.bool),
            ],
            t,
        ),
        [t.view(torch.uint8), t],
        0,
    )


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
    i = C.c_int32()
    got = run(
        lambda b, p, x: [
            b.b_reduce_window(0, x, w),
            b.b_reduce_window(2, x, w),
            b.b_max_window_index(x, w, 2, C.byref(i)),
            i.value,
        ],
        x,
    )
    s = F.avg_pool2d(y, (3, 2), (2, 2), (1, 1), divisor_override=1).to(dt)
    m = F.max_pool2d(x if dt != torch.int32 else y, (3, 2), (2, 2), (1, 1), return_indices=True)
    same(got, [s, m[0].to(dt), m[0].to(dt), m[1]], 2e-2 if dt != torch.int32 else 0)


def test_window_nan():
    import torch.nn.functional as F

    x = torch.randn(2, 2, 9, 9)
    x[0, 0, 3, 3] = x[0, 0, 4, 4] = nan
    x[1, 1, :3, :3] = -inf
    i = C.c_int32()
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
                b.b_max_window_index(x, w, 2, C.byref(i)),
                i.value,
                b.b_reduce_window(3, x, w),
            ],
            x,
        )
        v, a = F.max_pool2d(x, k, s, q, d, return_indices=True)
        mn = -F.max_pool2d(-x, k, s, q, d)
        same(got, [v, v, a, mn], 0)
    e = torch.zeros(0, 2, 4, 4)
    w = window(size=(1, 1, 2, 2), stride=(1, 1, 2, 2))
    same(run(lambda b, p, x: [b.b_reduce_window(2, x, w), b.b_max_window_index(x, w, 2, C.byref(i)), i.value], e),
         [torch.zeros(0, 2, 2, 2), torch.zeros(0, 2, 2, 2), torch.zeros(0, 2, 2, 2, dtype=torch.int64)], 0)  # fmt: skip


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


COND = C.CFUNCTYPE(C.c_int32, C.c_void_p, C.c_void_p, C.POINTER(C.c_int32))
BODY = C.CFUNCTYPE(None, C.c_void_p, C.c_void_p, C.POINTER(C.c_int32), C.POINTER(C.c_int32))


def test_while_if():
    x = torch.tensor([1.0, 2.0])
    n = torch.tensor(5, dtype=torch.int32)

    def f(b, p, x, n):
        out = vals([0, 0])

        def body(h, c, args, res):
            res[0] = b.b_add(args[0], b.b_const(torch.int32, 1.0))
            res[1] = b.b_add(b.b_mul(args[1], x), b.b_sum(args[1], 1, 0))

        keep = COND(lambda h, c, args: b.b_lt(args[0], n)), BODY(body)
        b.b_while(2, vals([b.b_const(torch.int32, 0.0), x]), *keep, None, out)
        o2 = vals([0])

        def then(h, c, args, res):
            res[0] = b.b_sort(b.b_mul(x, x), 0, 1, None)

        def other(h, c, args, res):
            res[0] = b.b_neg(x)

        keep2 = BODY(then), BODY(other)
        r = []
        for k in (0.0, 9.0):
            b.b_if(b.b_gt(n, b.b_const(torch.int32, k)), 1, *keep2, None, o2)
            r.append(o2[0])
        return [out[0], out[1]] + r

    y = x.clone()
    for _ in range(5):
        y = y * x + y.sum()
    same(run(f, x, n), [n, y, (x * x).flip(0), -x])


def test_checks():
    code, msg = C.c_int(), C.c_char_p()
    for values, want in [([1.0, 2.0], 0), ([1.0, -2.0], 1), ([1.0, 20.0], 2)]:
        p = Program()
        x = p.param(torch.tensor(values))
        p.b.b_check(p.b.b_gt(x, p.b.b_like(x, 0.0)), 3, b"negative")
        p.b.b_check(p.b.b_lt(x, p.b.b_like(x, 10.0)), 1, b"too big")
        assert p.b.b_num_checks() == 2
        p.b.b_check_info(1, C.byref(code), C.byref(msg))
        assert code.value == 1 and msg.value == b"too big"
        p.ret(p.b.b_check_result())
        assert p.run().item() == want
    assert Program().b.b_check_result() == BAD


def philox(key, counter):
    c, k = [counter & 0xFFFFFFFF, counter >> 32 & 0xFFFFFFFF, 0, 0], [key & 0xFFFFFFFF, key >> 32]
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b & 0xFFFFFFFF, (a >> 32) ^ c[3] ^ k[1], a & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


def test_philox():
    assert philox(0, 0) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    for key, counter, n in [
        (0, 0, 4),
        (0x299F31D0A4093822, 0x85A308D3243F6A88, 11),
        (123, 2**32 - 2, 16),
        (7, 5, 0),
    ]:
        got = run(
            lambda b, p, k, c: b.b_philox(k, c, wide(n)),
            torch.tensor(key, dtype=torch.uint64),
            torch.tensor(counter, dtype=torch.uint64),
        )
        want = sum([philox(key, counter + i) for i in range((n + 3) // 4)], [])[:n]
        assert got.tolist() == want and got.dtype == torch.uint32


def test_fft():
    x = torch.complex(torch.randn(3, 4, 6), torch.randn(3, 4, 6))
    r = torch.randn(3, 4, 6)
    h = torch.fft.rfft(r)
    same(run(lambda b, p, x, r, h: [b.b_fft(0, x, 1, i64([6])), b.b_fft(1, x, 2, i64([4, 6])), b.b_fft(2, r, 1, i64([6])), b.b_fft(3, h, 1, i64([6])), b.b_fft(0, x, 3, i64([3, 4, 6])), b.b_fft(2, r, 2, i64([4, 6]))], x, r, h),
         [torch.fft.fft(x), torch.fft.ifft2(x), h, r, torch.fft.fftn(x), torch.fft.rfft2(r)], 1e-4)  # fmt: skip
    y = torch.randn(2, 3, 4, 5, dtype=torch.float64)
    hy = torch.fft.rfftn(y)
    same(
        run(
            lambda b, p, y, h: [
                b.b_fft(2, y, 4, i64([2, 3, 4, 5])),
                b.b_fft(3, h, 4, i64([2, 3, 4, 5])),
                b.b_fft(0, h, 4, i64([2, 3, 4, 3])),
            ],
            y,
            hy,
        ),
        [hy, y, torch.fft.fftn(hy)],
        1e-9,
    )


@pytest.mark.parametrize("dt", [torch.float32, torch.float64, torch.complex64])
def test_linalg(dt):
    a = torch.randn(2, 4, 4, dtype=dt)
    spd = a @ a.mH + 4 * torch.eye(4, dtype=dt)
    rhs = torch.randn(2, 4, 3, dtype=dt)
    lo = a.tril() + 4 * torch.eye(4, dtype=dt)
    up = lo.mT.contiguous()
    m = torch.randn(2, 5, 3, dtype=dt)
    tau, vec = C.c_int32(), C.c_int32()

    def f(b, p, spd, lo, up, rhs, m):
        h = b.b_qr(m, C.byref(tau))
        q = b.b_householder_product(h, tau.value)
        w = b.b_eigh(spd, 1, C.byref(vec))
        return [b.b_cholesky(spd, 1), b.b_cholesky(spd, 0), b.b_triangular_solve(lo, rhs, 1, 1, 0, 0), b.b_triangular_solve(lo, rhs, 1, 1, 0, 1), b.b_triangular_solve(lo, rhs, 1, 1, 0, 2),
                b.b_triangular_solve(up, b.b_swap(rhs, 1, 2), 0, 0, 1, 0), h, tau.value, q, w, vec.value, b.b_optimization_barrier(spd)]  # fmt: skip

    g = run(f, spd, lo, up, rhs, m)
    tri = torch.linalg.solve_triangular
    tol = 1e-7 if dt == torch.float64 else 2e-3
    same(g[:6], [torch.linalg.cholesky(spd), torch.linalg.cholesky(spd, upper=True), tri(lo, rhs, upper=False), tri(lo.mT, rhs, upper=True), tri(lo.mH, rhs, upper=True),
                 tri(up, rhs.mT, upper=True, left=False, unitriangular=True)], tol)  # fmt: skip
    h, t = torch.geqrf(m)
    same(g[6:9], [h, t, torch.linalg.householder_product(h, t)], tol)
    w, v = g[9], g[10]
    same(w, torch.linalg.eigvalsh(spd), 1e-2 if tol > 1e-4 else tol)
    same(v @ torch.diag_embed(w).to(dt) @ v.mH, spd, 1e-2 if tol > 1e-4 else tol)
    same(g[11], spd, 0)


@pytest.mark.parametrize(
    "dt", [torch.float8_e5m2, torch.float8_e4m3fn, torch.float8_e5m2fnuz, torch.float8_e4m3fnuz]
)
def test_f8(dt):
    x, y = torch.randn(4, 5).to(dt), torch.randn(5, 3).to(dt)
    got = run(lambda b, p, x, y: [b.b_cast(x, torch.float32), b.b_cast(b.b_cast(x, torch.float32), dt), b.b_matmul_acc(x, y, torch.bfloat16), b.b_sum(x, 1, 0),
                                  b.b_swap(x, 0, 1), b.b_bitcast(x, torch.uint8), b.b_cast(x, torch.bfloat16)], x, y)  # fmt: skip
    w = [
        x.float(),
        x,
        (x.float() @ y.float()).bfloat16(),
        x.float().sum(0).to(dt),
        x.mT.contiguous(),
        x.view(torch.uint8),
        x.bfloat16(),
    ]
    for g, v in zip(got, w):
        assert g.dtype == v.dtype
        torch.testing.assert_close(g.float(), v.float(), rtol=1e-2, atol=1e-2)


def test_rank_zero():
    x, i = torch.tensor(2.5), torch.tensor(0)
    o = C.c_int32()
    one, two = C.c_int32(), C.c_int32()
    got = run(lambda b, p, x, i: [b.b_sum(x, 0, 0), b.b_max(x, 1, 1), b.b_mean(x, 0, 0), b.b_argreduce(1, x, 0, 0, C.byref(o)), o.value, b.b_sort(x, 0, 1, C.byref(one)), one.value,
                                  b.b_topk(x, wide(1), 0, 1, C.byref(two)), two.value, b.b_cumulative(0, x, -1, 0), b.b_cum_arg(1, x, 0, None), b.b_reverse(x, 0), b.b_squeeze(x, 0),
                                  b.b_unsqueeze(x, 0), b.b_take(x, i, 0), b.b_gather_axis(x, i, 0), b.b_scatter_axis(1, x, i, x, 0), b.b_flatten(x, 0, 0), b.b_transpose(x, ints([])),
                                  b.b_size(x, 0, DT["I64"]), b.b_slice(x, 0, wide(0), wide(1), wide(1))], x, i)  # fmt: skip
    want = [2.5, 2.5, 2.5, 0, 2.5, 2.5, 0, 2.5, 0, 2.5, 0, 2.5, 2.5, [2.5], 2.5, 2.5, 5.0, [2.5], 2.5, 1, 2.5]
    assert [g.tolist() for g in got] == want


@pytest.mark.parametrize("dt", [torch.uint16, torch.uint32, torch.uint64])
def test_wide_unsigned(dt):
    v = [0, 1, 7, torch.iinfo(dt).max, torch.iinfo(dt).max - 5]
    x = torch.tensor(v, dtype=dt)
    o = C.c_int32()
    got = run(lambda b, p, x: [b.b_max(x, 1, 0), b.b_min(x, 1, 0), b.b_add(x, b.b_const(dt, 3.0)), b.b_div(x, b.b_const(dt, 2.0)), b.b_sort(x, 0, 1, C.byref(o)), o.value,
                               b.b_argreduce(1, x, 0, 0, None), b.b_cast(x, torch.float64), b.b_lt(x, b.b_const(dt, 5.0)), b.b_cumulative(2, x, 0, 0), b.b_xor(x, b.b_max_value(dt))], x)  # fmt: skip
    m = torch.iinfo(dt).max + 1
    want = [m - 1, 0, [(a + 3) % m for a in v], [a // 2 for a in v], sorted(v, reverse=True), [3, 4, 2, 1, 0], 3, [float(a) for a in v], [a < 5 for a in v],
            [0, 1, 7, m - 1, m - 1], [m - 1 - a for a in v]]  # fmt: skip
    assert [g.tolist() for g in got] == want


def test_generic_while():
    """A loop that carries a generic value: the mask inside uses the size from outside."""
    x = torch.arange(5.0)
    p = Program(sizes={"n": 5}, rung={"n": 8})
    v, n = p.param(x, {0: "n"}), p.param(torch.tensor(3, dtype=torch.int32))
    out = vals([0, 0])

    def body(h, c, args, res):
        res[0] = p.b.b_add(args[0], p.b.b_const(torch.int32, 1.0))
        res[1] = p.b.b_add(args[1], p.b.b_sum(args[1], 1, 0))

    keep = COND(lambda h, c, args: p.b.b_lt(args[0], n)), BODY(body)
    p.b.b_while(2, vals([p.b.b_const(torch.int32, 0.0), v]), *keep, None, out)
    p.ret(out[1])
    for _ in range(3):
        x = x + x.sum()
    same(p.run(), x, 0)
