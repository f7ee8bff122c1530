"""torch_tpu.export: jax loads the artifact and computes what PyTorch computes on the CPU."""

from __future__ import annotations

import copy

import pytest
import test_programs as programs
import torch
import torch.nn as nn
import torch_tpu
from helpers import same
from torch.utils._pytree import tree_leaves


def of_jax(exported: torch_tpu.Exported, *inputs: torch.Tensor) -> list[torch.Tensor]:
    """The results of the portable artifact in jax's own runtime."""
    import jax
    from jax._src.interpreters.mlir import make_ir_context
    from jaxlib import _jax

    with make_ir_context():
        text = str(_jax.mlir.deserialize_portable_artifact(exported.serialize()))
    device = jax.devices("cpu")[0]
    with jax.enable_x64(True):
        program = device.client.compile_and_load(text, _jax.DeviceList((device,)))
        arrays = [jax.device_put(t.numpy(), device) for t in (*exported.weights.values(), *inputs)]
        made = program.execute_sharded(arrays).disassemble_into_single_device_arrays()
    import numpy as np

    return [torch.from_numpy(np.array(a[0])) for a in made]


def agrees(model: nn.Module, *inputs: torch.Tensor, **tolerance) -> torch_tpu.Exported:
    exported = torch_tpu.export(copy.deepcopy(model), inputs)
    with torch.no_grad():
        expected = [t for t in tree_leaves(copy.deepcopy(model)(*inputs)) if isinstance(t, torch.Tensor)]
    got = of_jax(exported, *inputs)
    torch.testing.assert_close(got[len(got) - len(expected) :], expected, **tolerance)
    return exported


class Mixed(nn.Module):
    """Views, an input given back, a buffer, numbers, integers and bools among the results."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.norm = nn.Embedding(10, 8), nn.BatchNorm1d(8)
        self.register_buffer("steps", torch.arange(3.0))

    def forward(self, ids, x, k: float = 2.5):
        h = self.norm(self.words(ids).flatten(0, 1))
        return (
            h.t(),
            {"soft": h.softmax(-1) * k, "ids": ids, "x": x[:, 1:].expand(2, 4, 2)},
            self.steps.sum(),
            h > 0,
        )


def test_values_and_names() -> None:
    torch.manual_seed(0)
    ids, x = torch.randint(10, (2, 3)), torch.randn(4, 3).t().contiguous().t()
    exported = agrees(Mixed().eval(), ids, x)
    assert list(exported.weights)[:2] == ["words.weight", "norm.weight"] and "steps" in exported.weights
    assert [(a.name, a.shape, a.dtype) for a in exported.inputs] == [
        ("ids", (2, 3), torch.int64),
        ("x", (4, 3), torch.float32),
    ]
    assert "func.func public @main(" in exported.stablehlo


def test_written_buffers_are_results() -> None:
    torch.manual_seed(0)
    model, x = nn.BatchNorm1d(4).double(), torch.randn(6, 4).double()
    exported = agrees(model, x)
    model(x)
    assert [n for n in exported.outputs if n] == ["running_mean", "running_var", "num_batches_tracked"]
    got = of_jax(exported, x)
    same(
        [t.to("tpu") for t in got[:3]],
        [model.running_mean, model.running_var, model.num_batches_tracked],
    )


@pytest.mark.parametrize("where", ["cpu", "tpu"])
def test_a_gpt(where: str) -> None:
    torch.manual_seed(0)
    model = programs.Gpt(60).eval()
    ids = torch.randint(60, (2, 24))
    with torch.no_grad():
        expected = model(ids)
    exported = torch_tpu.export(model.to(where), (ids.to(where),))
    # the same sums in jax's order
    torch.testing.assert_close(of_jax(exported, ids)[0], expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    "dtype", [torch.bool, torch.uint8, torch.int32, torch.float16, torch.float64, torch.complex64]
)
def test_dtypes(dtype: torch.dtype) -> None:
    class Both(nn.Module):
        def forward(self, x, y):
            return torch.where(x == y, x, y), x.new_full((2,), 1), x[:0]

    x = torch.tensor([0, 1, 2, 3]).to(dtype)
    agrees(Both(), x, x.flip(0))


def test_views_of_larger_memory() -> None:
    class Sum(nn.Module):
        def forward(self, x, y):
            return x @ y

    memory = torch.arange(24.0, device="tpu")
    x, y = memory[2:8].view(2, 3), memory[12:].view(4, 3).t()
    exported = torch_tpu.export(Sum(), (x, y))
    same(of_jax(exported, x.cpu(), y.cpu())[0].to("tpu"), x.cpu() @ y.cpu())
    x = torch.arange(6.0, device="tpu").view(2, 3)  # all of it, in other dims
    exported = torch_tpu.export(Sum(), (x, y))
    same(of_jax(exported, x.cpu(), y.cpu())[0].to("tpu"), x.cpu() @ y.cpu())


class Odd(nn.Module):
    """Results that are inputs in other dims, nothing at all, the same twice, and numbers beside them."""

    def forward(self, d, *, by=2, other=None):
        x = d["x"][0]
        y = x * by + (other if other is not None else 0)
        return x.t(), x[0], x.view(-1), y, y, y[:0], None, 7


def test_odd_results_and_arguments() -> None:
    x, other = torch.randn(2, 3), torch.randn(3)
    for kwargs in ({}, {"by": 3, "other": other}, {"other": other}):
        exported = torch_tpu.export(Odd(), ({"x": [x]},), kwargs)
        expected = [t for t in Odd()({"x": [x]}, **kwargs) if isinstance(t, torch.Tensor)]
        inputs = [x] + [t for t in kwargs.values() if isinstance(t, torch.Tensor)]
        torch.testing.assert_close(of_jax(exported, *inputs), expected)
    agrees(nn.Linear(3, 2), torch.zeros(0, 3))


def test_tied_weights_and_constants() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.head = nn.Embedding(7, 4), nn.Linear(4, 7, bias=False)
            self.head.weight = self.words.weight
            self.register_buffer("scale", torch.rand(4), persistent=False)

        def forward(self, ids):
            return self.head(self.words(ids) * self.scale + torch.tensor(2.0, device=ids.device))

    model, ids = Tied(), torch.tensor([1, 2])
    expected = model(ids).detach()
    for where in ("cpu", "tpu"):
        exported = torch_tpu.export(model.to(where), (ids.to(where),))
        torch.testing.assert_close(of_jax(exported, ids)[0], expected)


def test_files(tmp_path) -> None:
    exported = torch_tpu.export(nn.Linear(3, 2), (torch.ones(1, 3),))
    exported.save(tmp_path / "a.mlir")
    exported.save(tmp_path / "a.bin")
    assert (tmp_path / "a.mlir").read_text() == exported.stablehlo
    assert (tmp_path / "a.bin").read_bytes()[:4] == b"ML\xefR"


def test_refused() -> None:
    class Uses(nn.Module):
        def __init__(self, f):
            super().__init__()
            self.f = f

        def forward(self, x):
            return self.f(x)

    x = torch.randn(3, 3)
    with pytest.raises(RuntimeError, match=r"draws random numbers; export it after model.eval\(\)"):
        torch_tpu.export(nn.Dropout(), (x,))
    torch.tpu.set_fallback_policy("silent")
    with pytest.raises(
        RuntimeError, match="aten.linalg_eig.default .*test_export.py:.* cannot be part of a program"
    ):
        torch_tpu.export(Uses(lambda x: torch.linalg.eig(x)[0].abs()), (x,))
    torch.tpu.set_fallback_policy("error")
    with pytest.raises(RuntimeError, match="size hangs on values"):
        torch_tpu.export(Uses(lambda x: x.nonzero() + 1), (x,))
    with pytest.raises(RuntimeError, match="nothing to compute"):
        torch_tpu.export(Uses(lambda x: x), (x,))
