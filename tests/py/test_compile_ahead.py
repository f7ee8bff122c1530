"""torch_tpu.compile_async: what a later call finds, and that nothing else is left of it."""

from __future__ import annotations

import copy
import threading

import pytest
import torch
import torch.nn as nn
import torch_tpu
from helpers import data, same

others: set[str] = set()  # graphs of other tests that are still there


@pytest.fixture(autouse=True)
def reset(fresh):
    torch._dynamo.reset()
    others.update(g["name"] for g in torch.tpu.compile_stats()["graphs"])
    yield
    torch._dynamo.reset()


def count() -> int:
    stats = torch.tpu.compile_stats()
    return stats["programs_compiled"] + stats["programs_loaded"]


def recordings() -> dict[str, int]:
    """How many inputs the graphs of each kind were recorded for."""
    found: dict[str, int] = {}
    for graph in torch.tpu.compile_stats()["graphs"]:
        for piece in graph["pieces"] if graph["name"] not in others else ():
            kind = graph["name"].split()[0]
            found[kind] = found.get(kind, 0) + len(piece["recorded"])
    return found


class Noisy(nn.Module):
    """Buffers that a call writes, random draws, saved activations."""

    def __init__(self):
        super().__init__()
        self.one, self.norm, self.two = nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 3)
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        self.calls += 1
        return self.two(nn.functional.dropout(self.norm(self.one(x)), 0.5))


def test_finds_forward_and_backward_and_leaves_the_rest():
    torch.manual_seed(1)
    model = Noisy().to("tpu")
    plain = copy.deepcopy(model)
    x = data(4, 6).to("tpu")
    before, state = copy.deepcopy(model.state_dict()), torch.tpu.get_rng_state()
    run = torch_tpu.compile_async(model, x).result(120)
    same(dict(model.state_dict()), {k: v.cpu() for k, v in before.items()})
    assert torch.equal(torch.tpu.get_rng_state(), state)
    assert all(p.grad is None for p in model.parameters())
    assert recordings() == {"forward": 1, "backward": 1}
    ones = torch.ones(4, 3, device="tpu")
    known = count()
    results = run(x)
    results.backward(ones)
    assert count() == known
    assert recordings() == {"forward": 1, "backward": 1}
    torch.tpu.set_rng_state(state)  # the draws of an eager call
    expected = plain(x)
    expected.backward(ones)
    same(results, expected.cpu())
    same([p.grad for p in model.parameters()], [p.grad.cpu() for p in plain.parameters()])
    same(dict(model.state_dict()), {k: v.cpu() for k, v in plain.state_dict().items()})
    assert model.calls.item() == 1


def test_several_shapes_side_by_side():
    layer = nn.Linear(8, 8).to("tpu")
    run = torch.compile(lambda x: torch.tanh(layer(x)).sum(0), backend="tpu", fullgraph=True, dynamic=False)
    xs = [data(n, 8).to("tpu") for n in (2, 3, 5, 7)]
    with torch.no_grad():
        waiting = [torch_tpu.compile_async(run, x) for x in xs]
        assert all(w.result(120) is run for w in waiting)
        known = count()
        for x in xs:
            same(run(x), torch.tanh(layer.cpu()(x.cpu())).sum(0))
            layer.to("tpu")
        assert count() == known


def test_a_length_of_a_dynamic_function():
    """Traced before; the backward's inputs have the sizes of this call."""
    layer = nn.Linear(8, 8).to("tpu")
    run = torch.compile(lambda x: torch.softmax(layer(x), 0), backend="tpu", fullgraph=True, dynamic=True)
    run(data(5, 8).to("tpu")).sum().backward()
    layer.zero_grad()
    torch_tpu.compile_async(run, torch.empty(100, 8, device="tpu")).result(120)
    assert layer.weight.grad is None
    x, weights = data(100, 8).to("tpu"), data(100, 8).to("tpu")
    known = count()
    result = run(x)
    result.backward(weights)
    assert count() == known
    reference = copy.deepcopy(layer).cpu()
    expected = torch.softmax(reference(x.cpu()), 0)
    reference.zero_grad()
    expected.backward(weights.cpu())
    same(result, expected)
    same(layer.weight.grad, reference.weight.grad)


def test_written_arguments_stay():
    def push(cache, at, x):
        return cache.index_copy_(0, at, x) * 2

    cache, at = torch.zeros(4, 3, device="tpu"), torch.tensor([1], device="tpu")
    run = torch_tpu.compile_async(push, cache, at, torch.ones(1, 3, device="tpu")).result(120)
    same(cache, torch.zeros(4, 3))
    run(cache, at, torch.full((1, 3), 7.0, device="tpu"))
    same(cache, torch.tensor([0.0, 7, 0, 0])[:, None].expand(4, 3))


def test_other_threads_draw_their_own_numbers_meanwhile():
    """A generator that somebody draws from while another thread compiles ahead moves by the draws of the first alone."""
    torch.manual_seed(5)
    expected = [torch.rand(3, device="tpu") for _ in range(50)]
    torch.manual_seed(5)
    waiting = torch_tpu.compile_async(
        lambda x: nn.functional.dropout(x @ x, 0.5) + torch.rand_like(x), data(16, 16).to("tpu")
    )
    got = [torch.rand(3, device="tpu") for _ in range(50)]
    waiting.result(120)
    same(got, [x.cpu() for x in expected])


def test_the_caller_decides_about_gradients_and_autocast():
    layer = nn.Linear(6, 6).to("tpu")
    x = data(2, 6).to("tpu")
    with torch.no_grad(), torch.autocast("tpu", torch.bfloat16):
        run = torch_tpu.compile_async(layer, x).result(120)
        known = count()
        assert run(x).dtype == torch.bfloat16
        assert count() == known
    assert recordings() == {"inference": 1}
    assert torch.is_grad_enabled()


def test_a_call_meanwhile_waits_for_its_own_only():
    slow = threading.Event()

    def backend(gm, _):
        def call(*args):
            slow.wait(60)
            return gm(*args)

        return call

    held = torch_tpu.compile_async(
        torch.compile(lambda x: x * 3, backend=backend), torch.ones(2, device="tpu")
    )
    x = data(3, 3).to("tpu")
    same(torch.compile(lambda x: x @ x, backend="tpu")(x), x.cpu() @ x.cpu())
    assert not held.done()
    slow.set()
    with pytest.raises(RuntimeError, match='came to its end without a graph of backend "tpu"'):
        held.result(60)


def test_a_graph_break_is_an_error_that_names_it():
    def broken(x):
        y = x + 1
        torch._dynamo.graph_break()
        return y * 2

    with pytest.raises(torch._dynamo.exc.Unsupported, match="graph_break"):
        torch_tpu.compile_async(broken, torch.ones(2, device="tpu")).result(60)
    same(torch.compile(broken, backend="tpu")(torch.ones(2, device="tpu")), torch.full((2,), 4.0))


def test_an_error_of_the_function_is_the_futures():
    with pytest.raises(RuntimeError, match="same reduction dim"):
        torch_tpu.compile_async(
            lambda a, b: a @ b, torch.ones(2, 3, device="tpu"), torch.ones(2, 3, device="tpu")
        ).result(60)
