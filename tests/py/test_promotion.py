"""Type promotion, exhaustively: every dtype with every dtype, as tensor, 0-dim tensor and number."""

from __future__ import annotations

import itertools
import math
import re

import pytest
import torch
from helpers import ALL, DEV

NUMBERS = (True, 3, 2.5, 1 + 2j)


def operands(dtype: torch.dtype, device: str) -> list[torch.Tensor]:
    one = torch.ones(2, dtype=dtype, device=device)
    return [one, one[0]]


MORE = "more than the CPU"


@pytest.fixture(autouse=True)
def together():
    """Calls are recorded and compiled many at a time; all results are kept, so that each is."""
    with torch.tpu.eager_mode("fused"):
        RESULTS.clear()
        yield
        RESULTS.clear()


RESULTS: list[torch.Tensor] = []


def launched() -> None:
    torch.tpu.synchronize()
    RESULTS.clear()


def known(dtype: torch.dtype) -> torch.dtype:
    """There is no 16-bit complex on the device: it counts in complex64."""
    return torch.complex64 if dtype == torch.complex32 else dtype


def outcome(f, *args):
    """The dtype, or the type of the exception; MORE where the CPU merely has no kernel."""
    try:
        result = f(*args)
        RESULTS.append(result)
        return known(result.dtype)
    except (RuntimeError, TypeError) as error:
        if args[0].device.type == "cpu" and re.search("not implemented for|does not support", str(error)):
            return MORE
        return RuntimeError if isinstance(error, RuntimeError) else type(error)


def agree(f, tpu, cpu) -> bool:
    expected = outcome(f, *cpu)
    return expected == MORE or outcome(f, *tpu) == expected


@pytest.mark.parametrize("a", ALL, ids=str)
def test_result_type(a):
    """torch.result_type is PyTorch's own: add must agree with it for every pair and every kind of operand."""
    for b in ALL:
        for x, y in itertools.product(operands(a, DEV), operands(b, DEV)):
            expected = torch.result_type(x.cpu(), y.cpu())
            assert torch.result_type(x, y) == expected
            assert (x + y).dtype == known(expected), (x, y)
        for x, y in itertools.product(
            operands(a, DEV), operands(b, "cpu")[1:]
        ):  # a 0-dim CPU tensor may join
            assert (x + y).dtype == known(torch.result_type(x.cpu(), y)), (x, y)
    for x, number in itertools.product(operands(a, DEV), NUMBERS):
        expected = known(torch.result_type(x.cpu(), number))
        assert (x + number).dtype == (number + x).dtype == expected, (x, number)


OPS = {
    "sub": torch.sub,
    "mul": torch.mul,
    "div": torch.div,
    "pow": torch.pow,
    "eq": torch.eq,
    "lt": torch.lt,
    "atan2": torch.atan2,
    "maximum": torch.maximum,
    "fmod": torch.fmod,
    "remainder": torch.remainder,
    "floor_divide": torch.floor_divide,
    "bitwise_and": torch.bitwise_and,
    "logical_or": torch.logical_or,
    "copysign": torch.copysign,
    "hypot": torch.hypot,
    "xlogy": torch.xlogy,
    "where": lambda x, y: torch.where(x == x, x, y),
    "cat": lambda x, y: torch.cat([x.view(-1), y.view(-1)]),
    "trunc_div": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
}


@pytest.mark.parametrize("name", list(OPS))
def test_binary(name):
    """The same dtype, or the same kind of refusal, as on the CPU."""
    for a, b in itertools.product(ALL, ALL):
        for i, j in ((0, 0), (0, 1), (1, 0)):
            cpu = operands(a, "cpu")[i], operands(b, "cpu")[j]
            tpu = operands(a, DEV)[i], operands(b, DEV)[j]
            assert agree(OPS[name], tpu, cpu), (name, a, b, i, j)
    launched()


def test_in_place_castability():
    """x += y is refused where the result does not fit x's kind."""
    for a, b in itertools.product(ALL, ALL):
        tpu, cpu = ((operands(a, d)[0], operands(b, d)[0]) for d in (DEV, "cpu"))
        assert agree(lambda x, y: x.add_(y), tpu, cpu), (a, b)
    launched()


UNARY = (
    "sqrt exp log sin tanh sigmoid abs neg sign floor ceil round trunc reciprocal rsqrt isnan isfinite angle "
    "bitwise_not logical_not erf lgamma square expm1 log1p relu"
).split()


@pytest.mark.parametrize("name", UNARY)
def test_unary(name):
    for dtype in ALL:
        f = getattr(torch, name)
        assert agree(f, operands(dtype, DEV)[:1], operands(dtype, "cpu")[:1]), (name, dtype)
    launched()


REDUCTIONS = "sum prod mean cumsum cumprod amax any argmax std logsumexp norm count_nonzero".split()


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name):
    def f(x):
        return getattr(torch, name)(x, **({"dim": 0} if name in ("cumsum", "cumprod", "logsumexp") else {}))

    for dtype in ALL:
        assert agree(f, operands(dtype, DEV)[:1], operands(dtype, "cpu")[:1]), (name, dtype)
    launched()


def test_default_dtype():
    try:
        torch.set_default_dtype(torch.float64)
        assert (torch.ones(2, dtype=torch.int64, device=DEV) / 2).dtype == torch.float64
        assert torch.full((2,), math.pi, device=DEV).dtype == torch.float64
        assert torch.ones(2, device=DEV).dtype == torch.rand(2, device=DEV).dtype == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
