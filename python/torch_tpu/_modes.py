"""When ops are launched (``torch.tpu.eager_mode``) and how exactly floats are multiplied (``precision``)."""

from __future__ import annotations

import enum
from typing import Any

from . import _C

_MODES = ("strict", "debug", "fused")  # tpu_mode of core/tpu.h


def get_eager_mode() -> str:
    """ "strict": at once, asynchronously; "debug": at once, and waits; "fused": recorded, run together."""
    return _MODES[_C.get_mode()]


class _ModeSwitch:
    """Has switched already; as a context manager it switches back at the end."""

    def __init__(self, old: str):
        self._old = old

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: Any) -> None:
        _C.set_mode(_MODES.index(self._old))


def set_eager_mode(mode: str) -> _ModeSwitch:
    """Switches for the whole process; what is recorded is launched first. Also usable in a ``with``."""
    if mode not in _MODES:
        raise ValueError(f"the eager mode must be one of {_MODES}, got {mode!r}")
    old = get_eager_mode()
    _C.set_mode(_MODES.index(mode))
    return _ModeSwitch(old)


class eager_mode:
    """``with torch.tpu.eager_mode("fused"): ...``"""

    def __init__(self, mode: str):
        if mode not in _MODES:
            raise ValueError(f"the eager mode must be one of {_MODES}, got {mode!r}")
        self._mode = mode

    def __enter__(self) -> None:
        self._switch = set_eager_mode(self._mode)

    def __exit__(self, *exc: Any) -> None:
        self._switch.__exit__(*exc)


class Precision(enum.Enum):
    DEFAULT = "default"
    HIGH = "high"
    HIGHEST = "highest"


class precision:
    """``with torch.tpu.precision(Precision.HIGH): ...`` sets ``torch.backends.tpu.matmul_precision``."""

    def __init__(self, value: Precision | str):
        self._value = Precision(value)

    def __enter__(self) -> None:
        import torch

        self._old = torch.backends.tpu.matmul_precision  # type: ignore[attr-defined]
        torch.backends.tpu.matmul_precision = self._value.value  # type: ignore[attr-defined]

    def __exit__(self, *_: Any) -> None:
        import torch

        torch.backends.tpu.matmul_precision = self._old  # type: ignore[attr-defined]
