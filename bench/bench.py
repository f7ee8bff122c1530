"""Speed as ratios against CPU eager, both sides in one interleaved run on one core.

Run as `taskset -c 0 env OMP_NUM_THREADS=1 PJRT_NPROC=1 python bench/bench.py`; prints one JSON object. Minima over many short rounds.
"""

from __future__ import annotations

import json
import time

import torch

LENGTH, ROUNDS = 400, 60


def chain(x: torch.Tensor, y: torch.Tensor) -> float:
    """Microseconds an op of a chain of adds, with the read at its end."""
    start = time.perf_counter()
    z = x
    for _ in range(LENGTH):
        z = z.add(y)
    z.cpu()
    return (time.perf_counter() - start) / LENGTH * 1e6


def record(x: torch.Tensor, y: torch.Tensor) -> float:
    """Microseconds to issue one add whose result is dropped; fused: recording only."""
    torch.tpu.flush()
    start = time.perf_counter()
    for _ in range(LENGTH // 2):
        x.add(y)
    return (time.perf_counter() - start) / (LENGTH // 2) * 1e6


def linear(x: torch.Tensor, w: torch.Tensor) -> float:
    """Microseconds of a row times a matrix, waited for."""
    start = time.perf_counter()
    alive = [
        torch.nn.functional.linear(x, w) for _ in range(20)
    ]  # a dead result would not be computed in fused mode
    alive[-1].cpu()
    return (time.perf_counter() - start) / 20 * 1e6


def main() -> None:
    torch.set_num_threads(1)
    x, y = torch.randn(8), torch.randn(8)
    row, weight = torch.randn(1, 1, 576), torch.randn(1536, 576)
    on = [t.to("tpu") for t in (x, y, row, weight)]
    best: dict[str, float] = {}

    def keep(name: str, value: float) -> None:
        best[name] = min(best.get(name, value), value)

    with torch.inference_mode():
        for _ in range(ROUNDS):
            keep("add chain cpu", chain(x, y))
            keep("add issue cpu", record(x, y))
            keep("linear cpu", linear(row, weight))
            for mode in ("strict", "fused"):
                with torch.tpu.eager_mode(mode):
                    keep(f"add chain {mode}", chain(on[0], on[1]))
                    keep(f"add issue {mode}", record(on[0], on[1]))
                    keep(f"linear {mode}", linear(on[2], on[3]))
    ratios = {}
    for name, value in best.items():
        kind, side = name.rsplit(" ", 1)
        if side != "cpu":
            ratios[name] = round(value / best[f"{kind} cpu"], 3)
    print(
        json.dumps(
            {"microseconds": {k: round(v, 3) for k, v in best.items()}, "ratio to CPU eager": ratios},
            indent=1,
        )
    )


if __name__ == "__main__":
    main()
