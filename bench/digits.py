"""A training step of an MLP with Adam on scikit-learn's digits, for us and for jax.

`python bench/digits.py` serves rounds of the jax side: jax brings an XLA of its own.
"""

from __future__ import annotations

import time
from typing import Any

from measure import Side, serve

PIXELS, HIDDEN, CLASSES, BATCH, STEPS = 64, 512, 10, 100, 60
LEARNING_RATE, BETAS, EPS = 1e-3, (0.9, 0.999), 1e-8


def load() -> tuple[Any, Any]:
    """1,500 images, standardised, and what they show: numpy arrays."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    images = digits.images.reshape(-1, PIXELS).astype("float32")
    return ((images - images.mean()) / images.std())[:1500], digits.target[:1500].astype("int64")


def ours(compiled: bool = False) -> Side:
    """Seconds a step, steady state, of the loop that everybody writes; or of that step under torch.compile."""
    import torch
    from torch import nn

    images, labels = (torch.from_numpy(a).to("tpu") for a in load())
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(PIXELS, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, CLASSES)).to("tpu")
    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE, betas=BETAS, eps=EPS)

    def update(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    run = torch.compile(update, backend="tpu") if compiled else update

    def step(i: int) -> torch.Tensor:
        at = i * BATCH % len(images)
        return run(images[at : at + BATCH], labels[at : at + BATCH])

    def epoch() -> float:
        with torch.tpu.eager_mode("strict" if compiled else "fused"):
            start = time.perf_counter()
            losses = [step(i) for i in range(STEPS)]
            losses[-1].item()
            return (time.perf_counter() - start) / STEPS

    return epoch


def theirs() -> Side:
    """The same step as one jax.jit that donates its state, which is how jax is used."""
    import jax
    import jax.numpy as jnp

    images, labels = (jnp.asarray(a) for a in load())
    keys = jax.random.split(jax.random.key(0), 2)
    sizes = ((PIXELS, HIDDEN), (HIDDEN, CLASSES))
    weights = [
        (jax.random.uniform(k, s, minval=-1, maxval=1) / s[0] ** 0.5, jnp.zeros(s[1]))
        for k, s in zip(keys, sizes, strict=True)
    ]

    def loss_of(weights, x, y):
        (w1, b1), (w2, b2) = weights
        scores = jax.nn.log_softmax(jax.nn.relu(x @ w1 + b1) @ w2 + b2)
        return -jnp.take_along_axis(scores, y[:, None], 1).mean()

    def adam(p, g, m, v, t):
        m = BETAS[0] * m + (1 - BETAS[0]) * g
        v = BETAS[1] * v + (1 - BETAS[1]) * g * g
        return p - LEARNING_RATE * (m / (1 - BETAS[0] ** t)) / (jnp.sqrt(v / (1 - BETAS[1] ** t)) + EPS), m, v

    def step(weights, ms, vs, t, images, labels, at):
        x = jax.lax.dynamic_slice_in_dim(images, at, BATCH)
        y = jax.lax.dynamic_slice_in_dim(labels, at, BATCH)
        loss, grads = jax.value_and_grad(loss_of)(weights, x, y)
        leaves, tree = jax.tree.flatten(weights)
        updated = [
            adam(p, g, m, v, t)
            for p, g, m, v in zip(leaves, *map(jax.tree.leaves, (grads, ms, vs)), strict=True)
        ]
        weights, ms, vs = (tree.unflatten([u[k] for u in updated]) for k in range(3))
        return weights, ms, vs, t + 1, loss

    jitted = jax.jit(step, donate_argnums=(0, 1, 2, 3))
    zeros = jax.tree.map(jnp.zeros_like, weights)
    state = (weights, zeros, jax.tree.map(jnp.zeros_like, weights), jnp.float32(1))

    def epoch() -> float:
        nonlocal state
        start = time.perf_counter()
        losses = []
        for i in range(STEPS):
            *kept, loss = jitted(*state, images, labels, i * BATCH % len(images))
            state = tuple(kept)
            losses.append(loss)
        float(losses[-1])
        return (time.perf_counter() - start) / STEPS

    return epoch


if __name__ == "__main__":
    serve(theirs())
