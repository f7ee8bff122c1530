"""A training step of an MLP with Adam on scikit-learn's digits, for us and for jax.

`python bench/digits.py` serves rounds of the jax side, in a process of its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable
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


def _steps(run: Callable[[int], Any]) -> float:
    """Seconds a step of an epoch; run takes a step from this image on and returns its loss."""
    start = time.perf_counter()
    losses = [run(i * BATCH % 1500) for i in range(STEPS)]
    losses[-1].item()
    return (time.perf_counter() - start) / STEPS


def _model() -> Any:
    import torch
    from torch import nn

    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(PIXELS, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, CLASSES)).to("tpu")


def loop(mode: str) -> Side:
    """Seconds a step, steady state, of the loop that everybody writes, in an eager mode; or with model and optimizer compiled."""
    import torch
    from torch import nn

    images, labels = (torch.from_numpy(a).to("tpu") for a in load())
    model, compiled = _model(), mode == "compiled"
    how: dict[str, Any] = {"lr": LEARNING_RATE, "betas": BETAS, "eps": EPS, "capturable": compiled}
    optimizer = torch.optim.Adam(model.parameters(), **how)

    def update(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    run = torch.compile(update, backend="tpu") if compiled else update

    def epoch() -> float:
        with torch.tpu.eager_mode("strict" if compiled else mode):
            return _steps(lambda at: run(images[at : at + BATCH], labels[at : at + BATCH]))

    return epoch


def step() -> Side:
    """The same step as one compiled function of its state, as `theirs` is one."""
    import torch
    from torch import nn
    from torch.optim.adam import adam

    images, labels = (torch.from_numpy(a).to("tpu") for a in load())
    model = _model()
    names, weights = zip(*((n, p.detach()) for n, p in model.named_parameters()), strict=True)
    ms, vs = ([torch.zeros_like(p) for p in weights] for _ in range(2))
    counts = [torch.zeros((), device="tpu") for _ in weights]
    how: dict[str, Any] = dict.fromkeys(("amsgrad", "differentiable", "foreach", "fused", "maximize"), False)
    how |= {"lr": LEARNING_RATE, "beta1": BETAS[0], "beta2": BETAS[1], "eps": EPS, "weight_decay": 0.0}

    def update(weights: Any, ms: Any, vs: Any, counts: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        def loss_of(weights: Any) -> torch.Tensor:
            scores = torch.func.functional_call(model, dict(zip(names, weights, strict=True)), (x,))
            return nn.functional.cross_entropy(scores, y)

        grads, loss = torch.func.grad_and_value(loss_of)(list(weights))
        adam(list(weights), grads, ms, vs, [], counts, capturable=True, **how)
        return loss

    run = torch.compile(update, backend="tpu", fullgraph=True)

    def epoch() -> float:
        with torch.no_grad():
            return _steps(
                lambda at: run(weights, ms, vs, counts, images[at : at + BATCH], labels[at : at + BATCH])
            )

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
