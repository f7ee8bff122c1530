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

RUNG, SIZES = 24, (19, 21, 24)  # of one rung; none is a static dim below, which would be taken for the same


def ints(x: torch.Tensor, n: int) -> torch.Tensor:
    return (x.detach().float().abs() * 1000).long() % n


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
    "adaptive_max_pool1d": (lambda x: F.adaptive_max_pool1d(x, 3), [("n", 3, "n")]),
    "adaptive_max_pool1d one": (lambda x: F.adaptive_max_pool1d(x, 1), [("n", 3, "n")]),
    "adaptive_max_pool1d batch": (lambda x: F.adaptive_max_pool1d(x, 3), [("n", 3, 7)]),
    "adaptive_max_pool2d": (lambda x: F.adaptive_max_pool2d(x, (2, 5)), [(2, 3, "n", "n")]),
    "adaptive_max_pool2d one side": (lambda x: F.adaptive_max_pool2d(x, (2, 3)), [(2, 3, 6, "n")]),
    "adaptive_max_pool2d indices": (
        lambda x: F.adaptive_max_pool2d(x, (2, 5), return_indices=True)[1].float(),
        [("n", "n", "n")],
    ),
    "unfold": (lambda x: F.unfold(x.detach(), 3, padding=1), [(2, 3, "n", "n")]),
    "unfold one side": (lambda x: F.unfold(x.detach(), (3, 2), 2, 1, 2), [("n", "n", 7, "n")]),
    "unfold no batch": (lambda x: F.unfold(x.detach(), 3), [(3, "n", 6)]),
    "unfold batch": (lambda x: F.unfold(x, 3, padding=1), [("n", 3, 6, 5)]),
    "fold batch": (lambda x: F.fold(x, (4, 5), 2), [("n", 12, 12)]),
    # norms, losses, embeddings, repetitions
    "layer_norm outer": (lambda x, w, b: F.layer_norm(x, (5,), w, b), [(2, "n", 5), (5,), (5,)]),
    "layer_norm two outer": (lambda x, w, b: F.layer_norm(x, (5,), w, b), [("n", "n", 5), (5,), (5,)]),
    "rms_norm": (lambda x, w: F.rms_norm(x, (5,), w), [(2, "n", 5), (5,)]),
    "rms_norm plain": (lambda x: F.rms_norm(x, (5,)), [("n", 5)]),
    "group_norm batch": (lambda x, w, b: F.group_norm(x, 2, w, b), [("n", 4, 3), (4,), (4,)]),
    "group_norm length": (lambda x, w, b: F.group_norm(x, 2, w, b), [(2, 4, "n"), (4,), (4,)]),
    "group_norm plane": (lambda x, w, b: F.group_norm(x, 2, w, b), [(2, 4, "n", "n"), (4,), (4,)]),
    "group_norm all": (lambda x, w, b: F.group_norm(x, 2, w, b), [("n", 4, 3, "n"), (4,), (4,)]),
    "group_norm plain": (lambda x: F.group_norm(x, 2), [("n", 4)]),
    "batch_norm batch": (lambda x, w, b: F.batch_norm(x, None, None, w, b, True), [("n", 3), (3,), (3,)]),
    "batch_norm plane": (
        lambda x, w, b: F.batch_norm(x, None, None, w, b, True),
        [("n", 3, "n", 4), (3,), (3,)],
    ),
    "batch_norm eval": (
        lambda x, w, b, m, v: F.batch_norm(x, m.detach(), v.detach().abs(), w, b, False),
        [("n", 3, "n"), (3,), (3,), (3,), (3,)],
    ),
    "cross_entropy": (lambda x, y: F.cross_entropy(x, ints(y, 5)), [("n", 5), ("n",)]),
    "cross_entropy ignore": (lambda x, y: F.cross_entropy(x, ints(y, 5), ignore_index=2), [("n", 5), ("n",)]),
    "cross_entropy sum none": (
        lambda x, y: (
            F.cross_entropy(x, ints(y, 5), ignore_index=2, reduction="sum")
            + F.cross_entropy(x, ints(y, 5), ignore_index=2, reduction="none")
        ),
        [("n", 5), ("n",)],
    ),
    "cross_entropy weight": (
        lambda x, y, w: F.cross_entropy(x, ints(y, 5), w.detach().abs(), ignore_index=2),
        [("n", 5), ("n",), (5,)],
    ),
    "cross_entropy smooth": (
        lambda x, y: F.cross_entropy(x, ints(y, 5), label_smoothing=0.1),
        [("n", 5), ("n",)],
    ),
    "cross_entropy length": (
        lambda x, y: F.cross_entropy(x, ints(y, 5), ignore_index=2),
        [(2, 5, "n"), (2, "n")],
    ),
    "cross_entropy images": (
        lambda x, y: F.cross_entropy(x, ints(y, 5), ignore_index=2),
        [(2, 5, "n", "n"), (2, "n", "n")],
    ),
    "cross_entropy classes": (lambda x, y: F.cross_entropy(x, ints(y, 5)), [(3, "n"), (3,)]),
    "cross_entropy both": (lambda x, y: F.cross_entropy(x, ints(y, 5)), [("n", "n"), ("n",)]),
    "cross_entropy probs": (lambda x, y: F.cross_entropy(x, y.softmax(1)), [("n", 5), ("n", 5)]),
    "cross_entropy flat": (
        lambda x, y: F.cross_entropy(x.flatten(0, 1), ints(y, 5).flatten()),
        [(2, "n", 5), (2, "n")],
    ),
    "nll_loss": (lambda x, y: F.nll_loss(x, ints(y, 5)), [("n", 5), ("n",)]),
    "mse": (lambda x, y: F.mse_loss(x, y), [("n", 5), ("n", 5)]),
    "l1": (lambda x, y: F.l1_loss(x, y), [("n", 5), ("n", 5)]),
    "smooth_l1": (lambda x, y: F.smooth_l1_loss(x, y), [("n", "n"), ("n", "n")]),
    "huber": (lambda x, y: F.huber_loss(x, y), [("n", "n"), ("n", "n")]),
    "bce": (lambda x, y: F.binary_cross_entropy(x.sigmoid(), y.detach().sigmoid()), [("n", 5), ("n", 5)]),
    "bce logits": (
        lambda x, y: F.binary_cross_entropy_with_logits(x, y.detach().sigmoid()),
        [("n", "n"), ("n", "n")],
    ),
    "kl_div log": (
        lambda x, y: F.kl_div(x.log_softmax(-1), y.log_softmax(-1), reduction="sum", log_target=True),
        [("n", 5), ("n", 5)],
    ),
    "cosine_embedding": (
        lambda x, y, s: F.cosine_embedding_loss(x, y, s.detach().sign()),
        [("n", 5), ("n", 5), ("n",)],
    ),
    "hinge_embedding": (lambda x, s: F.hinge_embedding_loss(x, s.detach().sign()), [("n", 5), ("n", 5)]),
    "margin_ranking": (
        lambda x, y, s: F.margin_ranking_loss(x, y, s.detach().sign()),
        [("n",), ("n",), ("n",)],
    ),
    "multi_margin": (lambda x, y: F.multi_margin_loss(x, ints(y, 5)), [("n", 5), ("n",)]),
    "multi_margin none": (
        lambda x, y, w: F.multi_margin_loss(x, ints(y, 5), p=2, weight=w.detach().abs(), reduction="none"),
        [("n", 5), ("n",), (5,)],
    ),
    "multi_margin classes": (lambda x, y: F.multi_margin_loss(x, ints(y, 5)), [("n", "n"), ("n",)]),
    "multilabel_margin": (lambda x, y: F.multilabel_margin_loss(x, ints(y, 6) - 1), [("n", 5), ("n", 5)]),
    "multilabel_margin none": (
        lambda x, y: F.multilabel_margin_loss(x, ints(y, 6) - 1, reduction="none"),
        [("n", 5), ("n", 5)],
    ),
    "multilabel_margin classes": (
        lambda x, y: F.multilabel_margin_loss(x, ints(y, 6) - 1),
        [("n", "n"), ("n", "n")],
    ),
    "multilabel_soft": (
        lambda x, y: F.multilabel_soft_margin_loss(x, (y.detach() > 0).float()),
        [("n", 5), ("n", 5)],
    ),
    "soft_margin": (lambda x, y: F.soft_margin_loss(x, y.detach().sign()), [("n", 5), ("n", 5)]),
    "triplet": (lambda x, y, z: F.triplet_margin_loss(x, y, z), [("n", 5), ("n", 5), ("n", 5)]),
    "gaussian_nll": (
        lambda x, y, v: F.gaussian_nll_loss(x, y, v.abs() + 0.1),
        [("n", 5), ("n", 5), ("n", 5)],
    ),
    "poisson_nll": (lambda x, y: F.poisson_nll_loss(x, y.detach().abs()), [("n", 5), ("n", 5)]),
    "embedding": (lambda i, w: F.embedding(ints(i, 6), w), [("n",), (6, 3)]),
    "embedding 2d": (lambda i, w: F.embedding(ints(i, 6), w, padding_idx=2), [(2, "n"), (6, 3)]),
    "embedding both": (lambda i, w: F.embedding(ints(i, 6), w), [("n", "n"), (6, "n")]),
    "embedding freq": (lambda i, w: F.embedding(ints(i, 6), w, scale_grad_by_freq=True), [("n",), (6, 3)]),
    "embedding_bag offsets": (
        lambda i, w: F.embedding_bag(ints(i, 6), w, torch.tensor([0, 2], device=w.device), mode="sum"),
        [("n",), (6, 3)],
    ),
    "repeat_interleave": (lambda x: x.repeat_interleave(3, 1), [(2, "n")]),
    "repeat_interleave other": (lambda x: x.repeat_interleave(3, 0), [(2, "n")]),
    "repeat_interleave flat": (lambda x: x.repeat_interleave(2), [("n",)]),
    "repeat": (lambda x: x.repeat(2, 3), [(2, "n")]),
    "repeat times": (lambda x: x.new_ones(1, 3).repeat(len(x), 1) * x, [("n", 3)]),
    "repeat of several": (lambda x: x.detach()[:2].repeat(len(x), 1), [("n", 3)]),
    "repeat all": (lambda x: x.repeat(len(x), 2), [("n", 3)]),
    "repeat new dim": (lambda x: x.repeat(len(x), 1, len(x)), [("n", 2)]),
    "tile": (lambda x: x.tile(2), [("n",)]),
    "unique inverse": (lambda x: ints(x, 7).unique(return_inverse=True)[1].float(), [(2, "n")]),
    "unique counts": (lambda x: ints(x, 2).unique(return_counts=True)[1].float(), [("n",)]),
    "unique dim": (lambda x: ints(x, 2).unique(dim=0).float(), [("n", 2)]),
    "unique_consecutive": (lambda x: ints(x, 3).unique_consecutive().float(), [("n",)]),
    "bincount": (lambda x: torch.bincount(ints(x, 7)).float(), [("n",)]),
    "pad reflect": (lambda x: F.pad(x, (2, 1), mode="reflect"), [(2, 3, "n")]),
    "pad replicate": (lambda x: F.pad(x, (2, 1), mode="replicate"), [(2, 3, "n")]),
    "pad reflect 2d": (lambda x: F.pad(x, (2, 1, 1, 1), mode="reflect"), [(2, 3, "n", "n")]),
    "pad reflect beside": (lambda x: F.pad(x, (2, 1), mode="reflect"), [("n", 3, 5)]),
    "pad circular": (lambda x: F.pad(x, (2, 1), mode="circular"), [(2, 3, "n")]),
    "pad circular 2d": (lambda x: F.pad(x, (2, 3, 1, 1), mode="circular"), [("n", 3, "n", "n")]),
    "pad circular beside": (lambda x: F.pad(x, (2, 1), mode="circular"), [("n", 3, 5)]),
    "one_hot": (lambda x: F.one_hot(ints(x, 5), 5).float(), [("n", "n")]),
    "one_hot classes": (lambda x: F.one_hot(ints(x, 5)).float(), [("n",)]),
    "embedding_bag": (lambda i, w: F.embedding_bag(ints(i, 6), w, mode="sum"), [("n", 4), (6, 3)]),
    "embedding_bag length": (lambda i, w: F.embedding_bag(ints(i, 6), w), [(4, "n"), (6, 3)]),
    "embedding_bag max": (lambda i, w: F.embedding_bag(ints(i, 6), w, mode="max"), [("n", 5), (6, 3)]),
    "embedding_bag weights": (
        lambda i, w, y: F.embedding_bag(ints(i, 6), w, mode="sum", per_sample_weights=y),
        [("n", 4), (6, 3), ("n", 4)],
    ),
    "lp_pool1d": (lambda x: F.lp_pool1d(x, 2, 3), [("n", 3, "n")]),
    "conv_transpose groups": (
        lambda x, w: F.conv_transpose1d(x, w, stride=2, groups=2),
        [("n", 4, "n"), (4, 2, 3)],
    ),
    "conv2d depthwise": (
        lambda x, w: F.conv2d(x, w, padding=1, groups=4),
        [(2, 4, "n", "n"), (4, 1, 3, 3)],
    ),
    "glu": (lambda x: F.glu(x, 1), [("n", 4)]),
    "normalize": (lambda x: F.normalize(x, dim=-1), [("n", "n")]),
    "cosine_similarity": (lambda x, y: F.cosine_similarity(x, y), [("n", "n"), ("n", "n")]),
}
# Their results are on the ladder, and pass to the next rung before their operands do.
LONGER = ("pad circular", "pad circular 2d")
# Right without masks, and why.
PASS = {
    **dict.fromkeys(
        (
            "adaptive_max_pool1d",
            "adaptive_max_pool1d batch",
            "adaptive_max_pool2d",
            "adaptive_max_pool2d one side",
            "adaptive_max_pool2d indices",
        ),
        "windows are worked out from the size",
    ),
    **dict.fromkeys(("unfold no batch", "unfold batch", "fold batch"), "no window reaches into the padding"),
    **dict.fromkeys(
        (
            "repeat times",
            "repeat of several",
            "repeat all",
            "repeat new dim",
            "pad circular",
            "pad circular 2d",
            "pad circular beside",
        ),
        "places are counted by logical sizes",
    ),
    **dict.fromkeys(("one_hot", "one_hot classes"), "elements do not meet"),
    "pad beside": "the generic dim is not looked at",
    **dict.fromkeys(("rms_norm plain", "group_norm plain"), "rows of a batch do not meet"),
    **dict.fromkeys(("multi_margin none", "multilabel_margin none"), "the gradients of rows do not meet"),
    **dict.fromkeys(
        ("embedding freq", "repeat", "tile", "unique dim", "unique_consecutive"),
        "places are counted by logical sizes",
    ),
    **dict.fromkeys(
        ("repeat_interleave", "repeat_interleave other", "repeat_interleave flat"), "elements do not meet"
    ),
    **dict.fromkeys(("glu", "pad reflect beside"), "the generic dim is not looked at"),
    "embedding_bag max": "bags in the padding are empty",
    "multilabel_margin": "whatever stands in the padding of the targets may be -1, no class",
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
        grads = torch.autograd.grad(
            out, [x for x in xs if x.requires_grad], out.detach().sin() / 64, allow_unused=True
        )
    return [t.detach().cpu() for t in (out, *grads) if t is not None]


def close(got: list[torch.Tensor], expected: list[torch.Tensor]) -> None:
    for g, e in zip(got, expected, strict=True):
        torch.testing.assert_close(g, e)


@pytest.mark.parametrize("name", CASES)
def test_values_and_programs(name: str, fresh) -> None:
    fn, shapes = CASES[name]
    compiled = []
    for n in SIZES:
        xs = operands(shapes, n)
        expected = run(fn, xs)
        for fill in (math.nan, 1e30):
            before = torch.tpu.explain_sizes()["exact"]
            close(run(fn, on_device(xs, shapes, fill)), expected)
            assert torch.tpu.explain_sizes()["exact"] == before
        compiled.append(torch.tpu.compile_stats()["programs_compiled"])
    if name in LONGER:
        return
    assert compiled[1] == compiled[2]  # the second size is the evidence for sizes that stand in Python


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
