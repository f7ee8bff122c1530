"""Compiling ahead: ``torch_tpu.compile_async``.

A thread calls the function up to its graph and no further. The graph's forward and backward run there once, on copies of what they
write and with random draws of their own, so that the caller's tensors, generators and gradients stay what they were. What is left is
Dynamo's code, the recording and the programs, which the first real call finds.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import functools
import logging
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch

from . import execute, split

log = logging.getLogger("torch_tpu.compile")


class _Reached(BaseException):
    """Leaves the function at its graph. Not an Exception: programs catch those."""


class _Here(threading.local):
    on = False


here = _Here()
active = 0  # threads that compile ahead: what a call looks at before it asks for its own
_lock = threading.Lock()


@contextlib.contextmanager
def _ahead() -> Iterator[None]:
    global active
    with _lock:
        active += 1
    here.on = True
    torch.ops.tpu.scratch_draws(True)
    try:
        yield
    finally:
        torch.ops.tpu.scratch_draws(False)
        here.on = False
        with _lock:
            active -= 1


# --- at the graph ---


def _bound(graph: execute.CompiledGraph, args: list[Any]) -> dict[Any, int]:
    """The values of Dynamo's symbols in a call of the graph."""
    bound: dict[Any, int] = {}
    for node, value in zip(graph.inputs, args, strict=True):
        known = node.meta.get("val")
        if isinstance(known, torch.Tensor):
            pairs = list(zip((*known.shape, *known.stride()), (*value.shape, *value.stride()), strict=True))
        else:
            pairs = [(known, value)]
        for symbolic, number in pairs:
            if isinstance(symbolic, torch.SymInt) and symbolic.node.expr.is_Symbol:
                bound.setdefault(symbolic.node.expr, int(number))
    return bound


def _made_up(known: Any, bound: dict[Any, int]) -> Any:
    """A value such as tracing expects: zeros, or the number itself."""

    def number(n: Any) -> int:
        return int(n.node.expr.xreplace(bound)) if isinstance(n, torch.SymInt) else n

    if not isinstance(known, torch.Tensor):
        return number(known)
    sizes, strides = [number(n) for n in known.shape], [number(n) for n in known.stride()]
    return torch.empty_strided(sizes, strides, dtype=known.dtype).zero_().to(known.device)


def _twin(x: torch.Tensor) -> torch.Tensor:
    """The tensor on a storage of its own, whose bytes are shared until either is written."""
    with execute.Unrecorded():
        return torch.empty(0, dtype=x.dtype, device=x.device).set_(
            x.untyped_storage().clone(), x.storage_offset(), x.size(), x.stride()
        )


def reached(graph: execute.CompiledGraph, args: list[Any]) -> None:
    """Runs the graph and its backward for what that leaves in the caches. A saved value has the same name in both graphs."""
    written = {source for n in graph.gm.graph.nodes for source in split.writes(n)}
    bound = _bound(graph, args)
    own = [_twin(a) if n in written else a for n, a in zip(graph.inputs, args, strict=True)]
    results = {
        n.name: value
        for n, value in zip(graph.results, graph(own), strict=True)
        if isinstance(n, torch.fx.Node)
    }
    for backward in list(graph.backwards):
        try:
            backward(
                [
                    results[n.name] if n.name in results else _made_up(n.meta.get("val"), bound)
                    for n in backward.inputs
                ]
            )
        except (RuntimeError, TypeError, ValueError) as error:  # of values that were made up
            log.info("%s was not compiled ahead: %s", backward.name, error)
    raise _Reached


# --- the thread ---


class _Caller:
    """What of a thread's state decides what is traced."""

    def __init__(self) -> None:
        self._grad = torch.is_grad_enabled()
        self._inference = torch.is_inference_mode_enabled()
        self._device = torch.tpu.current_device()  # type: ignore[attr-defined]
        self._autocast = [
            (kind, torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)) for kind in ("tpu", "cpu")
        ]
        self._cached = torch.is_autocast_cache_enabled()

    @contextlib.contextmanager
    def state(self) -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            stack.enter_context(torch.inference_mode(self._inference))
            stack.enter_context(torch.set_grad_enabled(self._grad))
            stack.enter_context(torch.tpu.device(self._device))  # type: ignore[attr-defined]
            for kind, on, dtype in self._autocast:
                if on:
                    stack.enter_context(torch.autocast(kind, dtype, cache_enabled=self._cached))
            yield


@functools.cache
def _threads() -> concurrent.futures.ThreadPoolExecutor:
    return concurrent.futures.ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="torch_tpu-compile")


def _is_compiled(fn: Any) -> bool:
    return isinstance(fn, torch._dynamo.OptimizedModule) or hasattr(fn, "_torchdynamo_orig_callable")


def _compile(
    fn: Callable[..., Any], caller: _Caller, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Callable[..., Any]:
    with _ahead(), caller.state(), torch._dynamo.error_on_graph_break(True):
        try:
            fn(*args, **kwargs)
        except _Reached:
            return fn
    raise RuntimeError(
        f"compile_async: {getattr(fn, '__name__', type(fn).__name__)} came to its end without a graph of "
        'backend "tpu": is it compiled for another backend, or has it no tensors?'
    )


def submit(
    fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> concurrent.futures.Future[Callable[..., Any]]:
    import torch._dynamo

    run = fn if _is_compiled(fn) else torch.compile(fn, backend="tpu")
    return _threads().submit(_compile, run, _Caller(), args, kwargs)
