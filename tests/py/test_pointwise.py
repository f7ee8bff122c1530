"""Pointwise ops at the values where implementations differ, long rows included (vectorised loops have their
own faults), against CPU; promotion and PyTorch's error words; padding of generic sizes must not show."""

import math

import pytest
import torch

nan, inf = math.nan, math.inf
EDGE = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.7, nan, inf, -inf, 1e-3, 100.0, -20.0, 30.0, 6.0]
A = torch.ops.aten
UNARY = """abs neg sign floor ceil round trunc frac exp exp2 expm1 log log2 log10 log1p sqrt rsqrt
reciprocal sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh sigmoid sinc erf erfc
erfinv lgamma digamma i0 relu signbit isnan isinf logical_not nan_to_num frexp silu mish
hardswish hardsigmoid elu leaky_relu softplus hardshrink special_i0e special_i1 special_i1e
special_entr special_ndtri special_log_ndtr special_erfcx special_modified_bessel_k0""".split()
BINARY = """add sub mul div floor_divide remainder fmod pow atan2 hypot copysign maximum minimum fmax fmin
logaddexp logaddexp2 xlogy heaviside nextafter eq ne lt le gt ge logical_and logical_xor""".split()
INTEGER = """add sub mul div floor_divide remainder fmod pow maximum gcd lcm bitwise_and bitwise_or
bitwise_xor bitwise_left_shift bitwise_right_shift eq lt""".split()


def values(dt, n=300):
    g = torch.Generator().manual_seed(0)
    x = torch.cat([torch.randn(n, generator=g) * 3, torch.rand(n, generator=g), torch.tensor(EDGE)])
    return x.to(dt)


def agree(f, *args, **kw):
    want = f(*args, **kw)
    got = f(*[a.to("tpu") if isinstance(a, torch.Tensor) else a for a in args], **kw)
    if not isinstance(want, torch.Tensor):
        got, want = list(got), list(want)
    torch.testing.assert_close(got, want, equal_nan=True, check_device=False)


@pytest.mark.parametrize("name", UNARY)
def test_unary(name):
    f = getattr(A, name)
    low = not name.startswith("special") or name in ("special_entr", "special_i1", "special_i1e")
    for dt in (torch.float32, torch.float64) + ((torch.bfloat16,) if low else ()):
        x = values(dt)
        if dt == torch.float32 and name in ("digamma", "lgamma"):
            x = x[(x > 0) | (x.abs() < 1e-9)]  # beside the poles every last bit of x counts
        agree(f, x)
    if name not in (
        "frac",
        "frexp",
        "silu",
        "mish",
        "hardswish",
        "hardsigmoid",
        "elu",
        "leaky_relu",
        "softplus",
        "hardshrink",
    ):
        agree(f, torch.tensor([0, 1, 2, 7, -3, 47]))


@pytest.mark.parametrize("name", BINARY)
def test_binary(name):
    f = getattr(torch, name)
    for dt in (torch.float32, torch.float64, torch.bfloat16):
        x = values(dt, 60)
        y = x[torch.randperm(x.numel(), generator=torch.Generator().manual_seed(1))]
        agree(f, x, y)
        if name not in (
            "fmax",
            "fmin",
            "maximum",
            "minimum",
            "logaddexp",
            "logaddexp2",
            "hypot",
            "heaviside",
            "nextafter",
            "logical_and",
            "logical_xor",
            "atan2",
        ):
            for number in (1, 2, -1, 2.5, 0.1, True):
                if not (name == "sub" and number is True):
                    agree(f, x, number)


@pytest.mark.parametrize("name", INTEGER)
@pytest.mark.parametrize("dt", [torch.int64, torch.int32, torch.int8, torch.uint8])
def test_integer(name, dt):
    v = torch.tensor([1, 2, 3, 7, 100] + ([-1, -7, -47] if dt.is_signed else [200]), dtype=dt)
    x, y = [t.reshape(-1) for t in torch.meshgrid(v, v, indexing="ij")]
    agree(getattr(torch, name), x, y)
    if name not in ("gcd", "lcm", "maximum"):
        agree(getattr(torch, name), x, 3)


def test_large_integers():
    x = torch.tensor([2**53 + 1, 2**62 + 3, -(2**61) - 1])
    for f in (
        lambda t: t + 1,
        lambda t: t * 2,
        lambda t: t // 3,
        lambda t: t - (2**40 + 1),
        lambda t: t % 1000,
        lambda t: t & 0xFFF,
    ):
        agree(f, x)
    assert torch.arange(2**40, 2**40 + 3, device="tpu").tolist() == [2**40, 2**40 + 1, 2**40 + 2]


def test_promotion():
    ts = [
        torch.ones(2, dtype=d)
        for d in (
            torch.bool,
            torch.uint8,
            torch.int8,
            torch.int32,
            torch.int64,
            torch.float16,
            torch.bfloat16,
            torch.float32,
            torch.float64,
            torch.complex64,
        )
    ]
    others = ts + [t[0] for t in ts] + [True, 2, 2.5]
    for x in ts[::3]:
        for y in others:
            agree(torch.mul, x, y)
            agree(torch.eq, x, y)


WORDS = [
    (
        lambda d: torch.ones(2, dtype=torch.bool, device=d) - torch.ones(2, dtype=torch.bool, device=d),
        "with two bool tensors",
    ),
    (lambda d: -torch.ones(2, dtype=torch.bool, device=d), "Negation, the `-` operator, on a bool tensor"),
    (
        lambda d: torch.add(torch.ones(2, device=d).int(), 1, alpha=0.5),
        "argument alpha must not be a floating point number",
    ),
    (lambda d: torch.ones(2, device=d).long() // 0, "ZeroDivisionError"),
    (
        lambda d: torch.remainder(torch.ones(2, device=d).long(), torch.zeros(2, device=d).long()).tolist(),
        "ZeroDivisionError",
    ),
    (lambda d: torch.ones(2, device=d).long() ** -1, "Integers to negative integer powers"),
    (
        lambda d: torch.addcdiv(*[torch.ones(2, device=d).long()] * 3),
        "Integer division with addcdiv is no longer supported",
    ),
    (lambda d: torch.ones(2, device=d).cfloat() < 1, "not implemented for 'ComplexFloat'"),
    (lambda d: torch.clamp(torch.ones(2, device=d)), "At least one of 'min' or 'max' must not be None"),
    (lambda d: torch.arange(0, 5, 0, device=d), "step must be nonzero"),
    (lambda d: torch.empty(3, device=d).uniform_(2, 1), "uniform_ expects to return a"),
    (lambda d: torch.nn.functional.glu(torch.ones(3, device=d)), "Halving dimension must be even"),
]


@pytest.mark.parametrize("case", range(len(WORDS)))
def test_words(case):
    f, words = WORDS[case]
    for d in ("cpu", "tpu"):
        with pytest.raises((RuntimeError, NotImplementedError), match=words.replace("(", r"\(")):
            r = f(d)
            r.cpu()


@pytest.mark.parametrize(
    "name",
    ["exp", "add", "remainder", "gcd", "pow", "where", "fill_", "tril", "glu", "_foreach_norm", "copy"],
)
def test_padding_does_not_show(name):
    x = torch.randint(1, 9, (5, 4)) if name in ("gcd", "remainder", "pow") else torch.randn(5, 4)
    t = x.to("tpu")
    torch.ops.tpu._mark_generic(t, 0, 8, 0.0 if not x.is_floating_point() else nan)
    f = {
        "where": lambda v: torch.where(v > 0, v, -v),
        "fill_": lambda v: v.clone().fill_(2),
        "glu": lambda v: torch.nn.functional.glu(v),
        "_foreach_norm": lambda v: torch._foreach_norm([v, v])[1],
        "copy": lambda v: v.double(),
        "exp": torch.exp,
        "tril": torch.tril,
    }.get(name) or (lambda v: getattr(torch, name)(v, v))
    torch.testing.assert_close(f(t).cpu(), f(x))


@pytest.mark.parametrize("dt", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64])
def test_integer_powers(dt):
    top = torch.iinfo(dt).max
    values = torch.tensor([0, 1, 2, 3, 7, 65, top] + ([-1, -2, -65] if dt.is_signed else []), dtype=dt)
    x, e = (t.flatten() for t in torch.meshgrid(values, values, indexing="ij"))
    assert torch.equal(torch.pow(x.to("tpu"), e.to("tpu")).cpu(), torch.pow(x, e))
    for number in (0, 1, 2, 3, 5, 64, 65, 127):
        assert torch.equal(torch.pow(values.to("tpu"), number).cpu(), torch.pow(values, number)), number
    for number in (0, 1, 2, 3, 7):
        assert torch.equal(torch.pow(number, values.to("tpu")).cpu(), torch.pow(number, values)), number
