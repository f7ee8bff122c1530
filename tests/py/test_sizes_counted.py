"""Results whose size depends on the data are values with a generic dim: one program for all counts of a rung, and one size read a
call. Their operands may have padding of their own."""

from __future__ import annotations

import math

import pytest
import torch
from helpers import data

CALLS = {  # of x [a, b] and the mask of the same sizes
    "nonzero": lambda x, m: m.nonzero(),
    "where": lambda x, m: torch.where(m)[1],
    "masked_select": lambda x, m: x.masked_select(m),
    "x[mask]": lambda x, m: x[m],
    "x[row mask]": lambda x, m: x[m[:, 0]],
    "x[:, mask]": lambda x, m: x[:, m[0]],
    "x[mask, index]": lambda x, m: x.unsqueeze(2).expand(*x.shape, 3)[m, torch.tensor(1, device=x.device)],
    "unique": lambda x, m: (x.round() * m).unique(),
    "unique all": lambda x, m: torch.unique((x.round() * m), return_inverse=True, return_counts=True)[1:],
    "unique dim": lambda x, m: torch.unique((x > 0) & m, dim=0, return_inverse=True, return_counts=True),
    "unique dim 1": lambda x, m: torch.unique((x > 0) & m, dim=1, return_inverse=True)[1],
    "consecutive": lambda x, m: torch.unique_consecutive(
        (x > 0) & m, return_inverse=True, return_counts=True
    ),
    "bincount": lambda x, m: m.long().sum(1).bincount(x[:, 0]),
    "repeat": lambda x, m: torch.repeat_interleave(m.sum(1)),
    "masked_scatter": lambda x, m: x.masked_scatter(m, x.t()),
    "x[mask] = x[mask]": lambda x, m: x.clone().index_put_((m,), x[m] * 2),
    "x[mask] = 3": lambda x, m: x.index_put((m,), torch.tensor(3.0, device=x.device)),
    "isin": lambda x, m: torch.isin(x.round(), x[0].round()),
}


def operands(a: int, b: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    x = data(a, b, seed=seed) * 2
    return x, data(a, b, seed=seed + 1) > 0.2


def listed(t) -> list[torch.Tensor]:
    return [t] if isinstance(t, torch.Tensor) else list(t)


def same(got, expected) -> None:
    for g, e in zip(listed(got), listed(expected), strict=True):
        assert g.shape == e.shape and g.dtype == e.dtype
        torch.testing.assert_close(g.cpu(), e)


@pytest.mark.parametrize("fill", [math.nan, 1e30])
@pytest.mark.parametrize("dims", [(0,), (1,), (0, 1)])
@pytest.mark.parametrize("name", CALLS)
def test_of_padded_operands(name: str, dims: tuple[int, ...], fill: float) -> None:
    for a, b in ((5, 7), (3, 3)):
        x, m = operands(a, b)
        tx, tm = x.to("tpu"), m.to("tpu")
        for d in dims:
            torch.ops.tpu._mark_generic(tx, d, (8, 12)[d], fill)
            torch.ops.tpu._mark_generic(tm, d, (8, 12)[d], fill)
        before = torch.tpu.explain_sizes()["exact"]
        with torch.tpu.sizes("auto"):
            same(CALLS[name](tx, tm), CALLS[name](x, m))
        assert torch.tpu.explain_sizes()["exact"] == before


def rung(n: int) -> int:
    p = 2
    while p < n:
        if p + p // 2 >= n:
            return p + p // 2
        p *= 2
    return p if n > 1 else n


COUNTED = [
    "nonzero",
    "masked_select",
    "x[mask]",
    "x[:, mask]",
    "unique all",
    "unique dim",
    "bincount",
    "repeat",
]


@pytest.mark.parametrize("name", COUNTED)
def test_one_program_for_the_counts_of_a_rung(name: str, mode: str, fresh) -> None:
    rungs, later = set(), 0
    with torch.tpu.sizes("auto"):
        for seed in range(0, 40, 2):
            x, m = operands(13, 11, seed)
            expected = listed(CALLS[name](x, m))
            seen = tuple(rung(n) for e in expected for n in e.shape)
            torch.tpu.reset_compile_stats()
            got = listed(CALLS[name](x.to("tpu"), m.to("tpu")))
            for g, e in zip(got, expected):
                torch.testing.assert_close((g + 1).sum().cpu(), (e + 1).sum())
            stats = torch.tpu.compile_stats()
            if seen in rungs:
                later += 1
                assert stats["programs_compiled"] + stats["programs_loaded"] == 0
            rungs.add(seen)
    assert later > 5


def test_counts_of_nothing_and_one(mode: str) -> None:
    x = data(4, 3)
    with torch.tpu.sizes("auto"):
        for k in (0, 1, 2, 3):
            m = (torch.arange(12) < k).view(4, 3)
            got = x.to("tpu")[m.to("tpu")]
            same((got, got + 1, torch.cat([got, got])), (x[m], x[m] + 1, torch.cat([x[m], x[m]])))


def test_a_counted_result_looks_like_any_other() -> None:
    x = data(40)
    with torch.tpu.sizes("auto"):
        got = x.to("tpu")[x.to("tpu") > 0]
    expected = x[x > 0]
    assert got.untyped_storage().nbytes() == expected.untyped_storage().nbytes()
    same((got[1:], got.flip(0), got.view(-1, 1)), (expected[1:], expected.flip(0), expected.view(-1, 1)))
    got[0], expected[0] = 3, 3
    same(got, expected)
