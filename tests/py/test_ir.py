"""Elementwise verbs, casts, constants and errors of the builder against torch's CPU values, on the real CPU plugin."""

import ctypes as C
import itertools
import math

import pytest
import torch
from ir_harness import *

load()
torch.manual_seed(0)


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
    g = run(lambda b, p, x: [b.b_not(x), b.b_imag(x)], x)
    same(g, [~x, torch.zeros_like(x)], 0)


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
    names = {"add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": tr, "rem": torch.fmod, "pow": torch.pow, "maximum": torch.maximum,
             "minimum": torch.minimum, "floor_mod": torch.remainder, "floor_div": torch.floor_divide, "and": torch.bitwise_and, "or": torch.bitwise_or,
             "xor": torch.bitwise_xor, "lt": torch.lt, "ge": torch.ge}  # fmt: skip
    p = Program()
    v, w = p.param(x), p.param(y)
    p.ret(*[getattr(p.b, "b_" + n)(v, w) for n in names])
    for (n, f), g in zip(names.items(), p.run()):
        assert torch.equal(g, f(x, y)), (n, x, y, g, f(x, y))


@pytest.mark.parametrize("dt", INTS + [torch.uint16, torch.uint32, torch.uint64])
def test_pow_int(dt):
    """Exponents beyond the width of the type; products wrap; a negative exponent leaves 1 and -1."""
    top, width = torch.iinfo(dt).max, 8 * dt.itemsize
    base = [0, 1, 2, 3, 7, top] + ([-1, -2, -3] if dt.is_signed else [])
    exponent = [0, 1, 2, 63, 64, 65, 127, top, top - 1] + ([-1, -2, -64, -65] if dt.is_signed else [])
    pairs = [(b, e) for b in base for e in exponent]

    def power(b, e):
        if e < 0:
            return {1: 1, -1: (-1) ** (e % 2)}.get(b, 0)
        wrapped = pow(b, e, 1 << width)
        return wrapped - (1 << width) if wrapped > top else wrapped

    x, y = (torch.tensor(list(v), dtype=dt) for v in zip(*pairs))
    for cpu in (True, False):
        got = run(lambda b, p, x, y: b.b_pow(x, y), x, y, cpu=cpu)
        assert got.tolist() == [power(b, e) for b, e in pairs]


@pytest.mark.parametrize("dt", [torch.float32, torch.float64])
def test_atan2_constant(dt):
    """The plugin's vectorised atan2 with a constant is wrong on long rows."""
    x = torch.randn(1000, dtype=dt)
    got = run(
        lambda b, p, x: [b.b_atan(x), b.b_atan2(x, b.b_const(dt, 1.0)), b.b_atan2(x, b.b_const(dt, -2.0))], x
    )
    same(got, [torch.atan(x), torch.atan2(x, torch.ones_like(x)), torch.atan2(x, torch.full_like(x, -2))])


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
