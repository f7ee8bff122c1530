"""A graph to pieces.

A piece holds calls of one device, which are recorded and launched together, or one call that cannot be (on the CPU, between devices,
reading a value, without a kernel here), which runs by itself. The order is the graph's own as far as it can be seen: data, writes, random
draws and effects keep theirs; CPU numbers that hang on nothing else come first, so that they cut nothing in two.
"""

from __future__ import annotations

import dataclasses
import heapq
import operator
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.fx import Graph, Node

ALONE = None  # instead of a device index


@dataclasses.dataclass
class Piece:
    device: int | None  # of a recorded piece; ALONE: its one call runs by itself
    nodes: list[Node]
    inputs: list[Node] = dataclasses.field(default_factory=list)  # tensors and numbers from before
    outputs: list[Node] = dataclasses.field(default_factory=list)  # what is used later
    why: str = ""  # it runs by itself


def values(node: Node) -> list[Any]:
    """What the node yields, as far as tracing knows: fake tensors and numbers."""
    value = node.meta.get("val")
    return list(value) if isinstance(value, (tuple, list)) else [value]


def tensors(node: Node) -> list[torch.Tensor]:
    return [v for v in values(node) if isinstance(v, torch.Tensor)]


def is_number(node: Node) -> bool:
    return isinstance(node.meta.get("val"), (int, float, bool, torch.SymInt, torch.SymFloat, torch.SymBool))


def _has_kernel(target: Any) -> bool:
    """Does the op run on the device without the CPU?"""
    if not isinstance(target, torch._ops.OpOverload):
        return False
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    name = target.name()
    keys = (
        "PrivateUse1",
        "CompositeImplicitAutograd",
        "CompositeExplicitAutograd",
        "CompositeExplicitAutogradNonFunctional",
    )
    return any(has(name, key) for key in keys)


_PLAIN = {operator.getitem}  # of a tuple of tensors; and all of arithmetic on sizes


def _finds_its_size(node: Node) -> bool:
    """nonzero, masks among indices and the like: a size that only the values tell, new here."""
    if torch.Tag.dynamic_output_shape not in node.target.tags:  # type: ignore[union-attr]
        return False
    from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

    known = {s for n in node.all_input_nodes for t in tensors(n) for s in free_unbacked_symbols(t)}
    return any(free_unbacked_symbols(t) - known for t in tensors(node))


def _where(node: Node, alone: Mapping[str, str]) -> tuple[int | None | str, str]:
    """A device index, ALONE, or "any": numbers and items of tuples go where they are used. And why ALONE."""
    if node.name in alone:
        return ALONE, alone[node.name]
    if node.target in _PLAIN or (is_number(node) and not isinstance(node.target, torch._ops.OpOverload)):
        return "any", ""
    target = node.target
    if isinstance(target, torch._ops.OpOverload):
        if target.name().startswith("aten::sym_"):
            return "any", ""
        if torch.Tag.data_dependent_output in target.tags:
            return ALONE, "its result is a number that only the values tell"
        if _finds_its_size(node):
            return ALONE, "the size of its result is something that only the values tell"
    if not _has_kernel(target):
        return ALONE, "it has no kernel for the device"
    made = [t.device for t in tensors(node)]
    used = [t for n in node.all_input_nodes for t in tensors(n)]
    devices = {d.index or 0 for d in made if d.type == "tpu"} | {
        t.device.index or 0 for t in used if t.device.type == "tpu"
    }
    if not devices:
        return ALONE, "it runs on another device"
    if len(devices) != 1 or any(
        d.type not in ("tpu", "meta") for d in made
    ):  # "meta": numbers for random draws, of attention
        return ALONE, "it moves between devices"
    if any(t.device.type != "tpu" and t.dim() for t in used):
        return ALONE, "it reads a tensor of another device"
    return devices.pop(), ""


def writes(node: Node) -> list[Node]:
    """Nodes whose tensors the call writes."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload) or not target._schema.is_mutable:
        return []
    written: list[Node] = []
    for i, arg in enumerate(target._schema.arguments):
        if arg.alias_info is None or not arg.alias_info.is_write:
            continue
        value = node.args[i] if i < len(node.args) else node.kwargs.get(arg.name)
        written += [
            v for v in (value if isinstance(value, (list, tuple)) else [value]) if isinstance(v, Node)
        ]
    return written


def _has_effect(node: Node) -> bool:
    if node.op != "call_function" or node.target in _PLAIN:
        return False
    if isinstance(node.target, torch._ops.HigherOrderOperator):
        return True
    return not isinstance(node.meta.get("val"), (torch.Tensor, tuple, list)) and not is_number(node)


def _ordered(nodes: list[Node]) -> dict[Node, set[Node]]:
    """What each call must come after."""
    after: dict[Node, set[Node]] = {n: set(n.all_input_nodes) for n in nodes}
    users: dict[Node, list[Node]] = {}
    writer: dict[Node, Node] = {}
    last: dict[Any, Node] = {}  # of calls that draw, by device, and of calls with effects
    for n in nodes:
        for source in n.all_input_nodes:
            if source in writer:
                after[n].add(writer[source])
            users.setdefault(source, []).append(n)
        for source in writes(n):
            after[n].update(u for u in users.get(source, ()) if u is not n)
            writer[source] = n
        chains: set[Any] = set()
        if isinstance(n.target, torch._ops.OpOverload) and torch.Tag.nondeterministic_seeded in n.target.tags:
            chains.update(str(t.device) for t in tensors(n))
        if _has_effect(n) and not writes(n):
            chains.add("effect")
        for chain in chains:
            if chain in last:
                after[n].add(last[chain])
            last[chain] = n
    return after


def _schedule(nodes: list[Node], where: dict[Node, Any]) -> list[tuple[Any, list[Node]]]:
    """Runs of calls of one place, as long as they can be."""
    after = _ordered(nodes)
    position = {n: i for i, n in enumerate(nodes)}
    waits = {n: {m for m in after[n] if m in position} for n in nodes}
    followers: dict[Node, list[Node]] = {}
    for n, ms in waits.items():
        for m in ms:
            followers.setdefault(m, []).append(n)
    ready: dict[Any, list[int]] = {}

    def add(n: Node) -> None:
        heapq.heappush(ready.setdefault(where[n], []), position[n])

    for n in nodes:
        if not waits[n]:
            add(n)
    runs: list[tuple[Any, list[Node]]] = []
    place: Any = ALONE
    while any(ready.values()):
        if not ready.get(place) and not ready.get("any"):
            place = (
                ALONE if ready.get(ALONE) else min((p for p in ready if ready[p]), key=lambda p: ready[p][0])
            )
        here = (
            "any"
            if ready.get("any") and (not ready.get(place) or ready["any"][0] < ready[place][0])
            else place
        )
        n = nodes[heapq.heappop(ready[here])]
        if not runs or runs[-1][0] != place:
            runs.append((place, []))
        runs[-1][1].append(n)
        for m in followers.get(n, ()):
            waits[m].discard(n)
            if not waits[m]:
                add(m)
    assert sum(len(run) for _, run in runs) == len(nodes), "a cycle among the calls of a graph"
    return runs


def _connect(pieces: list[Piece], graph: Graph) -> None:
    """Inputs and outputs of each piece."""
    owner = {n: p for p in pieces for n in p.nodes}
    for p in pieces:
        seen: dict[Node, None] = {}
        for n in p.nodes:
            for source in n.all_input_nodes:
                if owner.get(source) is not p and source.op != "get_attr":
                    seen[source] = None
        p.inputs = list(seen)
        p.outputs = [n for n in p.nodes if any(owner.get(u) is not p for u in n.users)]


def split(graph: Graph, alone: Mapping[str, str]) -> list[Piece]:
    """The graph's calls as pieces in the order in which they run. `alone`: calls that turned out not to be recordable, and why."""
    nodes = [n for n in graph.nodes if n.op not in ("placeholder", "output", "get_attr")]
    found = {n: _where(n, alone) for n in nodes}
    where = {n: place for n, (place, _) in found.items()}
    # an item of what runs alone, and a number that hangs on one, stand after it; nothing is recorded for them
    for n in nodes:
        if where[n] == "any" and n.target in _PLAIN:
            source = n.all_input_nodes[0] if n.all_input_nodes else None
            where[n] = where.get(source, "any") if source is not None else "any"
    pieces: list[Piece] = []
    for place, run in _schedule(nodes, where):
        if place is ALONE or place == "any":
            pieces += [Piece(ALONE, [n], why=found[n][1]) for n in run]
        else:
            pieces.append(Piece(place, run))
    _connect(pieces, graph)
    return pieces


def fold(graph: Graph, constant: Callable[[Node], Any]) -> dict[Node, Any]:
    """Calls that hang on the graph's own constants alone, and their values: made once, since nothing writes them."""
    done: dict[Node, Any] = {}
    written = {source for n in graph.nodes for source in writes(n)}
    for n in graph.nodes:
        if n.op == "get_attr":
            value = constant(n)
            if isinstance(value, torch.Tensor):
                done[n] = value
            continue
        if n.op != "call_function" or not n.all_input_nodes or n in written or not tensors(n):
            continue
        pure = isinstance(n.target, torch._ops.OpOverload) and not n.target._schema.is_mutable
        if pure and torch.Tag.nondeterministic_seeded in n.target.tags:
            continue
        if pure and all(source in done for source in n.all_input_nodes):
            args, kwargs = torch.fx.node.map_arg((n.args, n.kwargs), lambda m: done[m])
            done[n] = n.target(*args, **kwargs)
    return done
