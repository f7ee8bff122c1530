"""``torch.compile(backend="tpu")``.

hooks     what PyTorch's compiler learns of the device when it is first imported
backend   the Dynamo backend: AOTAutograd with our compiler function
split     a graph to pieces: calls of one device that are recorded together, and what runs between them
ahead     compiling on threads before the first call
execute   a piece: recorded on its first call with such inputs (core/step/graph.c), launched from then on
artifacts what torch.compiler.save_cache_artifacts carries of us

No file here knows an operator: a piece runs the same kernels that eager mode runs. Nothing is imported before
PyTorch's compiler is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import concurrent.futures
    from collections.abc import Callable


def compile_async(
    fn: Callable[..., Any], *args: Any, **kwargs: Any
) -> concurrent.futures.Future[Callable[..., Any]]:
    """Compiles ``fn`` for such arguments on a thread, and returns at once.

    fn: a module or function, which is then compiled by ``torch.compile(fn, backend="tpu")``, or what torch.compile
    returned. It must be one graph: a graph break is an error of the future. args, kwargs: as for a call; their types,
    shapes and views count (and Python values, as in a call), so ``torch.empty`` will do. No call is made of ``fn``:
    arguments, parameters, buffers, gradients and generators stay as they are. Its graphs run once on copies of what
    they write, and need the memory of that.

    Grad mode, inference mode, autocast and the current device are the caller's. Where results will require gradients
    the backward is compiled, too. Several shapes: call it for each, and wait for the one that is needed; programs are
    compiled side by side, tracing is not.

    Returns a future of the compiled function. Any thread may call it.
    """
    from . import ahead

    return ahead.submit(fn, args, kwargs)
