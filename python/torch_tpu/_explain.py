"""What came of torch.compile: ``torch.tpu.explain`` and ``python -m torch_tpu explain SCRIPT``."""

from __future__ import annotations

import dataclasses
import os
import runpy
import sys
from collections.abc import Callable
from typing import Any

from . import _stats

KINDS = {"op": "ops", "launch": "launches", "program": "programs"}


@dataclasses.dataclass
class Explanation:
    """Of one run. Lists of dicts with plain values; ``str()`` is for reading."""

    result: Any
    # torch.tpu.compile_stats()["graphs"], and "stablehlo" in what was recorded: the text of each program
    graphs: list[dict[str, Any]]
    breaks: list[dict[str, Any]]  # {file, line, reason}: where tracing ended and began anew
    recompiles: list[dict[str, Any]]  # {function, file, line, reason}
    failures: list[dict[str, Any]]  # {function, file, line, reason}: not compiled at all
    fallbacks: dict[str, int]  # op -> calls that ran on the CPU
    programs: list[dict[str, Any]]  # compiled or loaded meanwhile: {name, ops, seconds, bytes, loaded}

    def __str__(self) -> str:
        return "\n".join([*self._graph_lines(), *self._event_lines(), *self._program_lines()])

    def _graph_lines(self) -> list[str]:
        lines = [f"graphs: {len(self.graphs)}"]
        for g in self.graphs:
            kept = [r for p in g["pieces"] for r in p["recorded"]]
            parts = [_count(g["calls"], "run"), _count(len(g["pieces"]), "piece")]
            if kept:
                parts += [_range({r[KINDS[what]] for r in kept}, what) for what in KINDS]
            if len(kept) > len(g["pieces"]):
                parts.append(f"recorded for {len(kept)} kinds of inputs")
            lines.append(f"  {g['name']}: {', '.join(parts)}")
            lines += [f"    not kept: {p['not_kept']}" for p in g["pieces"] if p["not_kept"]]
            for s in g["separate"]:
                at = f" ({s['line']})" if s["line"] else ""
                lines.append(f"    by itself: {s['op']}{at}: {s['why']}")
        return lines

    def _event_lines(self) -> list[str]:
        lines = [f"graph breaks: {len(self.breaks)}"]
        lines += [f"  {b['file']}:{b['line']}: {b['reason']}" for b in self.breaks]
        lines.append(f"recompiles: {len(self.recompiles)}")
        lines += [f"  {r['function']} ({r['file']}:{r['line']}): {r['reason']}" for r in self.recompiles]
        if self.failures:
            lines.append(f"not compiled: {len(self.failures)}")
            lines += [f"  {r['function']} ({r['file']}:{r['line']}): {r['reason']}" for r in self.failures]
        lines.append(f"calls on the CPU: {sum(self.fallbacks.values())}")
        lines += [f"  {op}: {n}" for op, n in sorted(self.fallbacks.items())]
        return lines

    def _program_lines(self) -> list[str]:
        made = [p for p in self.programs if not p["loaded"]]
        loaded = [p for p in self.programs if p["loaded"]]
        lines = [
            f"programs: {len(made)} compiled ({sum(p['seconds'] for p in made):.2f} s), "
            f"{len(loaded)} loaded ({sum(p['seconds'] for p in loaded):.2f} s)"
        ]
        for p in self.programs:
            how = "loaded" if p["loaded"] else "compiled"
            lines.append(
                f"  {p['name']}: {_count(p['ops'], 'op')}, {how} in {p['seconds']:.2f} s, {p['bytes'] / 1024:.0f} KiB"
            )
        return lines


def _count(n: int, what: str) -> str:
    many = {"launch": "launches"}.get(what, f"{what}s")
    return f"{n} {what if n == 1 else many}"


def _range(numbers: set[int], what: str) -> str:
    low, high = min(numbers), max(numbers)
    return _count(low, what) if low == high else f"{low} to {_count(high, what)}"


def _brief(reason: Any) -> str:
    """PyTorch's reasons are of many lines, of which the first says what and one why."""
    lines = [line.strip() for line in str(reason).strip().splitlines()]
    why = [line.removeprefix("Explanation: ") for line in lines if line.startswith("Explanation: ")]
    return ": ".join(lines[:1] + why[:1])


class _Watch:
    """What happens between two moments, from PyTorch's records and ours."""

    def __init__(self) -> None:
        from ._compile import backend

        self._backend = backend
        self._programs = len(_stats.compile_stats()["programs"])
        self._fallbacks = _stats.fallback_report()
        backend.keep_graphs(True)

    def end(self, result: Any = None) -> Explanation:
        reports = [g.report(texts=True) for g in self._backend._kept or ()]
        self._backend.keep_graphs(False)
        before = self._fallbacks
        after = _stats.fallback_report()
        breaks, recompiles, failures = _of_dynamo()
        return Explanation(
            result,
            reports,
            breaks,
            recompiles,
            failures,
            {op: n - before.get(op, 0) for op, n in after.items() if n > before.get(op, 0)},
            _stats.compile_stats()["programs"][self._programs :],
        )


def _of_dynamo() -> tuple[list[dict[str, Any]], list[dict[str, Any]], list[dict[str, Any]]]:
    """Graph breaks, recompiles and failures since it was reset; nothing where it was not imported."""
    utils = sys.modules.get("torch._dynamo.utils")
    if utils is None:
        return [], [], []
    breaks: list[dict[str, Any]] = []
    for r in utils.graph_break_reasons:
        frame = r.user_stack[-1] if r.user_stack else None
        entry = {
            "file": frame.filename if frame else "?",
            "line": (frame.lineno or 0) if frame else 0,
            "reason": _brief(r.reason),
        }
        if entry not in breaks:
            breaks.append(entry)
    recompiles, failures = [], []
    for m in utils.get_compilation_metrics():
        where = {"function": m.co_name, "file": m.co_filename, "line": m.co_firstlineno}
        if m.recompile_reason:
            recompiles.append(where | {"reason": _brief(m.recompile_reason)})
        if m.fail_reason:
            failures.append(where | {"reason": _brief(m.fail_reason)})
    return breaks, recompiles, failures


def explain(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Explanation:
    import torch._dynamo
    from torch._dynamo.eval_frame import innermost_fn
    from torch._dynamo.utils import clear_compilation_metrics

    fn = getattr(fn, "_orig_mod", fn)
    torch._dynamo.reset()
    clear_compilation_metrics()
    watch = _Watch()
    try:
        result = torch.compile(innermost_fn(fn), backend="tpu")(*args, **kwargs)
        return watch.end(result)
    finally:
        watch._backend.keep_graphs(False)
        torch._dynamo.reset()


def explain_script(path: str, argv: list[str]) -> int:
    """Runs the script as ``python path argv`` does, and prints the report at its end, also when it ends by an error."""
    watch = _Watch()
    sys.argv = [path, *argv]
    sys.path[0] = os.path.dirname(os.path.abspath(path))
    code: Any = 0
    try:
        runpy.run_path(path, run_name="__main__")
    except SystemExit as leaving:
        code = leaving.code
    finally:
        print(watch.end(), flush=True)
    if code is None or isinstance(code, int):
        return code or 0
    print(code, file=sys.stderr)
    return 1
