"""Size-generic values through the whole of eager mode: logical sizes are what the user sees, padding may hold anything, one program
serves every size up to the rung, and a masked op without its mask is wrong (so the tests bite)."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from helpers import data
from torch_tpu import _C

RUNG = 12
FILLS = (math.nan, 1e30)


def generic(x: torch.Tensor, dim: int, fill: float, rung: int = RUNG) -> torch.Tensor:
    """x on the device, its dim padded to the rung with `fill`."""
    t = x.to("tpu")
    _C.mark_generic(
        t.data_ptr(),
        6 if x.dtype == torch.float32 else 4,
        list(t.shape),
        list(t.stride()),
        0,
        dim,
        rung,
        fill,
    )
    return t


CASES = {  # name: (function of one generic operand [3, n] and a plain one [3, 1], masked?)
    "add": (lambda x, y: x + y, False),
    "exp": (lambda x, y: x.exp(), False),
    "softmax": (lambda x, y: torch.softmax(x, -1), True),
    "sum": (lambda x, y: x.sum(-1), True),
    "sum all": (lambda x, y: x.sum(), True),
    "matmul contracting": (lambda x, y: torch.mm(x, x.t()), True),
    "matmul free": (lambda x, y: torch.mm(x.t(), y), False),
}


@pytest.mark.parametrize("fill", FILLS)
@pytest.mark.parametrize("name", CASES)
def test_right_with_any_padding(name: str, fill: float, mode: str) -> None:
    fn, _ = CASES[name]
    for n in (1, 2, 5, 11, 12):
        x, y = data(3, n), data(3, 1, seed=1)
        got = fn(generic(x, 1, fill), y.to("tpu"))
        expected = fn(x, y)
        assert got.shape == expected.shape and got.stride() == expected.stride()
        torch.testing.assert_close(got.cpu(), expected)


@pytest.mark.parametrize("name", [n for n, (_, masked) in CASES.items() if masked])
def test_wrong_without_masks(name: str) -> None:
    fn, _ = CASES[name]
    x, y = data(3, 5), data(3, 1, seed=1)
    _C.disable_masks(True)
    try:
        got = fn(generic(x, 1, math.nan), y.to("tpu")).cpu()
    finally:
        _C.disable_masks(False)
    assert not torch.allclose(got, fn(x, y), equal_nan=False)


def test_one_program_for_all_sizes(fresh) -> None:
    def run(n: int) -> None:
        x = generic(data(3, n), 1, math.nan, rung=24)
        torch.softmax(x * 1.5, -1).sum(-1).cpu()

    run(7)
    torch.tpu.reset_compile_stats()
    for n in range(2, 24):
        run(n)
    stats = torch.tpu.compile_stats()
    assert stats["programs_compiled"] == 0 and stats["programs_loaded"] == 0


SQUARES = {  # of x [2, 4, n, n or 64]: much work at n = 300, little at n = 40
    "matmul": lambda x: x @ x.mT,
    "attention": lambda x: F.scaled_dot_product_attention(x, x, x),
    "conv2d": lambda x: F.conv2d(x, torch.ones(8, 4, 3, 3, device=x.device) / 9),
}


@pytest.mark.parametrize("name", SQUARES)
def test_padding_does_not_more_than_double_much_work(name: str, fresh, mode: str) -> None:
    """257 would be padded to 384 twice: 2.2 times the work, so it is of its own; 300 is not, nor is any small size."""

    def run(n: int) -> tuple[int, bool]:
        x = data(2, 4, n, n if name == "conv2d" else 64)
        t = x.to("tpu")
        for d in (2, 3) if name == "conv2d" else (2,):
            torch.ops.tpu._mark_generic(t, d, 384 if n > 200 else 48, math.nan)
        exact = torch.tpu.explain_sizes()["exact"]
        torch.tpu.reset_compile_stats()
        torch.testing.assert_close(SQUARES[name](t).cpu(), SQUARES[name](x), rtol=1e-4, atol=1e-3)
        stats = torch.tpu.compile_stats()
        return stats["programs_compiled"] + stats["programs_loaded"], torch.tpu.explain_sizes()[
            "exact"
        ] != exact

    assert [run(n)[1] for n in (300, 320, 257, 384, 33, 40)] == [False, False, True, False, False, False]
    assert [run(n)[0] for n in (310, 257, 377, 33, 44)] == [0, 0, 0, 0, 0]


def test_growing_cat(mode: str) -> None:
    past, new = data(2, 5, 3), data(2, 1, 3, seed=2)
    t, expected = generic(past, 1, math.nan, rung=6), past
    for k in range(9):
        step = new * (k + 1)
        t, expected = torch.cat([t, step.to("tpu")], 1), torch.cat([expected, step], 1)
        assert t.shape == expected.shape
        torch.testing.assert_close(t.cpu(), expected, rtol=0, atol=0)
        torch.testing.assert_close(torch.softmax(t, 1).sum(1).cpu(), torch.softmax(expected, 1).sum(1))


def test_growing_cat_makes_programs_by_rung(fresh) -> None:
    def grow(n: int) -> None:
        t = generic(data(2, 4, 3), 1, math.nan, rung=6)
        for _ in range(n):
            t = torch.cat([t, torch.ones(2, 1, 3, device="tpu")], 1)
            (t * 2).sum(1)
        t.cpu()

    grow(12)
    torch.tpu.reset_compile_stats()
    grow(12)
    assert torch.tpu.compile_stats()["programs_compiled"] == 0


def test_views_are_of_logical_sizes() -> None:
    x = data(3, 5)
    t = generic(x, 1, 1e30)
    assert t.shape == (3, 5) and t.numel() == 15 and t.untyped_storage().nbytes() == 60
    for view in (
        lambda v: v.t(),
        lambda v: v[:, -1],
        lambda v: v[1:, ::2],
        lambda v: v.reshape(15),
        lambda v: v.view(15, 1),
    ):
        torch.testing.assert_close(view(t).cpu(), view(x), rtol=0, atol=0)
        torch.testing.assert_close((view(generic(x, 1, math.nan)) + 1).cpu(), view(x) + 1, rtol=0, atol=0)


def test_a_row_without_generic_form_gets_exact_values() -> None:
    x = data(3, 5)
    torch.testing.assert_close(torch.sort(generic(x, 1, math.nan), 1)[0].cpu(), x.sort(1)[0])
    torch.testing.assert_close(torch.flip(generic(x, 1, math.nan), [1]).cpu(), x.flip(1))


BAD = {  # name: (call of a generic operand [5, 3] and what it is given, sizes of that, dtype)
    "add": (lambda x, y: x + y, (4, 3), float),
    "cat": (lambda x, y: torch.cat([x, y], 1), (4, 3), float),
    "matmul": (lambda x, y: x.t() @ y, (4, 3), float),
    "gather": (lambda x, y: torch.gather(x, 1, y), (6, 2), int),
    "scatter": (lambda x, y: x.scatter(1, y, 1.0), (6, 2), int),
    "scatter src": (lambda x, y: x.scatter(1, y, y[:3].to(x.dtype)), (4, 2), int),
    "index_add": (lambda x, y: x.index_add(0, y[:, 0], x[:3]), (4, 2), int),
    "nll": (lambda x, y: torch.ops.aten.nll_loss_forward(x, y[:, 0], None, 1, -100), (4, 2), int),
    "layer_norm": (lambda x, y: torch.native_layer_norm(x, [2, 3], y[:2], y[:2], 1e-5), (4, 3), float),
}


@pytest.mark.parametrize("padded", [True, False])
@pytest.mark.parametrize("name", BAD)
def test_sizes_that_do_not_fit(name: str, padded: bool, mode: str) -> None:
    fn, sizes, kind = BAD[name]
    x = data(5, 3)
    y = data(*sizes) if kind is float else torch.zeros(sizes, dtype=torch.long)
    with pytest.raises(RuntimeError) as on_cpu:
        fn(x, y)
    with pytest.raises(type(on_cpu.value)):
        fn(padding(x), padding(y) if padded else y.to("tpu"))
        torch.tpu.synchronize()


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
@pytest.mark.parametrize("n", [3, 6, 8, 12])
def test_out_of_another_size(n: int, mode: str) -> None:
    x, out = data(n), padding(torch.zeros(6))
    torch.add(x.to("tpu"), 1, out=out)
    assert out.shape == (n,)
    torch.testing.assert_close(out.cpu(), x + 1)
    out = torch.zeros(6, device="tpu")
    torch.add(padding(x), 1, out=out)
    torch.testing.assert_close(out.cpu(), x + 1)


def padding(t: torch.Tensor) -> torch.Tensor:
    t = t.to("tpu")
    torch.ops.tpu._mark_generic(t, 0, 16, 1e30)
    return t
