"""A GPT of 4 layers reading texts of 20 lengths between 17 and 128, one after the other, with nothing compiled before.

`python bench/gpt.py tpu|compiled|cpu|jax` is one fresh process; it prints the seconds from the first text to the last answer.
`python bench/gpt.py training` serves rounds of jax's training steps, all of one length.
"""

from __future__ import annotations

import json
import random
import sys
import time
from typing import Any

from measure import Side, serve

LAYERS, DIM, HEADS, WORDS, LONGEST = 4, 256, 4, 1000, 128
TEXTS, STEPS, RATE = 4, 3, 1e-2
LENGTHS = random.Random(0).sample(range(17, LONGEST + 1), 20)


def _torch_model() -> Any:
    import torch
    import torch.nn.functional as F
    from torch import Tensor, nn

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.ln1, self.ln2 = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
            self.qkv, self.out = nn.Linear(DIM, 3 * DIM), nn.Linear(DIM, DIM)
            self.up, self.down = nn.Linear(DIM, 4 * DIM), nn.Linear(4 * DIM, DIM)

        def forward(self, x: Tensor) -> Tensor:
            n, t, _ = x.shape
            q, k, v = self.qkv(self.ln1(x)).view(n, t, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
            a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(a.transpose(1, 2).reshape(n, t, DIM))
            return x + self.down(F.gelu(self.up(self.ln2(x))))

    class GPT(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.word, self.place = nn.Embedding(WORDS, DIM), nn.Embedding(LONGEST, DIM)
            self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
            self.ln, self.head = nn.LayerNorm(DIM), nn.Linear(DIM, WORDS)

        def forward(self, text: Tensor) -> Tensor:
            x = self.word(text) + self.place(torch.arange(text.shape[1], device=text.device))
            return self.head(self.ln(self.blocks(x)))

    torch.set_num_threads(1)
    torch.manual_seed(0)
    return GPT()


def torch_seconds(device: str, compiled: bool = False) -> float:
    import torch

    model = _torch_model().to(device)
    if compiled:
        model = torch.compile(model, backend="tpu")
    with torch.inference_mode():
        start = time.perf_counter()
        for length in LENGTHS:
            model(torch.randint(WORDS, (1, length)).to(device)).cpu()
        return time.perf_counter() - start


def training(mode: str) -> Side:
    """Seconds a step of SGD, steady state: in an eager mode, or the step as one compiled function of the weights."""
    import torch
    import torch.nn.functional as F

    model = _torch_model().to("tpu")
    texts = torch.randint(WORDS, (TEXTS, LONGEST + 1)).to("tpu")
    x, y = texts[:, :-1].contiguous(), texts[:, 1:].flatten()
    names, weights = zip(*model.named_parameters(), strict=True)

    def eager() -> torch.Tensor:
        loss = F.cross_entropy(model(x).flatten(0, 1), y)
        loss.backward()
        with torch.no_grad():
            torch._foreach_add_(weights, [p.grad for p in weights], alpha=-RATE)
        model.zero_grad()
        return loss.detach()

    def update(weights: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        def loss_of(weights: Any) -> torch.Tensor:
            scores = torch.func.functional_call(model, dict(zip(names, weights, strict=True)), (x,))
            return F.cross_entropy(scores.flatten(0, 1), y)

        grads, loss = torch.func.grad_and_value(loss_of)(list(weights))
        torch._foreach_add_(list(weights), grads, alpha=-RATE)
        return loss

    held = [p.detach() for p in weights]
    compiled = torch.compile(update, backend="tpu", fullgraph=True)

    def round_() -> float:
        start = time.perf_counter()
        if mode == "compiled":
            with torch.no_grad():
                losses = [compiled(held, x, y) for _ in range(STEPS)]
        else:
            with torch.tpu.eager_mode(mode):
                losses = [eager() for _ in range(STEPS)]
        losses[-1].item()
        return (time.perf_counter() - start) / STEPS

    return round_


def _jax_model() -> tuple[Any, Any]:
    import jax
    import jax.numpy as jnp

    keys = iter(jax.random.split(jax.random.key(0), 100))

    def make(*sizes: int) -> jax.Array:
        return jax.random.normal(next(keys), sizes) / sizes[0] ** 0.5

    shapes = {"qkv": (DIM, 3 * DIM), "out": (DIM, DIM), "up": (DIM, 4 * DIM), "down": (4 * DIM, DIM)}
    blocks = [{k: (make(*s), jnp.zeros(s[1])) for k, s in shapes.items()} for _ in range(LAYERS)]
    weights = {"word": make(WORDS, DIM), "place": make(LONGEST, DIM), "blocks": blocks}
    weights["head"] = (make(DIM, WORDS), jnp.zeros(WORDS))

    def norm(x):
        x = x - x.mean(-1, keepdims=True)
        return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5)

    def linear(x, layer):
        return x @ layer[0] + layer[1]

    def block(x, w):
        n, t, _ = x.shape
        q, k, v = jnp.moveaxis(linear(norm(x), w["qkv"]).reshape(n, t, 3, HEADS, -1), 2, 0)
        a = jax.nn.dot_product_attention(q, k, v, is_causal=True)
        x = x + linear(a.reshape(n, t, DIM), w["out"])
        return x + linear(jax.nn.gelu(linear(norm(x), w["up"]), approximate=False), w["down"])

    def model(weights, text):
        x = weights["word"][text] + weights["place"][: text.shape[1]]
        for w in weights["blocks"]:
            x = block(x, w)
        return linear(norm(x), weights["head"])

    return model, weights


def jax_seconds() -> float:
    import jax
    import numpy

    model, weights = _jax_model()
    model = jax.jit(model)
    texts = numpy.random.default_rng(0)
    jax.block_until_ready(weights)
    start = time.perf_counter()
    for length in LENGTHS:
        numpy.asarray(model(weights, texts.integers(0, WORDS, (1, length))))
    return time.perf_counter() - start


def jax_training() -> Side:
    import jax
    import jax.numpy as jnp
    import numpy

    model, weights = _jax_model()
    texts = jnp.asarray(numpy.random.default_rng(0).integers(0, WORDS, (TEXTS, LONGEST + 1)))

    def loss_of(weights, x, y):
        scores = jax.nn.log_softmax(model(weights, x))
        return -jnp.take_along_axis(scores, y[..., None], -1).mean()

    def step(weights, x, y):
        loss, grads = jax.value_and_grad(loss_of)(weights, x, y)
        return jax.tree.map(lambda w, g: w - RATE * g, weights, grads), loss

    jitted = jax.jit(step, donate_argnums=(0,))
    x, y = texts[:, :-1], texts[:, 1:]

    def round_() -> float:
        nonlocal weights
        start = time.perf_counter()
        for _ in range(STEPS):
            weights, loss = jitted(weights, x, y)
        float(loss)
        return (time.perf_counter() - start) / STEPS

    return round_


if __name__ == "__main__":
    side = sys.argv[1]
    if side == "training":
        serve(jax_training())
        sys.exit()
    seconds = (
        jax_seconds()
        if side == "jax"
        else torch_seconds("tpu" if side == "compiled" else side, side == "compiled")
    )
    print(json.dumps({"seconds": seconds}))
