"""The first call of SmolLM2's compiled forward in a fresh process, and the calls after it.

`python bench/cold.py auto|inline` prints seconds: to the first result, of those in XLA's compiler or loading what it made, in our part
(recording, lowering, launching), in PyTorch's (Dynamo, AOTAutograd), and of a call when all is there.
"""

from __future__ import annotations

import json
import sys
import time


def main(repeat: str) -> None:
    import torch
    from measure import interleaved
    from smollm2 import Chat
    from torch_tpu._compile import execute

    torch.set_num_threads(1)
    chat = Chat("tpu")
    ids = chat.prompt["input_ids"]
    import torch._dynamo

    in_graphs = 0.0
    call = execute.CompiledGraph.__call__

    def timed(self: execute.CompiledGraph, args: list[object]) -> list[object]:
        nonlocal in_graphs
        start = time.perf_counter()
        try:
            return call(self, args)
        finally:
            in_graphs += time.perf_counter() - start

    execute.CompiledGraph.__call__ = timed  # type: ignore[method-assign]
    run = torch.compile(chat.model, backend="tpu", options={"repeat": repeat})
    torch.tpu.reset_compile_stats()

    def once() -> float:
        start = time.perf_counter()
        with torch.inference_mode():
            run(input_ids=ids, use_cache=False).logits[0, -1].argmax().item()
        return time.perf_counter() - start

    first = once()
    programs = torch.tpu.compile_stats()["programs"]
    xla = sum(p["seconds"] for p in programs if p["ops"] > 1)
    ours = in_graphs - xla
    steady = interleaved({"step": once}, 20)["step"]
    print(
        json.dumps({"first": first, "xla": xla, "ours": ours, "pytorch": first - in_graphs, "steady": steady})
    )


if __name__ == "__main__":
    main(sys.argv[1])
