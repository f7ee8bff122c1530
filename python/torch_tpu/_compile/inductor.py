"""Graphs on our device that reach Inductor: libraries name that backend themselves (Transformers does, for its static cache).

Inductor lets a device bring a pass over the finished graph. Ours takes the whole graph out, to be run by `CompiledGraph`, and leaves one
call of tpu_inductor::graph; Inductor writes its wrapper around that. A kernel that it wants to write for the device is an error.
"""

from __future__ import annotations

import itertools
import logging
import operator
from typing import Any

import torch
from torch._inductor.codegen.wrapper import PythonWrapperCodegen
from torch._inductor.custom_graph_pass import CustomGraphModulePass
from torch._inductor.scheduler import BaseScheduling
from torch.fx import GraphModule, Node

from . import execute, split

log = logging.getLogger("torch_tpu.compile")
_graphs: dict[int, tuple[execute.CompiledGraph, list[Any], list[tuple[str, int]]]] = {}
_ids = itertools.count()
_library = torch.library.Library("tpu_inductor", "DEF")
_library.define("graph(Tensor[] inputs, Tensor(a!)[] written, SymInt[] sizes, int id) -> Tensor[]")
_noted = False


def _call(
    inputs: list[torch.Tensor], written: list[torch.Tensor], sizes: list[int], id: int
) -> list[torch.Tensor]:
    graph, _, order = _graphs[id]
    lists = {"inputs": inputs, "written": written, "sizes": sizes}
    return graph([lists[kind][i] for kind, i in order])  # type: ignore[index]


def _fake(inputs: Any, written: Any, sizes: Any, id: int) -> list[torch.Tensor]:
    return [torch.empty_strided(v.shape, v.stride(), dtype=v.dtype, device=v.device) for v in _graphs[id][1]]


_library.impl("graph", _call, "CompositeExplicitAutograd")
torch.library.register_fake("tpu_inductor::graph", _fake, lib=_library)


@torch.ops.tpu_inductor.graph.default.py_functionalize_impl
def _functional(ctx: Any, inputs: Any, written: Any, sizes: Any, id: int) -> Any:
    with ctx.redispatch_to_next():
        out = torch.ops.tpu_inductor.graph(ctx.unwrap_tensors(inputs), ctx.unwrap_tensors(written), sizes, id)
        return ctx.wrap_tensors(out)


def _written(gm: GraphModule) -> set[Node]:
    return {source for n in gm.graph.nodes for source in split.writes(n) if source.op == "placeholder"}


def _on_device(node: Node) -> bool:
    return any(t.device.type == "tpu" for t in split.tensors(node))


class TakeGraph(CustomGraphModulePass):
    """Replaces the calls of a graph by one."""

    def __call__(self, gm: GraphModule) -> None:
        global _noted
        if not any(n.op == "call_function" for n in gm.graph.nodes):
            return
        if not _noted:
            _noted = True
            log.warning(
                "a graph on device tpu was compiled with backend inductor, which has no code for it: "
                'it is compiled as with backend="tpu". This is said once.'
            )
        inner = GraphModule(gm, torch.fx.Graph(), "TpuGraph")
        copies: dict[Node, Node] = {}
        inner.graph.graph_copy(gm.graph, copies)
        (output,) = (n for n in gm.graph.nodes if n.op == "output")
        placeholders = [n for n in gm.graph.nodes if n.op == "placeholder"]
        made = [r for r in output.args[0] if isinstance(r, Node) and r.op != "placeholder"]
        made = list(dict.fromkeys(made))
        tensors_made = [r for r in made if not split.is_number(r)]
        inner.graph.output([copies[r] for r in tensors_made])
        inner.recompile()
        written = _written(gm)
        lists: dict[str, list[Node]] = {"inputs": [], "written": [], "sizes": []}
        order: list[tuple[str, int]] = []
        for p in placeholders:
            kind = "sizes" if split.is_number(p) else "written" if p in written else "inputs"
            order.append((kind, len(lists[kind])))
            lists[kind].append(p)
        from . import backend

        id = next(_ids)
        graph = execute.CompiledGraph(inner, backend.next_name("inductor"), False)
        backend.track(graph)
        _graphs[id] = (graph, [r.meta["val"] for r in tensors_made], order)
        calls = [n for n in gm.graph.nodes if n.op == "call_function"]
        with gm.graph.inserting_before(calls[0]):
            call = gm.graph.call_function(
                torch.ops.tpu_inductor.graph.default, (lists["inputs"], lists["written"], lists["sizes"], id)
            )
            call.meta["val"] = [r.meta["val"] for r in tensors_made]
            for i, r in enumerate(tensors_made):
                item = gm.graph.call_function(operator.getitem, (call, i))
                item.meta["val"] = r.meta["val"]
                output.replace_input_with(r, item)
        for n in reversed(calls):
            if not n.users:
                gm.graph.erase_node(n)
        gm.recompile()

    def uuid(self) -> Any:
        return None


class Scheduling(BaseScheduling):
    """No node of ours is ever scheduled: the pass took them all."""

    def _none(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError(
            "tpu: Inductor wants to write a kernel; the graph should have been taken out whole"
        )

    can_fuse_vertical = can_fuse_horizontal = fuse = group_fn = _none
    codegen_node = codegen_template = codegen_sync = _none

    def get_backend_features(self, device: torch.device) -> Any:
        from torch.utils._ordered_set import OrderedSet

        return OrderedSet()

    def flush(self) -> None:
        pass


class Wrapper(PythonWrapperCodegen):
    supports_caching = False  # what it calls lives in this process


def register() -> None:
    from torch._inductor.codegen.common import register_backend_for_device

    register_backend_for_device("tpu", Scheduling, Wrapper, None, None, TakeGraph())
