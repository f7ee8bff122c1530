"""What one call of a compiled graph costs beyond Dynamo's guards and PJRT's Execute."""

from __future__ import annotations

import time
from typing import Any

# PJRT's Execute on the CPU plugin, measured: a launch, and each buffer of it (docs/compile.md).
LAUNCH, BUFFER = 2.2e-6, 0.35e-6


def _increments(*tensors: Any) -> list[Any]:
    return [x + 1 for x in tensors]


def _seconds(run: Any, calls: int) -> float:
    import torch

    start = time.perf_counter()
    for _ in range(calls):
        run()
    spent = (time.perf_counter() - start) / calls
    torch.tpu.synchronize()
    return spent


def overhead(inputs: int) -> tuple[float, float]:
    """Microseconds of ours in a call of so many inputs and outputs; and of the whole call."""
    import torch
    from measure import interleaved

    tensors = [torch.ones(4, device="tpu") for _ in range(inputs)]
    results = [t + 1 for t in tensors]

    def nothing(gm: Any, _: Any) -> Any:
        from torch._dynamo.backends.common import aot_autograd

        def compiler(*_: Any) -> Any:
            def call(args: list[Any]) -> list[Any]:
                args.clear()
                return results

            call._boxed_call = True  # type: ignore[attr-defined]
            return call

        return aot_autograd(fw_compiler=compiler)(gm, _)

    with torch.no_grad():
        sides = {}
        for name, backend in (("tpu", "tpu"), ("other", nothing)):
            torch._dynamo.reset()
            run = torch.compile(_increments, backend=backend, fullgraph=True)
            for _ in range(20):
                run(*tensors)
            sides[name] = lambda run=run: _seconds(lambda: run(*tensors), 50)
        best = interleaved(sides, 60)
    return 1e6 * (best["tpu"] - best["other"] - LAUNCH - 2 * inputs * BUFFER), 1e6 * best["tpu"]
