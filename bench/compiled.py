"""What one call of a compiled graph costs beyond Dynamo's guards and PJRT's Execute."""

from __future__ import annotations

import time
from typing import Any

CALLS = 50


def _increments(*tensors: Any) -> list[Any]:
    return [x + 1 for x in tensors]


def _sum(*tensors: Any) -> Any:
    total = tensors[0]
    for x in tensors[1:]:
        total = total + x
    return total


def _seconds(run: Any) -> float:
    """Of a call, without what it spends in the plugin's Execute."""
    import torch
    from torch_tpu import _C

    _C.time_launches(True)
    start = time.perf_counter()
    for _ in range(CALLS):
        run()
    spent = time.perf_counter() - start - _C.time_launches(False)
    torch.tpu.synchronize()
    return spent / CALLS


def overhead(inputs: int, results: int) -> tuple[float, float]:
    """Microseconds of ours in a call of so many inputs, with one result or as many; and Dynamo's and AOTAutograd's in the same call."""
    import torch
    from measure import interleaved

    assert results in (1, inputs)
    fn = _sum if results == 1 else _increments
    tensors = [torch.ones(4, device="tpu") for _ in range(inputs)]
    made = list(tensors[:results])

    def nothing(gm: Any, _: Any) -> Any:
        from torch._dynamo.backends.common import aot_autograd

        def compiler(*_: Any) -> Any:
            def call(args: list[Any]) -> list[Any]:
                args.clear()
                return made

            call._boxed_call = True  # type: ignore[attr-defined]
            return call

        return aot_autograd(fw_compiler=compiler)(gm, _)

    with torch.no_grad():
        sides = {}
        for name, backend in (("tpu", "tpu"), ("other", nothing)):
            torch._dynamo.reset()
            run = torch.compile(fn, backend=backend, fullgraph=True)
            for _ in range(20):
                run(*tensors)
            sides[name] = lambda run=run: _seconds(lambda: run(*tensors))
        best = interleaved(sides, 60)
    return 1e6 * (best["tpu"] - best["other"]), 1e6 * best["other"]
