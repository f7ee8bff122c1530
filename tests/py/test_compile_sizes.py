"""Compiled graphs of varying sizes: one trace of Dynamo's, a handful of programs a rung, none on rungs seen before."""

from __future__ import annotations

import copy
import gc
import random

import pytest
import torch
import torch.nn as nn
from helpers import same


@pytest.fixture(autouse=True)
def reset(fresh):
    torch._dynamo.reset()
    gc.collect()  # graphs of other tests
    torch._dynamo.utils.counters.clear()
    yield
    torch._dynamo.reset()


def rung(n: int) -> int:
    return next(r for r in (17, 24, 32, 48, 64, 96, 128) if r >= n)


def programs() -> int:
    """Of graphs: those of single ops are eager's."""
    return sum(p["ops"] > 1 for p in torch.tpu.compile_stats()["programs"])


def bert(layers: int = 4):
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=200, hidden_size=40, num_hidden_layers=layers, num_attention_heads=4, intermediate_size=72,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    return BertModel(config)


def read(model, n: int, device: str, mark: bool = False):
    g = torch.Generator().manual_seed(n)
    ids, mask = torch.randint(0, 200, (2, n), generator=g), torch.ones(2, n, dtype=torch.long)
    mask[1, n // 2 :] = 0
    ids, mask = ids.to(device), mask.to(device)
    if mark:
        torch._dynamo.mark_dynamic(ids, 1)
        torch._dynamo.mark_dynamic(mask, 1)
    return model(input_ids=ids, attention_mask=mask).last_hidden_state


@pytest.mark.parametrize("repeat,limit", [("inline", 2), ("auto", 6)])
def test_texts_of_any_length(repeat: str, limit: int) -> None:
    cpu = bert(2 if repeat == "inline" else 4)  # inline, four layers are one program, too: a longer one
    tpu = copy.deepcopy(cpu).to("tpu")
    run = torch.compile(tpu, backend="tpu", options={"repeat": repeat})
    lengths = list(range(18, 129, 5))
    random.Random(0).shuffle(lengths)
    seen: set[int] = set()
    for k, n in enumerate(lengths + lengths[:4]):
        torch.tpu.reset_compile_stats()
        got = read(run, n, "tpu", mark=True)
        got.backward(torch.ones_like(got))
        made = programs()
        if k >= 2:  # the first lengths show what varies
            assert made <= (0 if rung(n) in seen else limit), (n, made)
        if k >= 2 or rung(n) in seen:
            seen.add(rung(n))
        if k % 6 == 0:
            want = read(cpu, n, "cpu")
            same(got, want, atol=1e-4, rtol=1e-4)  # four layers of sums in another order
            want.backward(torch.ones_like(want))
            for p, q in zip(cpu.parameters(), tpu.parameters(), strict=True):
                if p.grad is not None:
                    same(q.grad, p.grad, atol=2e-3, rtol=2e-3)  # sums over up to 256 places in another order
        cpu.zero_grad()
        tpu.zero_grad()
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1
    from torch_tpu._compile import backend

    assert all(not g.alone for g in backend.graphs())


@pytest.mark.parametrize("how", ["automatic", "dynamic=True"])
def test_dynamic_shapes(how: str) -> None:
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, dropout=0.0)
    tpu = copy.deepcopy(layer).to("tpu")
    run = torch.compile(tpu, backend="tpu", **({"dynamic": True} if how != "automatic" else {}))
    for n in (17, 5, 23, 64, 40, 41, 1, 2):
        x = torch.randn(2, n, 16)
        want, got = layer(x), run(x.to("tpu"))
        same(got, want, atol=1e-5, rtol=1e-5)  # sums over padded places, in another order
        want.square().sum().backward()
        got.square().sum().backward()
    # sums of eight backward passes, over up to 128 places each, gradients of hundreds
    same([p.grad for p in tpu.parameters()], [p.grad for p in layer.parameters()], atol=1e-2, rtol=1e-3)


def test_bounds() -> None:
    run = torch.compile(lambda x: x.cumsum(0) * x.shape[0], backend="tpu")
    for n in (5, 7, 30):
        x = torch.randn(n)
        t = x.to("tpu")
        torch._dynamo.mark_dynamic(t, 0, min=2, max=64)
        same(run(t), x.cumsum(0) * n, atol=1e-5, rtol=1e-5)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1


def test_a_size_returned() -> None:
    run = torch.compile(
        lambda x: (x * 2, x.shape[0] * 3, x.new_zeros(x.shape[0] + 1)), backend="tpu", dynamic=True
    )
    for n in (3, 5, 9):
        y, k, z = run(torch.ones(n, device="tpu"))
        assert y.shape == (n,) and k == 3 * n and z.shape == (n + 1,)


def test_the_static_cache() -> None:
    """Transformers compiles the decoding step by itself."""
    from torch_tpu._compile import backend

    before = set(backend.graphs())
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=100, hidden_size=32, num_hidden_layers=6, num_attention_heads=4, num_key_value_heads=2,
        intermediate_size=72, max_position_embeddings=256,
    )  # fmt: skip
    cpu = LlamaForCausalLM(config).eval()
    cpu.generation_config.eos_token_id, cpu.generation_config.pad_token_id = None, 0
    tpu = copy.deepcopy(cpu).to("tpu")
    how = dict(max_new_tokens=12, do_sample=False)
    for n in (39, 50, 31, 45):
        ids = torch.randint(1, 100, (1, n), generator=torch.Generator().manual_seed(n))
        torch.tpu.reset_compile_stats()
        got = tpu.generate(ids.to("tpu"), cache_implementation="static", **how)
        assert got.tolist() == cpu.generate(ids, **how).tolist()
    used = [g.report() for g in backend.graphs() if g.calls and g not in before]
    assert used and not any(r["alone"] for r in used)
    assert programs() == 0  # 45 new rungs nothing


def recorded() -> list[int]:
    """For how many kinds of inputs each piece of the graphs was recorded."""
    return [len(p["recorded"]) for g in torch.tpu.compile_stats()["graphs"] for p in g["pieces"]]


def test_constant_sizes_are_one_program_each():
    """Sizes that differ between graphs are no evidence within a graph: the second call finds what the first one made."""
    layer = nn.Linear(8, 8).to("tpu")
    run = torch.compile(lambda x: torch.tanh(layer(x)).sum(0), backend="tpu", fullgraph=True, dynamic=False)
    with torch.no_grad():
        for n in (2, 3, 5, 7):
            x = torch.arange(8.0 * n).view(n, 8).to("tpu") / 100
            for _ in range(3):
                result = run(x)
            same(result, torch.tanh(copy.deepcopy(layer).cpu()(x.cpu())).sum(0))
    assert recorded()[-4:] == [1, 1, 1, 1]
    assert programs() == 4


def test_parts_of_a_large_tensor():
    """Where in its storage an input lies is no reason to record anew for ever; what a graph writes stays where it is."""
    images = torch.arange(60.0).view(20, 3)
    run = torch.compile(lambda x, y: (x * 2).mul_(y), backend="tpu", fullgraph=True)
    bump = torch.compile(lambda x: x.add_(1), backend="tpu", fullgraph=True)
    there, expected = images.to("tpu"), images.clone()
    for i in range(10):
        same(run(there[2 * i : 2 * i + 2], there[1]), images[2 * i : 2 * i + 2] * 2 * images[1])
    assert recorded()[-1] == 5
    for i in range(10):
        bump(there[i])
        expected[i] += 1
    same(there, expected)
