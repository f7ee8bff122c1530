"""Every op of PyTorch's database once, float32, forward and backward: native, or named in conformance.json."""

from __future__ import annotations

import json

import conformance
import pytest

STATES = json.loads(conformance.STATES.read_text())


@pytest.mark.parametrize("name", conformance.names())
def test_op(name):
    expected = STATES.get(name, {"state": conformance.NATIVE})["state"]
    outcome = conformance.check(name)
    rank = conformance.ORDER.index
    assert rank(outcome.state) <= rank(expected), f"{expected} became {outcome.state}: {outcome.why}"
    assert rank(outcome.state) >= rank(expected), (
        f"better than its entry in conformance.json: {outcome.state}"
    )


def test_the_list_has_no_strangers():
    assert set(STATES) <= set(conformance.names())
    assert [n for n, s in STATES.items() if s["state"] in (conformance.WRONG,)] == []
