"""torch_tpu: device "tpu" for PyTorch, over any PJRT plugin.

``import torch`` is enough: PyTorch finds the package by its entry point and calls ``_autoload``.
"""

from __future__ import annotations

import warnings

__all__ = ["Exported", "__version__", "compile_async", "export"]


def _autoload() -> None:
    """Called at the end of ``import torch``. Must not raise: an exception would break ``import torch``."""
    from . import _loader

    try:
        _loader.load()
    except Exception as error:
        warnings.warn(f"device 'tpu' is not there: {error}", RuntimeWarning, stacklevel=2)


# _autoload stands above: importing torch calls it while this module is still being imported.
import torch  # noqa: E402, F401

from . import _backends as _backends  # noqa: E402  (torch.backends.tpu exists with or without a device)
from ._compile import compile_async  # noqa: E402
from ._export import Exported, export  # noqa: E402
from ._loader import version as _version  # noqa: E402

__version__ = _version()
