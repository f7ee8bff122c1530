"""From what callers name a device with to its index."""

from __future__ import annotations

import torch

_device_t = torch.device | str | int | None


def _index(device: _device_t, optional: bool = False) -> int:
    """``None`` and "tpu" are the current device (-1 when optional); another type is an error."""
    if isinstance(device, int):
        return device
    if device is not None:
        device = torch.device(device)
        if device.type != "tpu":
            raise ValueError(f"Expected a tpu device, but got: {device}")
        if device.index is not None:
            return device.index
    return -1 if optional else torch.accelerator.current_device_index()
