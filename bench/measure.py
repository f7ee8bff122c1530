"""How two sides are compared: the same core, one round of each in turn, the best round of each.

A side is a function that does its work once and returns what it cost. Other people's load only ever adds to a
round, so the smallest of many short ones is the honest number.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Callable
from typing import Any

Side = Callable[[], float]
HERE = pathlib.Path(__file__).parent

# Rounds of the loops whose instructions are counted. A repeating sequence is cut after 24 ops or more: these are
# whole numbers of steps.
LENGTHS = {"record": (480, 1440), "chain": (96, 288), "linear": (96, 288), "layer": (6, 18)}
ONE_THREAD = {"OMP_NUM_THREADS": "1", "PJRT_NPROC": "1", "TORCH_TPU_FALLBACK": "error", "HF_HUB_OFFLINE": "1"}


def pin(core: int | None) -> None:
    """This process and its children on one core with one thread. Before torch is imported."""
    assert "torch" not in sys.modules
    os.environ.update(ONE_THREAD)
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0)) if core is None else core})


def interleaved(sides: dict[str, Side], rounds: int) -> dict[str, float]:
    best: dict[str, float] = {}
    for _ in range(rounds):
        for name, side in sides.items():
            cost = side()
            best[name] = min(best.get(name, cost), cost)
    return best


def peak_memory() -> int:
    """Bytes that this process ever had in memory. Not getrusage: there a child starts with its parent's peak."""
    status = pathlib.Path("/proc/self/status").read_text()
    return 1024 * int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")))


def in_fresh_process(script: str, *args: str, **environment: str) -> dict[str, Any]:
    """Runs bench/SCRIPT to its end; what it prints last is JSON."""
    command = [sys.executable, str(HERE / script), *args]
    done = subprocess.run(
        command, env=os.environ | environment, stdout=subprocess.PIPE, text=True, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def same_xla() -> dict[str, str]:
    """The environment in which jax runs on the plugin that we run on, in place of the XLA that it brings."""
    import torch
    from torch_tpu import _C

    torch.tpu.init()
    plugin = json.loads(_C.info())["plugin"]
    return {"PJRT_NAMES_AND_LIBRARY_PATHS": f"same:{plugin}", "JAX_PLATFORMS": "same"}


class Worker:
    """A side in a process of its own, for libraries that do not share one: bench/SCRIPT reads lines, answers
    each with the cost of a round."""

    def __init__(self, script: str, *args: str, **environment: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / script), *args],
            env=os.environ | environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __call__(self) -> float:
        assert self._process.stdin and self._process.stdout
        print(file=self._process.stdin, flush=True)
        return float(self._process.stdout.readline())

    def close(self) -> None:
        self._process.communicate()


def serve(side: Side) -> None:
    """The other end of a Worker."""
    for _ in sys.stdin:
        print(side(), flush=True)
