"""Rows on generic sizes, forward and backward: the CPU's values whatever stands in the padding, no exact copies, one set of programs for
all sizes, and wrong values when the masks are left out."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from helpers import data
from torch_tpu import _C

RUNG, SIZES = 16, (11, 7, 16)  # other than the static dims below, so that none of those is taken for the same
Case = tuple[Callable[..., torch.Tensor], list[tuple[int | str, ...]]]

# name: (function, the shapes of its operands). "n" is the generic dim.
CASES: dict[str, Case] = {
    "pad along": (lambda x: F.pad(x, (2, 1)), [(2, "n")]),
    "pad beside": (lambda x: F.pad(x, (0, 0, 2, 1), value=3.0), [(2, "n")]),
    "pad both": (lambda x: F.pad(x, (1, 1, 2, -1), value=-1.0), [("n", "n")]),
    "pad cuts": (lambda x: F.pad(x, (-1, -1)), [(2, "n")]),
    "conv1d length": (lambda x, w: F.conv1d(x, w, padding=1), [(2, 3, "n"), (4, 3, 3)]),
    "conv1d batch": (lambda x, w, b: F.conv1d(x, w, b, padding=1), [("n", 3, 6), (4, 3, 3), (4,)]),
    "conv1d stride": (lambda x, w: F.conv1d(x, w, stride=2, padding=2), [(2, 3, "n"), (4, 3, 3)]),
    "conv1d dilated": (lambda x, w: F.conv1d(x, w, dilation=2, padding=2), [(2, 3, "n"), (4, 3, 3)]),
    "conv1d groups": (lambda x, w: F.conv1d(x, w, padding=1, groups=2), [("n", 4, "n"), (4, 2, 3)]),
    "conv1d depthwise": (lambda x, w: F.conv1d(x, w, padding=3, groups=4), [(2, 4, "n"), (4, 1, 4)]),
    "conv1d channels": (lambda x, w: F.conv1d(x, w), [(2, "n", 6), (4, "n", 3)]),
    "conv2d batch": (lambda x, w: F.conv2d(x, w, stride=2), [("n", 3, 6, 7), (4, 3, 3, 3)]),
    "conv2d plane": (lambda x, w: F.conv2d(x, w, padding=1), [(2, 3, "n", "n"), (4, 3, 3, 3)]),
    "conv2d one side": (
        lambda x, w: F.conv2d(x, w, stride=(1, 2), padding=1),
        [(2, 3, 5, "n"), (4, 3, 3, 2)],
    ),
    "conv2d 1x1": (lambda x, w: F.conv2d(x, w), [("n", 3, "n", 4), (4, 3, 1, 1)]),
    "conv3d": (lambda x, w: F.conv3d(x, w, padding=1), [("n", 2, 2, "n", 3), (3, 2, 2, 2, 2)]),
    "conv_transpose1d": (
        lambda x, w: F.conv_transpose1d(x, w, stride=2, padding=1, output_padding=1),
        [("n", 3, "n"), (3, 4, 3)],
    ),
    "conv_transpose2d": (lambda x, w: F.conv_transpose2d(x, w, stride=2), [(2, 3, "n", 4), (3, 4, 3, 3)]),
    "max_pool1d": (lambda x: F.max_pool1d(x, 3, 2, 1), [(2, 3, "n")]),
    "max_pool2d": (lambda x: F.max_pool2d(x, 3, 1, 1), [("n", 3, "n", "n")]),
    "max_pool2d apart": (lambda x: F.max_pool2d(x, 2), [("n", 3, "n", "n")]),
    "max_pool2d ceil": (lambda x: F.max_pool2d(x, 3, 2, 1, ceil_mode=True), [(2, 3, 6, "n")]),
    "max_pool2d large": (lambda x: F.max_pool2d(x, (3, 12), 1, (1, 6)), [(2, 3, "n", "n")]),
    "max_pool3d": (lambda x: F.max_pool3d(x, 3, 2, 1), [(2, 3, 4, "n", "n")]),
    "max_pool2d indices": (
        lambda x: F.max_pool2d(x, 3, 1, 1, return_indices=True)[1].float(),
        [(2, 3, "n", "n")],
    ),
    "avg_pool1d": (lambda x: F.avg_pool1d(x, 3, 2, 1), [(2, 3, "n")]),
    "avg_pool2d": (lambda x: F.avg_pool2d(x, 2), [("n", 3, "n", "n")]),
    "avg_pool2d ceil": (
        lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False),
        [(2, 3, 6, "n")],
    ),
    "avg_pool2d ceil, pads count": (lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True), [(2, 3, "n", 5)]),
    "adaptive_avg_pool1d": (lambda x: F.adaptive_avg_pool1d(x, 3), [("n", 3, "n")]),
    "adaptive_avg_pool2d": (lambda x: F.adaptive_avg_pool2d(x, (2, 3)), [(2, 3, "n", "n")]),
    "adaptive_avg_pool2d one": (lambda x: F.adaptive_avg_pool2d(x, (1, 2)), [("n", 3, "n", "n")]),
}
# Right without masks, and why.
PASS = {
    "pad beside": "the generic dim is not looked at",
    "max_pool2d apart": "no window reaches into the padding, and so the gradient of none does",
}


def operands(shapes: list[tuple[int | str, ...]], n: int) -> list[torch.Tensor]:
    return [data(*(n if d == "n" else int(d) for d in s), seed=k) for k, s in enumerate(shapes)]


def on_device(xs: list[torch.Tensor], shapes: list[tuple[int | str, ...]], fill: float) -> list[torch.Tensor]:
    out = [x.to("tpu") for x in xs]
    for t, s in zip(out, shapes, strict=True):
        for d, n in enumerate(s):
            if n == "n":
                torch.ops.tpu._mark_generic(t, d, RUNG, fill)
    return out


def run(fn: Callable[..., torch.Tensor], xs: list[torch.Tensor]) -> list[torch.Tensor]:
    """The result, and the gradients for a seed that depends on it, small so that float32 sums agree."""
    xs = [x.requires_grad_() if x.is_floating_point() else x for x in xs]
    out = fn(*xs)
    grads: tuple[torch.Tensor, ...] = ()
    if out.requires_grad:
        grads = torch.autograd.grad(out, [x for x in xs if x.requires_grad], out.detach().sin() / 64)
    return [t.detach().cpu() for t in (out, *grads)]


def close(got: list[torch.Tensor], expected: list[torch.Tensor]) -> None:
    for g, e in zip(got, expected, strict=True):
        torch.testing.assert_close(g, e)


@pytest.mark.parametrize("name", CASES)
def test_values_and_programs(name: str) -> None:
    fn, shapes = CASES[name]
    compiled = -1
    for n in SIZES:
        xs = operands(shapes, n)
        expected = run(fn, xs)
        for fill in (math.nan, 1e30):
            before = torch.tpu.explain_sizes()["exact"]
            close(run(fn, on_device(xs, shapes, fill)), expected)
            assert torch.tpu.explain_sizes()["exact"] == before
        if compiled >= 0:
            assert torch.tpu.compile_stats()["programs_compiled"] == compiled
        compiled = torch.tpu.compile_stats()["programs_compiled"]


@pytest.mark.parametrize("name", [c for c in CASES if c not in PASS])
def test_without_masks_the_values_are_wrong(name: str) -> None:
    fn, shapes = CASES[name]
    xs = operands(shapes, SIZES[0])
    expected = run(fn, xs)
    _C.disable_masks(True)
    try:
        with pytest.raises(AssertionError):
            for fill in (math.nan, 1e30):
                close(run(fn, on_device(xs, shapes, fill)), expected)
    finally:
        _C.disable_masks(False)


@pytest.mark.parametrize(
    ("fn", "shape", "small", "error"),
    [
        (lambda x: F.max_pool2d(x, (1, 4)), (2, 3, 5), 3, "Output size is too small"),
        (lambda x: F.avg_pool2d(x, 4), (2, 3, 5), 3, "Output size is too small"),
        (lambda x: F.pad(x, (-2, -2)), (2,), 3, "negative output size"),
    ],
)
def test_a_size_that_is_too_small_is_an_error_as_elsewhere(fn, shape, small, error) -> None:
    for n in (6, small):
        x = data(*shape, n)
        t = on_device([x], [(*shape, "n")], math.nan)[0]
        if n == small:
            with pytest.raises(RuntimeError, match=error):
                fn(t)
        else:
            torch.testing.assert_close(fn(t).cpu(), fn(x))
