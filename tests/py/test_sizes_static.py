"""A static cache: parts of varying length are written at varying places and its front is read, without a program for each length."""

from __future__ import annotations

import pytest
import torch
from helpers import data

ROOM = 60  # no rung: a window of physical size does not fit at the end


def by_slice(cache: torch.Tensor, at: int, k: torch.Tensor) -> None:
    cache[:, :, at : at + k.shape[2]] = k


def by_narrow(cache: torch.Tensor, at: int, k: torch.Tensor) -> None:
    cache.narrow(2, at, k.shape[2]).copy_(k)


def by_addition(cache: torch.Tensor, at: int, k: torch.Tensor) -> None:
    part = cache[:, :, at : at + k.shape[2]]
    part.mul_(0.5)
    part += k


def by_index_copy(cache: torch.Tensor, at: int, k: torch.Tensor) -> None:
    cache.index_copy_(2, torch.arange(at, at + k.shape[2], device=k.device), k)


def by_index(cache: torch.Tensor, at: int, k: torch.Tensor) -> None:
    cache[:, :, torch.arange(at, at + k.shape[2], device=k.device)] = k


WRITES = {f.__name__: f for f in (by_slice, by_narrow, by_addition, by_index_copy, by_index)}
# Length and place. What comes then is of the same pairs of rungs (of the length, and of all that is written so far).
FIRST = [(17, 2), (18, 30), (20, 3), (24, 36), (5, 3), (7, 52), (2, 9)]
THEN = [(19, 5), (24, 36), (20, 28), (18, 42), (6, 2), (8, 51), (5, 2), (2, 10)]


def attend(weight: torch.Tensor, cache: torch.Tensor, n: int, at: int, write) -> torch.Tensor:
    x = data(1, n, 10, seed=n + at).to(weight.device)
    k = (x @ weight * 0.2).view(1, n, 3, 4).transpose(1, 2)
    write(cache, at, k)
    seen = cache[:, :, : at + n]
    return (k @ seen.transpose(-1, -2)).softmax(-1) @ seen + k


@pytest.mark.parametrize("name", WRITES)
def test_parts_of_varying_length(name: str, mode: str, fresh) -> None:
    weights = [data(10, 12).to(device).requires_grad_() for device in ("cpu", "tpu")]
    caches = [torch.zeros(1, 3, ROOM, 4, device=device) for device in ("cpu", "tpu")]
    with torch.no_grad(), torch.tpu.sizes("auto"):
        for calls in (FIRST, FIRST, THEN):  # at first exact, then by evidence generic
            torch.tpu.reset_compile_stats()
            for n, at in calls:
                expected, got = (attend(w, c, n, at, WRITES[name]) for w, c in zip(weights, caches))
                torch.testing.assert_close(got.cpu(), expected)
                torch.testing.assert_close(caches[1].cpu(), caches[0])
    stats = torch.tpu.compile_stats()
    assert stats["programs_compiled"] + stats["programs_loaded"] == 0, stats["programs"]


def test_forgetting_leaves_no_evidence() -> None:
    """What ran before programs were cleared does not decide which sizes of the next run are exact."""
    from torch_tpu import _C

    marks = []
    with torch.no_grad(), torch.tpu.sizes("auto"):
        for _ in range(2):
            _C.clear_programs()
            weight, cache = data(10, 12).to("tpu").requires_grad_(), torch.zeros(1, 3, ROOM, 4, device="tpu")
            for n, at in FIRST:
                attend(weight, cache, n, at, by_index)
            marks.append(sorted((m["op"], m["exact"], m["size"]) for m in torch.tpu.explain_sizes()["marks"]))
    assert marks[0] and marks[0] == marks[1]


def test_how_often_something_is_repeated_turns_generic(fresh) -> None:
    """A number alone, of which no operand has anything, is evidence at its second value; the sizes of operands are not."""
    x = data(1, 3)
    t = x.to("tpu")
    counts = []
    for n in (19, 21, 22, 24, 20):
        torch.tpu.reset_compile_stats()
        got = t.repeat(n, 2) * 2
        counts.append(torch.tpu.compile_stats()["programs_compiled"])
        torch.testing.assert_close(got.cpu(), x.repeat(n, 2) * 2)
    assert counts[2:] == [0, 0, 0]
    for n in (19, 21):
        x = data(n, 3)
        torch.testing.assert_close(x.to("tpu").repeat(2, 2).cpu(), x.repeat(2, 2))
    assert [m["op"] for m in torch.tpu.explain_sizes()["marks"]] == ["repeat"]
