"""Random programs over sizes that vary: what promotes, propagates, is masked, viewed and written must equal the CPU at every size.

A program is drawn once and run at several sizes one after another: exact at first, then generic by evidence; or its operands have
padding from the start.
`SIZES_EXAMPLES=500 pytest tests/py/test_sizes_random.py` looks further than the suite does.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

import pytest
import torch
import torch.nn.functional as F
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

Dim = tuple[int, int]  # a * n + b
Shape = tuple[Dim, ...]
Env = list[torch.Tensor]
STEPS, OPERANDS = 20, 4
N: Dim = (1, 0)


def fixed(k: int) -> Dim:
    return (0, k)


@dataclass
class Program:
    """Values are numbered; `steps` make them in turn from those before."""

    random: Random
    backward: bool = False
    shapes: list[Shape] = field(default_factory=list)
    steps: list[Callable[[Env, int], torch.Tensor]] = field(default_factory=list)
    names: list[str] = field(default_factory=list)

    def pick(self, among):
        return self.random.choice(list(among))

    def chance(self) -> bool:
        return self.random.random() < 0.5

    def add(self, shape, step, name: str) -> int:
        self.shapes.append(tuple(shape))
        self.steps.append(step)
        self.names.append(name)
        return len(self.shapes) - 1

    def value(self, wanted: Callable[[Shape], bool] = lambda s: True) -> int | None:
        found = [i for i, s in enumerate(self.shapes) if wanted(s)]
        return self.pick(found[-6:]) if found else None

    def axis(self, i: int, wanted: Callable[[Dim], bool] = lambda d: True) -> int | None:
        found = [k for k, d in enumerate(self.shapes[i]) if wanted(d)]
        return self.pick(found) if found else None


def least(d: Dim) -> int:
    return 2 * d[0] + d[1]


def changed(s: Shape, axis: int, *dims: Dim) -> Shape:
    return (*s[:axis], *dims, *s[axis + 1 :])


def weight(k: int, m: int, device) -> torch.Tensor:
    """A parameter: evidence is what it meets."""
    key = (k, m, str(device))
    if key not in WEIGHTS:
        g = torch.Generator().manual_seed(k * 100 + m)
        w = torch.randn(k, m, generator=g, dtype=torch.float64).to(device)
        WEIGHTS[key] = w.requires_grad_()
    return WEIGHTS[key]


WEIGHTS: dict[tuple[int, int, str], torch.Tensor] = {}

UNARY = {
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "neg": torch.neg,
    "abs": torch.abs,
    "round": lambda x: (x * 4).round() / 4,
    "clamp": lambda x: x.clamp(-1, 0.5),
    "through ints": lambda x: (x * 8).long().double() / 8,
    "gelu": F.gelu,
    "bits": lambda x: (((x * 8).long() ^ 5) & 7).double() / 8,
    "bools": lambda x: ((x > 0) ^ (x > 0.5)).double(),
    "bfloat16": lambda x: (x.bfloat16() * 0.3).relu().double(),
}
REDUCE = {
    "sum": lambda x, d, k: x.sum(d, k) / 8,
    "mean": lambda x, d, k: x.mean(d, k),
    "amax": lambda x, d, k: x.amax(d, k),
    "min": lambda x, d, k: x.min(d, k)[0],
    "var": lambda x, d, k: x.var(d, keepdim=k, correction=0),
    "logsumexp": lambda x, d, k: x.logsumexp(d, k),
    "any": lambda x, d, k: (x > 0.5).any(d, k).double(),
    "argmax": lambda x, d, k: (x * 4).argmax(d, k).double() / 16,
    "median": lambda x, d, k: x.median(d, k)[0],
    "norm": lambda x, d, k: x.norm(2, d, k) / 4,
    "prod": lambda x, d, k: x.tanh().prod(d, k),
    "int64 sum": lambda x, d, k: (x * 8).long().sum(d, k).double() / 64,
    "int64 amin": lambda x, d, k: (x * 8).long().amin(d, k).double() / 8,
    "int64 max": lambda x, d, k: (x * 8).long().max(d, k)[0].double() / 8,
    "all": lambda x, d, k: (x < 1).all(d, k).double(),
    "bool count": lambda x, d, k: (x > 0).sum(d, k).double() / 16,
    "bool prod": lambda x, d, k: (x > -1).prod(d, k).double(),
    "bfloat16 amax": lambda x, d, k: x.bfloat16().amax(d, k).double(),
}
ALONG = {
    "softmax": lambda x, d: x.softmax(d),
    "log_softmax": lambda x, d: x.log_softmax(d) / 4,
    "cumsum": lambda x, d: x.cumsum(d) / 8,
    "cummax": lambda x, d: x.cummax(d)[0],
    "sort": lambda x, d: x.sort(d)[0],
    "sort down": lambda x, d: x.sort(dim=d, descending=True, stable=True)[0],
    "flip": lambda x, d: x.flip(d),
    "roll": lambda x, d: x.roll(3, d),
    "normalize": lambda x, d: x / (x.norm(2, d, True) + 1),
    "minus mean": lambda x, d: x - x.mean(d, True),
    "int64 cumsum": lambda x, d: (x * 8).long().cumsum(d).double() / 64,
    "int64 sort": lambda x, d: (x * 8).long().sort(d)[0].double() / 8,
    "bool cumsum": lambda x, d: (x > 0).cumsum(d).double() / 16,
    "bfloat16 sort": lambda x, d: x.bfloat16().sort(d)[0].double(),
}
# Which of equal elements is meant is free: values agree, gradients need not.
CHOOSES = ("min", "median", "cummax", "sort", "sort down", "topk", "bfloat16 sort")
BINARY = {
    "add": torch.add,
    "mul": torch.mul,
    "maximum": torch.maximum,
    "where": lambda x, y: torch.where(x > 0, x, y),
    "masked_fill": lambda x, y: x.masked_fill(y > 0, 0.25),
    "lerp": lambda x, y: torch.lerp(x, y, 0.25),
}


def unary(p: Program) -> None:
    i, name = p.value(), p.pick(UNARY)
    p.add(p.shapes[i], lambda e, n: UNARY[name](e[i]), name)


def binary(p: Program) -> None:
    i, name = p.value(), p.pick(BINARY)
    j = p.value(lambda s: s == p.shapes[i])
    p.add(p.shapes[i], lambda e, n: BINARY[name](e[i], e[j]), name)


def broadcast(p: Program) -> None:
    i = p.value(lambda s: len(s) > 0)
    if i is None:
        return
    a = p.axis(i)
    p.add(p.shapes[i], lambda e, n: e[i] - e[i].amax(a, True) * 0.5, "broadcast")


def reduce(p: Program) -> None:
    i, name, keep = p.value(lambda s: len(s) > 1), p.pick(REDUCE), p.chance()
    if i is None:
        return
    a = p.axis(i)
    p.add(
        changed(p.shapes[i], a, *([fixed(1)] if keep else [])), lambda e, n: REDUCE[name](e[i], a, keep), name
    )


def along(p: Program) -> None:
    i, name = p.value(lambda s: len(s) > 0), p.pick(ALONG)
    if i is None:
        return
    a = p.axis(i)
    p.add(p.shapes[i], lambda e, n: ALONG[name](e[i], a), name)


def linear(p: Program) -> None:
    i = p.value(lambda s: len(s) > 1 and s[-1][0] == 0)
    if i is None:
        return
    k, m = p.shapes[i][-1][1], p.pick([3, 4, 6])
    p.add((*p.shapes[i][:-1], fixed(m)), lambda e, n: torch.tanh(e[i] @ weight(k, m, e[i].device)), "linear")


def product(p: Program) -> None:
    i = p.value(lambda s: len(s) in (2, 3))
    if i is None:
        return
    s, outer = p.shapes[i], p.chance()
    if outer:
        p.add((*s[:-1], s[-2]), lambda e, n: torch.tanh(e[i] @ e[i].transpose(-1, -2) / 4), "x x^T")
    else:
        p.add((*s[:-2], s[-1], s[-1]), lambda e, n: torch.tanh(e[i].transpose(-1, -2) @ e[i] / 4), "x^T x")


def cat(p: Program) -> None:
    i = p.value(lambda s: len(s) > 0 and all(d[0] < 3 and d[1] < 20 for d in s))
    if i is None:
        return
    j = p.value(lambda s: s == p.shapes[i])
    a = p.axis(i)
    x, y = p.shapes[i][a], p.shapes[j][a]
    p.add(changed(p.shapes[i], a, (x[0] + y[0], x[1] + y[1])), lambda e, n: torch.cat([e[i], e[j]], a), "cat")


def grow(p: Program) -> None:
    i = p.value(lambda s: len(s) > 0 and all(d[1] < 20 for d in s))
    a = p.axis(i) if i is not None else None
    if a is None:
        return
    d = p.shapes[i][a]
    p.add(
        changed(p.shapes[i], a, (d[0], d[1] + 1)),
        lambda e, n: torch.cat([e[i], e[i].narrow(a, 0, 1) + 1], a),
        "grow",
    )


def part(p: Program) -> None:
    i = p.value(lambda s: any(least(d) > 2 for d in s))
    if i is None:
        return
    a, front = p.axis(i, lambda d: least(d) > 2), p.chance()
    d = p.shapes[i][a]
    at = (slice(None),) * a + (slice(1, None) if front else slice(None, -1),)
    p.add(changed(p.shapes[i], a, (d[0], d[1] - 1)), lambda e, n: e[i][at], "part")


def select(p: Program) -> None:
    i = p.value(lambda s: len(s) > 1)
    if i is None:
        return
    a, at = p.axis(i), p.pick([0, 1, -1])
    if least(p.shapes[i][a]) < 2:
        at = 0
    p.add(changed(p.shapes[i], a), lambda e, n: e[i].select(a, at), "select")


def transpose(p: Program) -> None:
    i = p.value(lambda s: len(s) > 1)
    if i is None:
        return
    a, b = p.axis(i), p.axis(i)
    s = list(p.shapes[i])
    s[a], s[b] = s[b], s[a]
    p.add(s, lambda e, n: e[i].transpose(a, b), "transpose")


def unsqueeze(p: Program) -> None:
    i = p.value(lambda s: len(s) < 4)
    if i is None:
        return
    a = p.random.randint(0, len(p.shapes[i]))
    p.add((*p.shapes[i][:a], fixed(1), *p.shapes[i][a:]), lambda e, n: e[i].unsqueeze(a), "unsqueeze")


def expand(p: Program) -> None:
    i = p.value(lambda s: len(s) < 4)
    if i is None:
        return
    d = p.pick([N, fixed(3)])
    p.add((d, *p.shapes[i]), lambda e, n: e[i].expand(d[0] * n + d[1], *e[i].shape), "expand")


def mergeable(s: Shape) -> bool:
    return any(not (s[k][0] and s[k + 1][0]) for k in range(len(s) - 1))


def merge(p: Program) -> None:
    """Two dims become one, something is computed, and they are two again."""
    i = p.value(mergeable)
    if i is None:
        return
    s = p.shapes[i]
    a = p.pick([k for k in range(len(s) - 1) if not (s[k][0] and s[k + 1][0])])
    x, y = s[a], s[a + 1]
    d = (x[0] * y[1] + y[0] * x[1], x[1] * y[1])
    j = p.add((*s[:a], d, *s[a + 2 :]), lambda e, n: torch.sin(e[i].flatten(a, a + 1)), "merge")
    if p.chance():
        p.add(s, lambda e, n: e[j].view(e[i].shape), "split")


def take(p: Program) -> None:
    i = p.value(lambda s: len(s) > 0)
    if i is None:
        return
    a = p.axis(i)
    p.add(
        changed(p.shapes[i], a, N),
        lambda e, n: e[i].index_select(a, torch.arange(n, device=e[i].device) % e[i].shape[a]),
        "index_select",
    )


def top(p: Program) -> None:
    i = p.value(lambda s: any(least(d) >= 2 for d in s))
    if i is None:
        return
    a = p.axis(i, lambda d: least(d) >= 2)
    p.add(changed(p.shapes[i], a, fixed(2)), lambda e, n: e[i].topk(2, a)[0], "topk")


def layer_norm(p: Program) -> None:
    i = p.value(lambda s: len(s) > 0 and s[-1][0] == 0 and s[-1][1] > 1)
    if i is None:
        return
    p.add(p.shapes[i], lambda e, n: F.layer_norm(e[i], e[i].shape[-1:], eps=1e-2), "layer_norm")


def write(p: Program) -> None:
    """A copy of which a part is written."""
    i, how = p.value(lambda s: any(least(d) >= 2 for d in s)), p.pick(["add", "fill", "copy", "half"])
    if i is None:
        return
    a, from_front = p.axis(i, lambda d: least(d) >= 2), p.chance()

    def step(e: Env, n: int) -> torch.Tensor:
        x = e[i].clone()
        v = x.narrow(a, 1, x.shape[a] - 1) if from_front else x.select(a, -1)
        if how == "add":
            v += 1
        elif how == "fill":
            v.fill_(0.5)
        elif how == "copy":
            v.copy_(v.flip(0) * 0.5 if v.dim() else v * 0.5)
        else:
            v.transpose(0, -1).mul_(0.5) if v.dim() else v.mul_(0.5)
        return x

    p.add(p.shapes[i], step, f"write {how}")


def static(p: Program) -> None:
    """A part of a larger static tensor is written, and its front is read."""
    i = p.value(lambda s: any(d[0] < 4 and d[1] < 10 for d in s))
    if i is None:
        return
    a = p.axis(i, lambda d: d[0] < 4 and d[1] < 10)
    at, d = p.pick([0, 1, 3]), p.shapes[i][a]

    def step(e: Env, n: int) -> torch.Tensor:
        x = e[i]
        room = torch.ones(*x.shape[:a], 70, *x.shape[a + 1 :], dtype=x.dtype, device=x.device)
        part = room.narrow(a, at, x.shape[a])
        part.copy_(x)
        part.mul_(0.5)
        return room.narrow(a, 0, x.shape[a] + at)

    p.add(changed(p.shapes[i], a, (d[0], d[1] + at)), step, "static")


def counted(p: Program) -> None:
    i = p.value(lambda s: len(s) > 0)
    if i is not None:
        p.add(
            (),
            lambda e, n: e[i][e[i] > 0.1].tanh().sum() / 8 + e[i].nonzero().double().mean().nan_to_num() / 8,
            "mask",
        )


OPS = [
    unary,
    binary,
    broadcast,
    reduce,
    along,
    linear,
    linear,
    product,
    cat,
    grow,
    part,
    select,
    transpose,
    unsqueeze,
]
OPS += [expand, merge, take, top, layer_norm, write, write, static, static, counted]


def make(random: Random, steps: int, backward: bool) -> Program:
    p = Program(random, backward)
    for shape in ((N, fixed(4)), (fixed(2), N, fixed(4)), (fixed(3), N), (N, fixed(4))):
        p.add(shape, None, "operand")
    first = p.pick([0, 1])
    p.add(
        (*p.shapes[first][:-1], fixed(4)),
        lambda e, n: torch.tanh(e[first] @ weight(4, 4, e[first].device)),
        "linear",
    )
    while len(p.steps) < OPERANDS + steps:
        before = len(p.steps)
        p.pick(OPS)(p)
        s = p.shapes[-1]
        large = len(s) > 5 or sum(d[0] > 0 for d in s) > 3 or sum(d[1] for d in s) > 40
        if len(p.steps) == before or large or (p.backward and p.names[-1] in CHOOSES):
            del p.steps[before:], p.shapes[before:], p.names[before:]
    return p


RUNGS = (3, 4, 6, 8, 12, 16, 24)


def operand(shape: Shape, n: int, k: int, device: str, fill: float | None) -> torch.Tensor:
    g = torch.Generator().manual_seed(n * 10 + k)
    t = torch.randn([a * n + b for a, b in shape], generator=g, dtype=torch.float64).to(device)
    for d, (a, _) in enumerate(shape):
        if a and fill is not None and device == "tpu":
            torch.ops.tpu._mark_generic(t, d, next(r for r in RUNGS if r > n), fill)
    return t


def run(p: Program, n: int, device: str, fill: float | None) -> Env:
    env: Env = []
    for k, step in enumerate(p.steps):
        if step is None:
            env.append(operand(p.shapes[k], n, k, device, fill))
        else:
            env.append(step(env, n))
    return env


def gradients(env: Env) -> list[torch.Tensor | None]:
    """Of a loss of the last values: with respect to the first layer's output and all parameters."""
    loss = sum(v.tanh().mean() for v in env[-4:] if v.requires_grad and v.numel())
    if not isinstance(loss, torch.Tensor):
        return []
    of = [w for (_, _, device), w in WEIGHTS.items() if device == str(loss.device)]
    return list(torch.autograd.grad(loss, [env[OPERANDS], *of], allow_unused=True))


def check(p: Program, sizes: list[int], fill: float | None) -> None:
    for n in sizes:
        expected, got = run(p, n, "cpu", None), run(p, n, "tpu", fill)
        for k in reversed(range(len(got))):
            assert got[k].shape == expected[k].shape
            torch.testing.assert_close(
                got[k].detach().cpu(),
                expected[k].detach(),
                equal_nan=True,
                msg=lambda m: (
                    f"{m}\nat n = {n} of {sizes}, value {k} of {list(enumerate(zip(p.names, p.shapes)))}"
                ),
            )


EXAMPLES = int(os.environ.get("SIZES_EXAMPLES", "5"))


@pytest.mark.parametrize("mode", ["strict", "fused"])
def test_programs_of_any_size(mode: str) -> None:
    @settings(
        max_examples=EXAMPLES,
        derandomize="SIZES_EXAMPLES" not in os.environ,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.data())
    def programs(d) -> None:
        # a program is one seed and its length: what hypothesis draws itself is mostly the simplest op again and again
        seed = d.draw(st.integers(0, 1 << 32), label="seed")
        steps = d.draw(st.integers(8, STEPS), label="steps")
        p = make(Random(seed), steps, d.draw(st.booleans(), label="backward"))
        sizes = d.draw(st.lists(st.integers(2, 14), min_size=4, max_size=5, unique=True), label="sizes")
        fill = d.draw(st.sampled_from([None, math.nan, -1e30]), label="operands padded with")
        with torch.tpu.eager_mode(mode), torch.tpu.sizes("auto"):
            check(p, sizes, fill)

    programs()
