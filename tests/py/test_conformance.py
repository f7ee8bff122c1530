"""Every op of PyTorch's database once, float32, forward and backward: native, or named in conformance.json."""

from __future__ import annotations

import json

import conformance
import pytest
import torch

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


@pytest.mark.parametrize("name", conformance.STRIDES)
def test_strides_that_are_not_the_cpus(name):
    """Each entry of STRIDES is still needed by some sample."""
    op = conformance.OPS[name]
    calls = ([conformance.call(op, sample, d)[0] for d in ("tpu", "cpu")] for sample in every_sample(op))
    assert any(conformance.layouts(*results) for results in calls)


def every_sample(op):
    for sample in conformance.samples(op, torch.float32, None):
        try:
            conformance.call(op, sample, "cpu")
        except RuntimeError:  # some samples are for another build of torch
            continue
        yield sample
