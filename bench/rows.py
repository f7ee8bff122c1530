"""The rows of the table: what is measured against what, and the bounds that it is held to."""

from __future__ import annotations

import functools
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from measure import Side, Worker, in_fresh_process, interleaved, same_xla

CPU, JAX = "CPU eager", "jax.jit, same XLA"


@dataclass(frozen=True)
class Row:
    name: str
    what: str
    unit: str
    must: float | None  # the ratio at most; None: reported
    aim: float
    measure: Callable[[], tuple[float, float]]  # ours, theirs, in units
    against: str = CPU
    bound: str = "ratio"  # what must and aim are of; "ours": of our number


def _scaled(best: dict[str, float], unit: float) -> tuple[float, float]:
    return best["tpu"] / unit, best["other"] / unit


# --- single ops ---

OPS = 400


def _small(loop: str, mode: str) -> tuple[float, float]:
    import loops
    import torch

    x, y = torch.randn(8), torch.randn(8)
    there = x.to("tpu"), y.to("tpu")
    work = getattr(loops, loop)

    def tpu() -> float:
        with torch.tpu.eager_mode(mode):
            return loops.seconds(work, *there, OPS)

    with torch.inference_mode():
        best = interleaved({"tpu": tpu, "other": lambda: loops.seconds(work, x, y, OPS)}, 200)
    return _scaled(best, OPS * 1e-6)


# --- programs ---


@functools.cache
def _digits() -> dict[str, float]:
    import digits

    sides: dict[str, Side] = {mode: digits.loop(mode) for mode in ("strict", "fused", "compiled")}
    sides["step"] = digits.step()
    jax = {"same": Worker("digits.py", **same_xla()), "other": Worker("digits.py")}
    best = interleaved(sides | jax, 20)
    for worker in jax.values():
        worker.close()
    return best


def _training(ours: str, theirs: str = "same") -> tuple[float, float]:
    best = _digits()
    return best[ours] * 1e6, best[theirs] * 1e6


@functools.cache
def _texts() -> dict[str, float]:
    import gpt

    jax = Worker("gpt.py", "training", **same_xla())
    best = interleaved(
        {mode: gpt.training(mode) for mode in ("strict", "fused", "compiled")} | {"same": jax}, 8
    )
    jax.close()
    return best


def _gpt_training(ours: str, theirs: str = "same") -> tuple[float, float]:
    best = _texts()
    return best[ours] * 1e3, best[theirs] * 1e3


@functools.cache
def _decode() -> dict[str, float]:
    import torch
    from smollm2 import Chat, Decode

    torch.set_num_threads(1)
    here, there = Chat("cpu"), Chat("tpu")
    sides: dict[str, Side] = {"other": Decode(here)}
    for mode in ("strict", "fused"):
        with torch.tpu.eager_mode(mode):
            there.times()  # warm
        sides[mode] = Decode(there, mode)
    static = {"cache_implementation": "static"}  # Transformers compiles the step by itself then
    there.times(**static)
    here.times(**static)
    sides["compiled"] = Decode(there, "strict", **static)
    sides["inductor"] = Decode(here, **static)
    return interleaved(sides, 8)


def _decode_in(mode: str, against: str = "other") -> tuple[float, float]:
    best = _decode()
    return best[mode] * 1e3, best[against] * 1e3


def _padding() -> tuple[float, float]:
    """The same answer with sizes generic and with a program for every size, all of them made before."""
    import torch
    from smollm2 import Chat, Decode

    torch.set_num_threads(1)
    chat = Chat("tpu")
    sides: dict[str, Side] = {
        "tpu": Decode(chat, "strict"),
        "other": Decode(chat, "strict", sizes="exact"),
    }
    interleaved(sides, 2)  # warm: what varies turns generic at its second size
    sides = {"tpu": Decode(chat, "strict"), "other": Decode(chat, "strict", sizes="exact")}
    return _scaled(interleaved(sides, 8), 1e-3)


@functools.cache
def _processes() -> dict[str, dict[str, float]]:
    """SmolLM2 in processes of its own: on the CPU, with an empty program cache, with the cache that that one left. The first two go on
    to prompts of other lengths."""

    def once() -> Iterator[tuple[str, dict[str, float]]]:
        cache = tempfile.mkdtemp()
        yield "other", in_fresh_process("smollm2.py", "cpu", "next")
        yield "empty", in_fresh_process("smollm2.py", "tpu", "next", TORCH_TPU_CACHE_DIR=cache)
        yield "second", in_fresh_process("smollm2.py", "tpu", TORCH_TPU_CACHE_DIR=cache)
        shutil.rmtree(cache)

    best: dict[str, dict[str, float]] = {}
    for _ in range(3):
        for name, costs in once():
            known = best.setdefault(name, costs)
            best[name] = {k: min(v, known[k]) for k, v in costs.items()}
    return best


def _process(which: str, cost: str, unit: float) -> tuple[float, float]:
    all_ = _processes()
    return all_[which][cost] / unit, all_["other"][cost] / unit


def _memory_of_padding() -> tuple[float, float]:
    """Peaks of processes that find all their programs on disk: with sizes generic, and with one program a size."""
    best = {}
    for sizes in ("auto", "exact"):
        with tempfile.TemporaryDirectory() as cache:
            where = {"TORCH_TPU_CACHE_DIR": cache, "TORCH_TPU_SIZES": sizes}
            in_fresh_process("smollm2.py", "tpu", **where)
            best[sizes] = min(in_fresh_process("smollm2.py", "tpu", **where)["bytes"] for _ in range(3))
    return best["auto"] / 2**20, best["exact"] / 2**20


@functools.cache
def _gpt_seconds() -> dict[str, float]:
    best: dict[str, float] = {}
    for _ in range(2):
        for side in ("tpu", "compiled", "jax"):
            with tempfile.TemporaryDirectory() as cache:
                cost = in_fresh_process("gpt.py", side, TORCH_TPU_CACHE_DIR=cache)["seconds"]
            best[side] = min(best.get(side, cost), cost)
    return best


def _gpt(side: str) -> tuple[float, float]:
    best = _gpt_seconds()
    return best[side], best["jax"]


def _call(inputs: int, results: int) -> tuple[float, float]:
    from compiled import overhead

    return overhead(inputs, results)


@functools.cache
def _cold() -> dict[str, dict[str, float]]:
    """SmolLM2's compiled forward, first calls in processes of their own: equal layers compiled once; the same again, which finds its
    programs on disk; the graph as one program."""
    best: dict[str, dict[str, float]] = {}
    for _ in range(2):
        with tempfile.TemporaryDirectory() as cache:
            for name, repeat in (("auto", "auto"), ("second", "auto"), ("inline", "inline")):
                costs = in_fresh_process("cold.py", repeat, TORCH_TPU_CACHE_DIR=cache)
                known = best.setdefault(name, costs)
                best[name] = {k: min(v, known[k]) for k, v in costs.items()}
    return best


def _first(ours: str, theirs: str) -> tuple[float, float]:
    """Costs by "process cost"."""
    which, cost = ours.split()
    other, against = theirs.split()
    return _cold()[which][cost], _cold()[other][against]


# fmt: off
ROWS = [
    Row("record", "fused: recording x.add(y)", "us", 1.2, 0.7, lambda: _small("issue", "fused")),
    Row("chain", f"strict: an op in a chain of {OPS} x.add(y)", "us", 5, 3, lambda: _small("chain", "strict")),
    Row("training", "fused: a step of an MLP with Adam on digits", "us", 1.5, 1.15, lambda: _training("fused"), JAX),
    Row("training-own", "fused: the same", "us", None, 1.15, lambda: _training("fused", "other"), "jax.jit, its XLA"),
    Row("strict", "SmolLM2, strict, warm: a token", "ms", 1.5, 1.1, lambda: _decode_in("strict")),
    Row("fused", "SmolLM2, fused, warm: a token", "ms", 1.25, 1.0, lambda: _decode_in("fused")),
    Row("first", "SmolLM2, empty program cache: each of 24 tokens", "ms", 6, 4, lambda: _process("empty", "seconds", 1e-3)),
    Row("next", "SmolLM2, then: each of 200 tokens of other lengths", "ms", 1.6, 1.1, lambda: _process("empty", "next", 1e-3)),
    Row("lengths", "GPT, empty program cache: texts of 20 lengths", "s", 8, 3, lambda: _gpt("tpu"), "jax.jit", "ours"),
    Row("padding", "SmolLM2, strict, warm: a token", "ms", 1.25, 1.1, _padding, "exact sizes"),
    Row("second", "SmolLM2, second process: each of 24 tokens", "ms", 2, 1.2, lambda: _process("second", "seconds", 1e-3)),
    Row("memory", "SmolLM2, second process: peak memory", "MiB", 1.4, 1.15, lambda: _process("second", "bytes", 2**20)),
    Row("memory-first", "SmolLM2, empty program cache: peak memory", "MiB", 1.4, 1.15, lambda: _process("empty", "bytes", 2**20)),
    Row("memory-sizes", "SmolLM2, second process: peak memory", "MiB", 1.3, 1.1, _memory_of_padding, "exact sizes"),
    Row("call-8", "compiled: ours in a call of 8 inputs", "us", 15, 5, lambda: _call(8, 1), "Dynamo's", "ours"),
    Row("call-300", "compiled: ours in a call of 300 inputs", "us", 100, 40, lambda: _call(300, 1), "Dynamo's", "ours"),
    Row("results-300", "compiled: ours, 300 inputs and 300 results", "us", None, 40, lambda: _call(300, 300), "Dynamo's", "ours"),
    Row("step", "compiled: a step of an MLP with Adam on digits", "us", 1.15, 1.02, lambda: _training("step"), JAX),
    Row("step-own", "compiled: the same", "us", None, 1.02, lambda: _training("step", "other"), "jax.jit, its XLA"),
    Row("step-gpt", "compiled: a step of a GPT with SGD", "ms", 1.15, 1.02, lambda: _gpt_training("compiled"), JAX),
    Row("step-gpt-own", "compiled: the same", "ms", None, 1.02, lambda: _gpt_training("compiled", "other"), "jax.jit, its XLA"),
    Row("loop", "model and optimizer compiled, on digits", "us", None, 1.15, lambda: _training("compiled", "step"), "compiled step"),
    Row("ladder", "fused: a step of an MLP with Adam on digits", "us", None, 1.15, lambda: _training("fused", "step"), "compiled step"),
    Row("ladder-gpt", "fused: a step of a GPT with SGD", "ms", None, 1.15, lambda: _gpt_training("fused", "compiled"), "compiled step"),
    Row("ladder-low", "strict: a step of a GPT with SGD", "ms", None, 1.5, lambda: _gpt_training("strict", "fused"), "fused"),
    Row("share", "SmolLM2, first call of its forward: our part", "s", 0.3, 0.1, lambda: _first("auto ours", "auto xla"), "XLA's part"),
    Row("second-call", "compiled, second process: first call", "s", 0.2, 0.1, lambda: _first("second first", "auto first"), "the first"),
    Row("second-xla", "of that, XLA's part", "s", 0.2, 0.1, lambda: _first("second xla", "auto xla"), "the first"),
    Row("repeat", "equal layers compiled once: XLA's part", "s", 0.2, 0.1, lambda: _first("auto xla", "inline xla"), "inlined"),
    Row("repeat-step", "equal layers compiled once: a call", "s", 1.05, 1.0, lambda: _first("auto steady", "inline steady"), "inlined"),
    Row("compiled-decode", "SmolLM2, compiled, static cache: a token", "ms", 1.15, 0.9, lambda: _decode_in("compiled")),
    Row("inductor", "SmolLM2, compiled, static cache: a token", "ms", 1.3, 1.0, lambda: _decode_in("compiled", "inductor"), "inductor"),
    Row("compiled-lengths", "GPT, compiled, empty cache: texts of 20 lengths", "s", 8, 4, lambda: _gpt("compiled"), "jax.jit", "ours"),
]
# fmt: on
