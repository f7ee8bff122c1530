"""The Dynamo backend: AOTAutograd, then `CompiledGraph` for forward, backward and inference graphs."""

from __future__ import annotations

import functools
import itertools
import warnings
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from torch.fx import GraphModule

from . import ahead, execute

OPTIONS = {"repeat": ("auto", "inline")}
_graphs: weakref.WeakSet[execute.CompiledGraph] = weakref.WeakSet()
_kept: list[execute.CompiledGraph] | None = None  # while somebody explains: graphs that are gone count, too
_numbers = itertools.count()


@functools.cache
def _teach() -> None:
    """Recomputed random calls (activation checkpoints) take their generator from PyTorch's table of devices."""
    from torch._functorch._aot_autograd.utils import register_graphsafe_rng_device_type

    register_graphsafe_rng_device_type("tpu")


def next_name(kind: str) -> str:
    return f"{kind} graph {next(_numbers)}"


def track(graph: execute.CompiledGraph) -> None:
    _graphs.add(graph)
    if _kept is not None:
        _kept.append(graph)


def compile_graph(
    gm: GraphModule,
    _inputs: Sequence[Any],
    kind: str,
    inlined: bool,
    backwards: weakref.WeakSet[execute.CompiledGraph],
) -> Callable[..., Any]:
    graph = execute.CompiledGraph(gm, next_name(kind), inlined)
    graph.backwards = backwards
    if kind == "backward":
        backwards.add(graph)
    track(graph)

    def call(args: list[Any]) -> list[Any]:  # a function: PyTorch's wrappers copy the mark of functions only
        if ahead.active and ahead.here.on:
            ahead.reached(graph, args)
        return graph(args)

    call._boxed_call = True  # type: ignore[attr-defined]
    return call


def graphs() -> list[execute.CompiledGraph]:
    return sorted(_graphs, key=lambda g: int(g.name.rsplit(" ", 1)[1]))


def keep_graphs(on: bool) -> None:
    """Graphs live on when the code that they were made for is gone."""
    global _kept
    _kept = [] if on else None


class TpuBackend:
    """A backend for ``torch.compile(backend=TpuBackend())``; ``backend="tpu"`` is one without options.

    Options: ``repeat="auto"`` compiles equal blocks of a graph once and launches them one after the other,
    ``repeat="inline"`` makes one program of the whole graph.
    """

    def __init__(self, **options: Any):
        self.options = {name: choices[0] for name, choices in OPTIONS.items()}
        self._set(options)

    def _set(self, options: dict[str, Any]) -> None:
        unknown = sorted(set(options) - set(OPTIONS))
        if unknown:
            warnings.warn(
                f'torch.compile(backend="tpu"): unknown options {", ".join(unknown)} have no effect; known: '
                f"{', '.join(sorted(OPTIONS))}",
                stacklevel=2,
            )
        for name in set(options) & set(OPTIONS):
            if options[name] not in OPTIONS[name]:
                raise ValueError(f"option {name} must be one of {OPTIONS[name]}, got {options[name]!r}")
            self.options[name] = options[name]

    def __call__(
        self,
        gm: GraphModule,
        example_inputs: Sequence[Any],
        *,
        mode: str | None = None,
        options: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> Callable[..., Any]:
        backend = TpuBackend(**self.options)
        backend._set(options or {})
        if mode not in (None, "default"):
            warnings.warn(
                f'torch.compile(backend="tpu"): mode={mode!r} has no effect; there is one mode', stacklevel=2
            )
        if kwargs:
            warnings.warn(
                f'torch.compile(backend="tpu"): {", ".join(sorted(kwargs))} has no effect', stacklevel=2
            )
        return backend._compile(gm, example_inputs)

    def _compile(self, gm: GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        from torch._dynamo.backends.common import aot_autograd
        from torch._functorch.partitioners import min_cut_rematerialization_partition

        _teach()
        inlined = self.options["repeat"] == "inline"
        backwards: weakref.WeakSet[execute.CompiledGraph] = weakref.WeakSet()
        make = {
            kind: functools.partial(compile_graph, kind=kind, inlined=inlined, backwards=backwards)
            for kind in ("forward", "backward", "inference")
        }
        compiler = aot_autograd(
            fw_compiler=make["forward"],
            bw_compiler=make["backward"],
            inference_compiler=make["inference"],
            partition_fn=min_cut_rematerialization_partition,
            keep_inference_input_mutations=True,
        )
        if not ahead.here.on:
            return compiler(gm, example_inputs)
        from torch._functorch import config

        with config.patch(force_non_lazy_backward_lowering=True):  # under Dynamo's lock, as all tracing
            return compiler(gm, example_inputs)

    def reset(self) -> None:
        """Called by ``torch._dynamo.reset()``; graphs go with the code that holds them."""


tpu = TpuBackend()
