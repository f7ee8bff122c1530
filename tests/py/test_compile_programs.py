"""The project's programs and two more models under torch.compile(backend="tpu"), against the CPU: no fallback, whole graphs."""

from __future__ import annotations

import copy

import pytest
import test_programs as programs
import torch
import torch.nn as nn
import torch.nn.functional as F
from helpers import same
from test_programs import digits, smol  # noqa: F401  (fixtures)


@pytest.fixture(autouse=True)
def native():
    torch._dynamo.reset()
    torch.tpu.reset_fallback_report()
    yield
    assert torch.tpu.fallback_report() == {}
    torch._dynamo.reset()


def test_smollm2_with_the_static_cache(smol) -> None:  # noqa: F811
    """Transformers compiles the decoding step by itself."""
    tokenizer, cpu, tpu = smol
    for text in ("Tell me a short story about a fox.", "What is the capital of France?"):
        inputs = programs.ask(tokenizer, text)
        how = dict(max_new_tokens=16, do_sample=False)
        got = programs.generate(tpu, inputs, cache_implementation="static", **how)
        assert got.tolist() == programs.generate(cpu, inputs, **how).tolist()
    from torch_tpu._compile import backend

    decoding = [g.report() for g in backend.graphs() if g.calls > 10]
    assert decoding and not any(r["alone"] for r in decoding)
    recorded = [x for r in decoding for p in r["pieces"] for x in p["recorded"]]
    assert any(x["launches"] >= 30 and x["programs"] <= 4 for x in recorded), (
        recorded
    )  # 30 layers, one program


@pytest.mark.parametrize("make_optimizer", [programs.sgd, programs.adamw])
def test_digits_mlp(digits, make_optimizer) -> None:  # noqa: F811
    torch.manual_seed(0)
    cpu = programs.mlp()
    tpu = copy.deepcopy(cpu).to("tpu")
    expected = programs.train(cpu, make_optimizer, *digits, "cpu")
    got = programs.train(torch.compile(tpu, backend="tpu", fullgraph=True), make_optimizer, *digits, "tpu")
    for g, e in zip(got, expected, strict=True):
        assert abs(g - e) <= 1e-4 * max(e, 0.1)
    assert programs.accuracy(tpu, *digits, "tpu") >= 0.97


def test_digits_cnn(digits) -> None:  # noqa: F811
    torch.manual_seed(0)
    model = programs.cnn().to("tpu")
    losses = programs.train(
        torch.compile(model, backend="tpu", fullgraph=True), programs.adamw, *digits, "tpu"
    )
    assert losses[-1] < losses[0]
    assert programs.accuracy(model, *digits, "tpu") >= 0.97


def both_ways(cpu: nn.Module, x: torch.Tensor, **tolerance) -> None:
    """Forward and backward of one model, twice. Callers widen the tolerance where convolutions and norms of many
    layers sum in another order than the CPU's."""
    tpu = copy.deepcopy(cpu).to("tpu")
    run = torch.compile(tpu, backend="tpu", fullgraph=True)
    for _ in range(2):
        want, got = cpu(x), run(x.to("tpu"))
        same(got, want, **tolerance)
        want.square().mean().backward()
        got.square().mean().backward()
    scale = max(p.grad.abs().max().item() for p in cpu.parameters())
    for p, q in zip(cpu.parameters(), tpu.parameters(), strict=True):
        # sums over batch and places in another order, through many layers: within 1e-4 of the largest gradient
        assert (q.grad.cpu() - p.grad).abs().max().item() <= 1e-4 * scale


def test_a_gpt() -> None:
    torch.manual_seed(0)
    both_ways(programs.Gpt(60), torch.randint(60, (4, 24)), atol=1e-5, rtol=1e-5)


def test_resnet18() -> None:
    programs.resnet18_agrees(lambda model: torch.compile(model, backend="tpu", fullgraph=True))


def test_minilm() -> None:
    programs.minilm_agrees(lambda model: model.compile(backend="tpu"))
    from torch_tpu._compile import backend

    assert any(g.calls for g in backend.graphs())


class UNetBlock(nn.Module):
    """As diffusion models have them: group norm, SiLU, a time embedding, attention over places, down and up with a skip."""

    def __init__(self, c: int = 16):
        super().__init__()
        self.n1, self.n2, self.n3 = nn.GroupNorm(4, c), nn.GroupNorm(4, 2 * c), nn.GroupNorm(4, 2 * c)
        self.c1, self.c2 = nn.Conv2d(c, 2 * c, 3, padding=1), nn.Conv2d(2 * c, 2 * c, 3, padding=1)
        self.time = nn.Linear(8, 2 * c)
        self.qkv, self.out = nn.Linear(2 * c, 6 * c), nn.Linear(2 * c, 2 * c)
        self.down, self.up = nn.Conv2d(2 * c, 2 * c, 3, 2, 1), nn.Conv2d(4 * c, c, 3, padding=1)
        self.register_buffer("t", torch.linspace(0, 1, 8))

    def forward(self, x):
        h = self.c1(F.silu(self.n1(x))) + self.time(self.t)[None, :, None, None]
        h = self.c2(F.silu(self.n2(h)))
        b, c, height, width = h.shape
        seq = self.n3(h).flatten(2).transpose(1, 2)
        q, k, v = (z.unflatten(-1, (2, -1)).transpose(1, 2) for z in self.qkv(seq).chunk(3, -1))
        a = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        h = h + self.out(a).transpose(1, 2).reshape(b, c, height, width)
        low = F.interpolate(self.down(h), scale_factor=2, mode="nearest")
        return x + self.up(torch.cat([low, h], 1))


def test_a_unet_block() -> None:
    torch.manual_seed(0)
    both_ways(UNetBlock(), torch.randn(2, 16, 8, 8), atol=1e-4, rtol=1e-4)


class ViT(nn.Module):
    def __init__(self, d: int = 32):
        super().__init__()
        self.patch = nn.Conv2d(3, d, 4, 4)
        self.cls, self.pos = nn.Parameter(torch.zeros(1, 1, d)), nn.Parameter(torch.randn(1, 17, d) * 0.1)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(d, 4, 2 * d, 0.0, "gelu", batch_first=True, norm_first=True)
            for _ in range(4)
        )
        self.head = nn.Linear(d, 10)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(x.shape[0], -1, -1), x], 1) + self.pos
        for layer in self.layers:
            x = layer(x)
        return self.head(x[:, 0])


def test_a_vision_transformer() -> None:
    torch.manual_seed(0)
    both_ways(ViT(), torch.randn(2, 3, 16, 16), atol=1e-4, rtol=1e-4)
