"""Eager modes under their upstream names; the public ones are ``torch.tpu.eager_mode`` and friends."""

from __future__ import annotations

import enum
from typing import Any

from .. import _modes


class EagerMode(enum.Enum):
    DEFER_NEVER = 0
    DEFER_NEVER_AND_LAUNCH_BLOCKING = 1
    DEFER_AND_FUSE = 2
    INTERNAL_DEFER_ALL = 3


_NAMES = ("strict", "debug", "fused", "fused")


def _name(mode: EagerMode | str) -> str:
    return _NAMES[mode.value] if isinstance(mode, EagerMode) else mode


def get_eager_mode() -> EagerMode:
    return EagerMode(_NAMES.index(_modes.get_eager_mode()))


def set_eager_mode(mode: EagerMode | str) -> Any:
    return _modes.set_eager_mode(_name(mode))


def eager_mode(mode: EagerMode | str) -> Any:
    return _modes.eager_mode(_name(mode))
