"""A compiled graph as a function of a list.

Called with a list that it empties (PyTorch's boxed convention). A piece is recorded on its first call with inputs of such types, views
and sizes (core/step/graph.c): one walk through the eager kernels, which run nothing but say what they would run. From then on it is
launched by one call.
"""

from __future__ import annotations

import collections
import contextlib
import json
import re
import struct
import threading
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from . import artifacts, split

_ops = torch.ops.tpu
OFFSETS = 3  # places of an input in its storage that a piece is recorded for
MAX_WALKS = 32  # of a piece that is never kept, before its calls just run
STRIKES = 3  # walks that a call broke before it stands alone: a size that is about to turn generic breaks one or two


def is_symbolic(size: Any) -> bool:
    return isinstance(size, torch.SymInt) and not size.node.is_constant()


def _varying(node: Node) -> int:
    """The dims of an input whose size varies from call to call, as a bit mask."""
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor) or isinstance(value, torch.nn.Parameter):
        return 0
    return sum(1 << i for i, size in enumerate(value.shape) if is_symbolic(size))


def _to_int(number: Any) -> int:
    """A number of a graph as the core takes it; floats by their bits, since they are only compared."""
    return struct.unpack("q", struct.pack("d", number))[0] if isinstance(number, float) else int(number)


def _of_int(value: int, node: Node) -> Any:
    known = node.meta["val"]
    if isinstance(known, (float, torch.SymFloat)):
        return struct.unpack("d", struct.pack("q", value))[0]
    return bool(value) if isinstance(known, (bool, torch.SymBool)) else value


class Unrecorded:
    """A guard for calls that shall run as the graph says: no autograd, no autocast, no tracing."""

    def __enter__(self) -> None:
        self._guards = (torch._C._AutoDispatchBelowAutograd(), torch._C._DisableAutocast())

    def __exit__(self, *_: Any) -> None:
        del self._guards


def _order(sizes: Any, strides: Any) -> list[int]:
    """The dims that are larger than one, outermost in memory first."""
    return sorted((i for i, n in enumerate(sizes) if n != 1), key=lambda i: (-strides[i], i))


def _hint(number: Any) -> int:
    return number if isinstance(number, int) else number.node.hint if number.node.has_hint() else 2


def _as_traced(value: Any, known: Any) -> Any:
    """The result with its dims in memory as tracing had them: later calls of the graph count on it (a view of it may be
    a copy otherwise). A kernel here may choose another order than the one that PyTorch's shape functions know."""
    if isinstance(value, (tuple, list)) and isinstance(known, (tuple, list)):
        return type(value)(_as_traced(v, k) for v, k in zip(value, known, strict=True))
    if (
        not isinstance(value, torch.Tensor)
        or not isinstance(known, torch.Tensor)
        or known.dim() != value.dim()
    ):
        return value
    if value.dim() < 2 or value.numel() == 0 or known.layout is not torch.strided:
        return value
    want = _order([_hint(n) for n in known.shape], [_hint(n) for n in known.stride()])
    if want == _order(value.shape, value.stride()) or len(set(want)) < 2:
        return value
    permutation = want + [i for i in range(value.dim()) if i not in want]
    return value.permute(permutation).contiguous().permute([permutation.index(i) for i in range(value.dim())])


def _is_view(target: Any) -> bool:
    return not isinstance(target, torch._ops.OpOverload) or any(
        r.alias_info is not None for r in target._schema.returns
    )


def _run(
    nodes: list[Node],
    env: dict[Node, Any],
    last: dict[Node, list[Node]],
    watch: Callable[[Node], None] | None,
) -> None:
    """The calls, in order, on real tensors; what is not read any more is dropped."""
    for node in nodes:
        args, kwargs = map_arg((node.args, node.kwargs), env.__getitem__)
        value = node.target(*args, **kwargs)  # type: ignore[operator]
        env[node] = value if _is_view(node.target) else _as_traced(value, node.meta.get("val"))
        del args, kwargs, value
        if watch is not None:
            watch(node)
        for dead in last.get(node, ()):
            env.pop(dead, None)


_gone: collections.deque[int] = collections.deque()  # graphs to be freed


def _sweep() -> None:
    while _gone:
        with contextlib.suppress(IndexError):  # another thread was faster
            _ops.graph_free(_gone.popleft())


class Recorded:
    """A piece of one device. Made and recorded where nothing is traced."""

    def __init__(self, owner: CompiledGraph, piece: split.Piece):
        self.owner, self.piece = owner, piece
        self.tensors = [n for n in piece.inputs if not split.is_number(n)]
        self.numbers = [n for n in piece.inputs if split.is_number(n)]
        self.out_tensors = [n for n in piece.outputs if not split.is_number(n)]
        self.out_numbers = [n for n in piece.outputs if split.is_number(n)]
        self.last = _last_uses(piece.nodes, set(piece.outputs))
        written = {source for n in piece.nodes for source in split.writes(n)}
        self.offsets = {i: set[int]() for i, n in enumerate(self.tensors) if n not in written}
        self.cut: list[int] = []  # inputs whose place in their storage varies: taken out of it first
        _sweep()
        self.handle = _ops.graph_new(
            owner.name,
            piece.device,
            owner.inlined,
            not owner.dynamic,
            [_varying(n) if owner.dynamic else 0 for n in self.tensors],
        )
        self.call = _ops.graph_run.default
        self.walks = 0
        self.broken = False
        self.why = ""

    def __del__(self) -> None:
        _gone.append(
            self.handle
        )  # no call: the collector may run while somebody traces, and a call would become part of that graph

    def __call__(
        self, tensors: list[torch.Tensor], numbers: list[int]
    ) -> tuple[list[torch.Tensor], list[int]]:
        for i in self.cut:
            with Unrecorded():
                tensors[i] = tensors[i].clone()
        outputs, out_numbers = self.call(self.handle, tensors, numbers)
        return (outputs, out_numbers) if outputs is not None else self.record(tensors, numbers)

    def record(self, tensors: list[torch.Tensor], numbers: list[int]) -> tuple[list[torch.Tensor], list[int]]:
        for i, met in self.offsets.items():
            if i in self.cut:
                continue
            met.add(int(tensors[i].storage_offset()))
            if len(met) > OFFSETS:
                self.cut.append(i)
        with Unrecorded():
            return self._record(tensors, numbers)

    def _record(
        self, tensors: list[torch.Tensor], numbers: list[int]
    ) -> tuple[list[torch.Tensor], list[int]]:
        env: dict[Node, Any] = dict(self.owner.constants)
        env.update(zip(self.tensors, tensors, strict=True))
        env.update((n, _of_int(v, n)) for n, v in zip(self.numbers, numbers, strict=True))
        keep = self.walks < MAX_WALKS
        if not keep:
            _run(self.piece.nodes, env, self.last, None)
            return [env[n] for n in self.out_tensors], [_to_int(env[n]) for n in self.out_numbers]
        self.broken = False
        _ops.graph_begin(self.handle, tensors, numbers)
        try:
            _run(self.piece.nodes, env, self.last, self._watch)
            outputs = [env[n] for n in self.out_tensors]
            out_numbers = [_to_int(env[n]) for n in self.out_numbers]
            env.clear()
        except BaseException:
            _ops.graph_abort()
            raise
        self.why = _ops.graph_end(self.piece.device, outputs, out_numbers)
        self.walks = self.walks + 1 if self.why else 0
        if not self.why:
            self.owner.strikes.clear()
            artifacts.note(file for r in self._recorded() for file in r["files"])
        return outputs, out_numbers

    def _watch(self, node: Node) -> None:
        """A call that could not be recorded runs by itself from the next time on."""
        why = not self.broken and _ops.graph_broken()
        if why:
            self.broken = True
            self.owner.note_alone(node, why)

    def _recorded(self) -> list[dict[str, Any]]:
        return json.loads(_ops.graph_report(self.handle))

    def report(self, texts: bool) -> dict[str, Any]:
        recorded = self._recorded()
        if texts:
            for r, run in zip(recorded, json.loads(_ops.graph_programs(self.handle)), strict=True):
                r["stablehlo"] = run["run"]["texts"]
        return {
            "device": self.piece.device,
            "calls": sum(n.op == "call_function" for n in self.piece.nodes),
            "recorded": recorded,
            "not_kept": self.why or None,
        }


def _last_uses(nodes: list[Node], kept: set[Node]) -> dict[Node, list[Node]]:
    """For each call the values that nobody of these calls reads after it."""
    last: dict[Node, Node] = {}
    for n in nodes:
        last[n] = n
        for source in n.all_input_nodes:
            last[source] = n
    dead: dict[Node, list[Node]] = {}
    for source, n in last.items():
        if source not in kept and source.op != "get_attr":
            dead.setdefault(n, []).append(source)
    return dead


class CompiledGraph:
    """What the compiler function returns: ``graph(list_of_inputs) -> list``. Any thread may call it."""

    def __init__(self, gm: GraphModule, name: str, inlined: bool):
        self.gm, self.name, self.inlined = gm, name, inlined
        self.backwards: Iterable[CompiledGraph] = ()
        self.inputs = [n for n in gm.graph.nodes if n.op == "placeholder"]
        self.dynamic = any(_varying(n) or is_symbolic(n.meta.get("val")) for n in gm.graph.nodes)
        (output,) = (n for n in gm.graph.nodes if n.op == "output")
        self.results = list(output.args[0]) if isinstance(output.args[0], (list, tuple)) else [output.args[0]]
        self.alone: dict[str, str] = {}
        self.strikes: dict[str, int] = {}
        self.constants: dict[Node, Any] = {}
        self._prepared: list[Any] | None = None
        self._fast: Recorded | None = None
        self._lock = threading.Lock()
        self.calls = 0

    # --- preparation, at the first call: no fake tensors are about then ---

    def _prepare(self) -> None:
        with Unrecorded():
            self.constants = split.fold(self.gm.graph, lambda n: _attribute(self.gm, n.target))
            for n in self.gm.graph.nodes:
                if n.op == "get_attr" and n not in self.constants:
                    self.constants[n] = _attribute(self.gm, n.target)
        pieces = split.split(self.gm.graph, self.alone)
        prepared: list[Any] = []
        for p in pieces:
            p.nodes = [n for n in p.nodes if n not in self.constants]
            if p.nodes:
                prepared.append(p if p.device is split.ALONE else Recorded(self, p))
        self._fast = self._fits(prepared)
        self._prepared = prepared

    def _fits(self, prepared: list[Any]) -> Recorded | None:
        """The whole graph as one piece whose inputs and outputs are the graph's own."""
        if len(prepared) != 1 or not isinstance(prepared[0], Recorded):
            return None
        piece = prepared[0]
        if any(isinstance(n, Node) and n in self.constants for n in self.results):
            return None
        if any(n in self.constants for n in piece.tensors):
            return None
        index = {n: i for i, n in enumerate(self.inputs)}
        self._tensor_at = [index[n] for n in piece.tensors]
        self._number_at = [index[n] for n in piece.numbers]
        made = {n: i for i, n in enumerate(piece.out_tensors)}
        counted = {n: i for i, n in enumerate(piece.out_numbers)}
        self._plan = [
            (0, made[r])
            if r in made
            else (1, counted[r])
            if r in counted
            else (2, index[r])
            if r in index
            else (3, r)
            for r in self.results
        ]
        self._straight = self._plan == [(0, i) for i in range(len(made))]
        return piece

    def note_alone(self, node: Node, why: str) -> bool:
        """The call cannot be recorded: the graph is split around it from the next call on."""
        if node.name in self.alone or self._prepared is None:
            return False
        self.strikes[node.name] = self.strikes.get(node.name, 0) + 1
        if self.strikes[node.name] < STRIKES:
            return False
        self.alone[node.name] = why
        self._prepared = None
        return True

    # --- calls ---

    def __call__(self, args: list[Any]) -> list[Any]:
        if self._prepared is None:
            with self._lock:
                if self._prepared is None:
                    self._prepare()
        self.calls += 1
        fast = self._fast
        if fast is None:
            return self._pieces(args)
        tensors = [args[i] for i in self._tensor_at]
        numbers = [_to_int(args[i]) for i in self._number_at]
        kept = [args[i] for k, i in self._plan if k == 2] if not self._straight else []
        args.clear()
        outputs, counted = fast(tensors, numbers)
        if self._straight:
            return outputs
        passed = iter(kept)
        results: list[Any] = []
        for kind, what in self._plan:
            if kind == 0:
                results.append(outputs[what])
            elif kind == 1:
                results.append(_of_int(counted[what], fast.out_numbers[what]))
            else:
                results.append(next(passed) if kind == 2 else what)
        return results

    def _pieces(self, args: list[Any]) -> list[Any]:
        prepared = self._prepared
        if prepared is None:  # split anew by another thread
            self._prepare()
            prepared = self._prepared
        assert prepared is not None
        env: dict[Node, Any] = dict(self.constants)
        env.update(zip(self.inputs, args, strict=True))
        args.clear()
        for piece in prepared:
            if isinstance(piece, Recorded):
                outputs, numbers = piece(
                    [env[n] for n in piece.tensors], [_to_int(env[n]) for n in piece.numbers]
                )
                env.update(zip(piece.out_tensors, outputs, strict=True))
                env.update((n, _of_int(v, n)) for n, v in zip(piece.out_numbers, numbers, strict=True))
            else:
                with Unrecorded():
                    _run(piece.nodes, env, {}, None)
        return [env[r] if isinstance(r, Node) else r for r in self.results]

    def report(self, texts: bool = False) -> dict[str, Any]:
        """pieces: what is launched together; separate: calls that run by themselves, and why. texts: the programs' StableHLO, too."""
        prepared = self._prepared or ()
        pieces = [p.report(texts) for p in prepared if isinstance(p, Recorded)]
        separate = [
            {"call": p.nodes[0].name, "op": str(p.nodes[0].target), "line": _line(p.nodes[0]), "why": p.why}
            for p in prepared
            if isinstance(p, split.Piece) and p.why
        ]
        report = {"name": self.name, "calls": self.calls, "pieces": pieces, "separate": separate}
        return report | {"alone": dict(self.alone)}


def _line(node: Node) -> str:
    """Where the program asked for the call: "file:line", or "" where that is not known."""
    found = re.findall(r'File "([^"]+)", line (\d+)', node.meta.get("stack_trace") or "")
    return ":".join(found[-1]) if found else ""


def _attribute(module: Any, target: Any) -> Any:
    for part in str(target).split("."):
        module = getattr(module, part)
    return module
