"""A GPT of 4 layers reading texts of 20 lengths between 17 and 128, one after the other, with nothing compiled before.

`python bench/gpt.py tpu|compiled|cpu|jax` is one fresh process; it prints the seconds from the first text to the last answer.
"""

from __future__ import annotations

import json
import random
import sys
import time

LAYERS, DIM, HEADS, WORDS, LONGEST = 4, 256, 4, 1000, 128
LENGTHS = random.Random(0).sample(range(17, LONGEST + 1), 20)


def torch_seconds(device: str, compiled: bool = False) -> float:
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
    model = GPT().to(device)
    if compiled:
        model = torch.compile(model, backend="tpu")
    with torch.inference_mode():
        start = time.perf_counter()
        for length in LENGTHS:
            model(torch.randint(WORDS, (1, length)).to(device)).cpu()
        return time.perf_counter() - start


def jax_seconds() -> float:
    import jax
    import jax.numpy as jnp
    import numpy

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

    @jax.jit
    def model(weights, text):
        x = weights["word"][text] + weights["place"][: text.shape[1]]
        for w in weights["blocks"]:
            x = block(x, w)
        return linear(norm(x), weights["head"])

    texts = numpy.random.default_rng(0)
    jax.block_until_ready(weights)
    start = time.perf_counter()
    for length in LENGTHS:
        numpy.asarray(model(weights, texts.integers(0, WORDS, (1, length))))
    return time.perf_counter() - start


if __name__ == "__main__":
    side = sys.argv[1]
    if side == "jax":
        seconds = jax_seconds()
    else:
        seconds = torch_seconds("tpu" if side == "compiled" else side, side == "compiled")
    print(json.dumps({"seconds": seconds}))
