"""Views that split a generic dim or expand to one: right whatever the padding holds, and no program for a size."""

from __future__ import annotations

import math

import pytest
import torch
from helpers import data

RUNG = {5: 8, 7: 8, 15: 16, 21: 24, 35: 48, 49: 64}


def padded(x: torch.Tensor, dim: int) -> torch.Tensor:
    t = x.to("tpu")
    torch.ops.tpu._mark_generic(t, dim, RUNG[x.shape[dim]], math.nan)
    return t


SPLITS = {  # of [3 * n, 8] whose first dim is generic
    "inner": lambda t, n: t.view(3, n, 8),
    "outer": lambda t, n: t.view(n, 3, 8),
    "part": lambda t, n: t.view(3, n, 8)[:, 1:-1],
    "last": lambda t, n: t.view(3, n, 8)[:, -1],
    "every second of all": lambda t, n: t.view(3, n, 8)[1:, ::2, 3],
    "heads": lambda t, n: t.view(3, n, 8).split(4, -1)[1].view(3, n, 2, 2).transpose(1, 2),
    "transposed": lambda t, n: t.t().view(8, 3, n).transpose(0, 2),
    "far apart": lambda t, n: t.as_strided((2, 2), (n * 8, 8 * 8), 8),
    "expanded": lambda t, n: t.view(3, n, 8)[:, :1].expand(3, n, 8),
}


@pytest.mark.parametrize("name", SPLITS)
def test_split(name: str, mode: str) -> None:
    before = torch.tpu.explain_sizes()["exact"]
    with torch.tpu.sizes("auto"):
        for n in (5, 7, 5):
            x = data(3 * n, 8)
            t, expected = padded(x, 0), SPLITS[name](x, n)
            got = SPLITS[name](t, n)
            torch.testing.assert_close((got * 2).cpu(), expected * 2)
            torch.testing.assert_close(got.sum(0).cpu(), expected.sum(0))
            torch.testing.assert_close(got.cpu(), expected, rtol=0, atol=0)
    assert torch.tpu.explain_sizes()["exact"] == before


def test_writes_to_splits(mode: str) -> None:
    def write(t: torch.Tensor, n: int) -> torch.Tensor:
        t = t.clone()
        t.view(3, n, 8)[:, 1:].zero_()
        t.view(3, n, 8).mul_(2)
        t.view(3, n, 8)[1] += 1
        t.view(n, 3, 8)[2:, 1, ::2] = 7
        return t

    with torch.tpu.sizes("auto"):
        for n in (5, 7):
            x = data(3 * n, 8)
            torch.testing.assert_close(write(padded(x, 0), n).cpu(), write(x, n))


def test_a_write_to_an_exact_copy_leaves_what_shares_it(mode: str) -> None:
    """A clone shares its value until one of the two is written, and so the copy without padding that a view needs."""
    with torch.tpu.sizes("auto"):
        for n in (5, 7):
            x = data(3 * n, 8)
            t = padded(x, 0).flatten().sin().view(3 * n, 8)
            assert torch.equal(t.narrow(1, 1, 3).cpu(), t.cpu().narrow(1, 1, 3))
            u = t.clone()
            u.narrow(1, 1, 3).t().mul_(0.5)
            expected = x.sin()
            torch.testing.assert_close(t.cpu(), expected)
            expected.narrow(1, 1, 3).mul_(0.5)
            torch.testing.assert_close(u.cpu(), expected)


def test_no_program_for_a_size(mode: str, fresh) -> None:
    """What GPT-2's Conv1D, experts and losses do with x[B, L, H], L growing."""

    def run(device: str, n: int) -> torch.Tensor:
        x = torch.cat([data(3, n - 1, 4).to(device), torch.ones(3, 1, 4, device=device)], 1)
        w = data(4, 6).to(device)
        h = torch.addmm(w[0], x.view(-1, 4), w).view(3, n, 6)
        place = w[:1, :4].expand(n, 4)
        y = (h[..., 2:] + place).transpose(1, 2).softmax(2)
        loss = torch.nn.functional.cross_entropy(h.reshape(-1, 6), (x[..., 0] > 0).long().view(-1))
        return loss + y[:, :, -1].sum() + h.view(-1, 3, 2)[:, 1].sum()

    with torch.tpu.sizes("auto"):
        x = data(3, 16, 4).to("tpu")
        for _ in range(2):  # a growing concatenation: the evidence
            x = torch.cat([x, torch.ones(3, 1, 4, device="tpu")], 1)
        for n in (17, 18, 19, 23):  # 3 * n is of the rungs 64 and 96
            torch.testing.assert_close(run("tpu", n).cpu(), run("cpu", n))
        torch.tpu.reset_compile_stats()
        for n in (20, 21, 22, 24):
            torch.testing.assert_close(run("tpu", n).cpu(), run("cpu", n))
        stats = torch.tpu.compile_stats()
    assert stats["programs_compiled"] + stats["programs_loaded"] == 0


def test_an_expanded_size_that_varies(mode: str, fresh) -> None:
    e = data(1, 8)
    te = e.to("tpu")
    with torch.tpu.sizes("auto"):
        for n in (17, 18, 19, 20, 21):
            if n == 20:
                torch.tpu.reset_compile_stats()
            got = te.expand(n, 8).cumsum(0)
            torch.testing.assert_close(got.cpu(), e.expand(n, 8).cumsum(0))
        stats = torch.tpu.compile_stats()
    assert stats["programs_compiled"] + stats["programs_loaded"] == 0
