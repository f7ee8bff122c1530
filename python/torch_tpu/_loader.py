"""From nothing to ``torch.device("tpu")``. Starts no runtime and looks at no device."""

from __future__ import annotations

import threading

_lock = threading.RLock()
_loaded = False


def version() -> str:
    try:
        from ._build import VERSION
    except ImportError:
        return "0+unbuilt"
    return VERSION


def _check_torch() -> None:
    """One sentence where the loader would otherwise speak of undefined symbols."""
    import torch

    try:
        from ._build import TORCH_VERSION
    except ImportError as error:
        raise ImportError(
            "torch_tpu has not been built here: run 'pip install --no-build-isolation .' in its source tree"
        ) from error
    if torch.__version__.split(".")[:2] != TORCH_VERSION.split(".")[:2]:
        raise ImportError(
            f"torch_tpu {version()} was built against torch {TORCH_VERSION}, but torch {torch.__version__} "
            "is running: install that torch, or build torch_tpu again with "
            "'pip install --no-build-isolation .'"
        )


def load() -> None:
    """Registers device "tpu" with PyTorch; the second call does nothing.

    With ``TORCH_DEVICE_BACKEND_AUTOLOAD=0`` PyTorch leaves this to its user.
    """
    global _loaded
    with _lock:
        if _loaded:
            return
        _check_torch()
        import torch

        from . import _C, _backends, _plugins, _processes
        from ._compile import hooks

        _C.init()
        _plugins.add_candidates()
        torch.utils.rename_privateuse1_backend("tpu")
        from . import _device

        torch._register_device_module("tpu", _device)
        torch.utils.generate_methods_for_privateuse1_backend(for_storage=True)
        torch.set_autocast_dtype("tpu", torch.bfloat16)
        _backends.install()
        _processes.install()
        _device._register_process_hooks()
        hooks.install()
        _loaded = True
