"""Numbers that a dtype cannot hold: refused where the CPU refuses them, in its words, and only there."""

from __future__ import annotations

import contextlib
import math
import warnings

import pytest
import torch
from helpers import DEV, raises_alike
from number_calls import DTYPES, VALUES, arguments, outcome, schemas

SCHEMAS = schemas()
WORDS = ("without overflow", "must not be a floating", "not finite", "larger than min", "converting complex")


@pytest.mark.parametrize("name", SCHEMAS)
@pytest.mark.filterwarnings("ignore")
def test_numbers(name):
    wrong = []
    schema = SCHEMAS[name]
    for dtype in DTYPES:
        if isinstance(outcome(name, arguments(name, schema, dtype, "", 1), "cpu"), str):
            continue  # not for this dtype
        for bad in (a.name for a in schema.arguments if "number" in str(a.type)):
            for value in VALUES:
                given = arguments(name, schema, dtype, bad, value)
                expected, got = outcome(name, given, "cpu"), outcome(name, given, "tpu")
                if expected and not any(words in expected for words in WORDS):
                    continue  # for another reason
                # tensor variants of linspace ask a complex type first
                if got != expected and not (got and "c10::complex" in expected):
                    wrong.append((str(dtype), bad, value, expected, got))
    with contextlib.suppress(RuntimeError):  # what only the values tell: division by zero
        torch.tpu.synchronize()
    assert not wrong, "\n".join(map(str, wrong))


def test_small_numbers_of_both_signs():
    """The ways that do not ask further."""
    x = torch.arange(4, dtype=torch.uint8)
    for alpha in (1, 127, 128, 255):
        torch.testing.assert_close(x.to(DEV).add(x.to(DEV), alpha=alpha).cpu(), x.add(x, alpha=alpha))
    for bad in (256, 300, 2**40):
        raises_alike(lambda t, bad=bad: t.add(t, alpha=bad), x, words="uint8_t without overflow")
    y = torch.arange(4.0).half()
    raises_alike(lambda t: t.add(t, alpha=-7e4), y, words="c10::Half without overflow")
    assert y.to(DEV).add(y.to(DEV), alpha=-127.5).isfinite().all()
    i = torch.arange(4)
    raises_alike(lambda t: t.add(t.float(), alpha=1e39), i, words="float without overflow")
    raises_alike(
        lambda t: torch._foreach_add([t, t.half()], [t, t.half()], alpha=7e4), i.float(), words="c10::Half"
    )
    raises_alike(lambda t: t.clamp_(max=math.inf), i, words="can't be cast")


def test_a_default_of_double():
    with warnings.catch_warnings():
        torch.set_default_dtype(torch.float64)
        try:
            assert torch.arange(3, device=DEV).clamp(max=1e39).dtype == torch.float64
            assert torch.linspace(0, 1e39, 3, device=DEV).isfinite().all()
        finally:
            torch.set_default_dtype(torch.float32)
