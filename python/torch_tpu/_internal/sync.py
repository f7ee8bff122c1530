"""``synchronize`` under its upstream name."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from .. import _C


def synchronize(tensors: torch.Tensor | Iterable[torch.Tensor] | None = None, wait: bool = True) -> None:
    """Launches what is recorded; with ``wait`` also waits for the devices of ``tensors`` (None: all)."""
    if not wait:
        _C.flush()
        return
    if tensors is None:
        _C.synchronize(-1)
        return
    if isinstance(tensors, torch.Tensor):
        tensors = [tensors]
    for index in sorted({t.device.index for t in tensors if t.device.type == "tpu"}):
        _C.synchronize(index)
