"""Every operator of PyTorch's database on operands with padding: right, and wrong where the masks that its rows use are left out.

A subset of sweep.py, so that it takes less than three minutes of a core: of each operator whose result is defined and native, linalg and
fft apart (most of their rows use exact copies), the first sample with something in it, its largest size padded with NaN, float32, forward
and backward. Without masks all sizes of up to 12 samples are tried, with NaN and 1e30, until one is wrong. An operator that left out no
mask needs none to be.
"""

from __future__ import annotations

import itertools
import math
import warnings

import conformance as c
import pytest
import sweep
import torch
from test_conformance import STATES
from torch.utils._pytree import tree_map
from torch_tpu import _C

# Right without their masks, and why.
SKIPS = (
    "without masks more is computed than the logical elements need, and the results of the rest are not read"
)
PASS = {
    "isin": "what fills the padding equals no element",
    "kthvalue": "what fills the padding sorts behind the data anyway",
    "masked.cumprod": "its masked rows look for zeros, and what fills the padding is none",
    **dict.fromkeys(
        ("lu_solve", "norm.nuc"),
        "the masked row is given what other rows made of exact copies, whose padding is zero",
    ),
    **dict.fromkeys((n for n in c.OPS if "polygamma" in n), SKIPS),
}


def subjects() -> list[str]:
    apart = ("linalg.", "fft.")
    return [n for n in c.names() if n not in c.UNDEFINED and n not in STATES and not n.startswith(apart)]


def run(op, sample, size: int, fill: float):
    """As sweep.run, but no row takes part that is not the op's own."""
    value = tree_map(lambda t: sweep.pad(t, size, fill), sample.input)
    args, kwargs = sweep.moved(op, (list(sample.args), sample.kwargs), size, fill)
    kwargs = {n: (torch.device("tpu") if n == "device" and v is not None else v) for n, v in kwargs.items()}
    needs = [t for t in c.tensors((value, args, kwargs)) if t.requires_grad]
    out = op(value, *args, **kwargs)
    results = [(i, t) for i, t in enumerate(c.tensors(sample.output_process_fn_grad(out))) if t.requires_grad]
    results = [(i, t) for i, t in results if t.is_floating_point() or t.is_complex()]
    if not needs or not results:
        return c.host(out), []
    seeds = [c.weights(t.detach().cpu(), i) * (1 + 1j if t.is_complex() else 1) for i, t in results]
    seeds = [
        sweep.pad(s, size, fill) if t.device.type == "tpu" else s
        for s, (_, t) in zip(seeds, results, strict=True)
    ]
    outs = [t for _, t in results]
    grads = torch.autograd.grad(outs, needs, seeds, allow_unused=True)
    return c.host(out), c.host(grads)


def problem(op, sample, size: int, fill: float, expected) -> str:
    try:
        return c.compare(op, run(op, sample, size, fill), expected, False)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def wrong_without_masks(op, dtype: torch.dtype) -> tuple[bool, int]:
    """Whether a sample is wrong without masks; how many masks were left out until there."""
    left_out = 0
    for sample in itertools.islice(c.samples(op, dtype, None), 12):
        expected = c.call(op, sample, "cpu")
        for size, fill in itertools.product(reversed(sweep.sizes(sample)), (math.nan, 1e30)):
            _C.disable_masks(True)
            try:
                bad = problem(op, sample, size, fill, expected)
            finally:
                left_out += _C.disable_masks(False)
            if bad:
                return True, left_out
        if not left_out:
            break  # the row has none
    return False, left_out


@pytest.mark.parametrize("name", subjects())
def test_op(name: str, fresh) -> None:
    op = c.OPS[name]
    dtypes = op.supported_dtypes("cpu")
    dtype = torch.float32 if torch.float32 in dtypes else next(iter(dtypes))
    sample = next(c.samples(op, dtype, 1), None)
    sizes = sweep.sizes(sample) if sample else []
    if not sizes:
        return
    warnings.simplefilter("ignore")
    with c.Draws() as draws:
        expected = c.call(op, sample, "cpu")
    if draws.seen:
        return
    assert not problem(op, sample, sizes[-1], math.nan, expected)
    wrong, left_out = wrong_without_masks(op, dtype)
    if left_out:
        assert wrong == (name not in PASS), (
            "wrong without its masks: no entry" if wrong else "right without its masks"
        )


def test_the_list_has_no_strangers() -> None:
    assert set(PASS) <= set(subjects())
