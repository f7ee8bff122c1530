"""What was compiled, what came from a cache, what ran on the CPU."""

from __future__ import annotations

import json
import sys
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from . import _C

if TYPE_CHECKING:
    from ._explain import Explanation

_POLICIES = ("warn", "error", "silent")


def compile_stats() -> dict[str, Any]:
    """programs_compiled, programs_loaded (from disk), memory_hits, seconds_compiling, programs (a list), graphs (of
    torch.compile: name, calls, pieces with their ops, launches and programs, and what ran by itself)."""
    stats = json.loads(_C.compile_stats())
    backend = sys.modules.get("torch_tpu._compile.backend")  # PyTorch's compiler is not imported for this
    stats["graphs"] = [graph.report() for graph in backend.graphs()] if backend else []
    return stats


def explain(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Explanation:
    """Compiles ``fn`` anew, runs it once, and says what came of it: graphs and where they broke, calls that ran by themselves
    or on the CPU, programs. ``str()`` of the result is for reading.

    As with ``torch._dynamo.explain``, all that was compiled before is forgotten.
    """
    from ._explain import explain as run

    return run(fn, args, kwargs)


def reset_compile_stats() -> None:
    _C.reset_compile_stats()


def trace_report() -> dict[str, Any]:
    """Fused mode: ops pending, flushes and why each of them happened."""
    return json.loads(_C.trace())


def explain_sizes() -> dict[str, Any]:
    """Which sizes turned generic, and which ops had to do without.

    {"marks": [{op, why, size, exact, padded}], "exact": {op: {count, why}}}. A mark is an op (or an upload) whose operands of that
    size are padded to a rung since the size was seen to vary; `size` is where that showed, `exact` the size before it, which is not
    padded (0: none), `padded` how often the mark was used. Under "exact" stand ops that have no form for generic sizes: they ran on exact
    copies, one program a size.
    """
    return json.loads(_C.explain_sizes())


def fallback_report(reasons: bool = False) -> dict[str, Any]:
    """op -> number of calls that ran on the CPU; empty when all was native. With reasons: count and why."""
    report = json.loads(_C.fallback_report())
    return report if reasons else {op: entry["count"] for op, entry in report.items()}


def reset_fallback_report() -> None:
    _C.fallback_reset()


def get_fallback_policy() -> str:
    return _POLICIES[_C.get_fallback()]


def set_fallback_policy(policy: str) -> None:
    """What an op without a kernel does: "warn" (once per op), "error", "silent"; also TORCH_TPU_FALLBACK."""
    if policy not in _POLICIES:
        raise ValueError(f"the fallback policy must be one of {_POLICIES}, got {policy!r}")
    _C.set_fallback(_POLICIES.index(policy))


def _get_cache_stats() -> types.SimpleNamespace:
    stats = compile_stats()
    hits = stats["memory_hits"] + stats["programs_loaded"]
    return types.SimpleNamespace(
        num_cache_hits=hits,
        num_cache_reqs=hits + stats["programs_compiled"],
        per_entry_stats=[
            types.SimpleNamespace(
                read_count=entry.get("hits", 0),
                compilation_duration=entry.get("seconds", 0.0),
                last_read=entry.get("when", 0.0),
                ops=entry.get("ops", ""),
            )
            for entry in stats["programs"]
        ],
    )


def _clear_cache() -> None:
    """Drops the compiled programs in memory and the evidence of sizes that vary; the disk keeps its programs."""
    _C.clear_programs()
