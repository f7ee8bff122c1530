"""What the hardware is, under upstream's names."""

from __future__ import annotations

import torch


def get_tpu_device_name() -> str:
    return torch.tpu.get_device_name()  # type: ignore[attr-defined]


def get_tpu_topology(world_size: int | None = None) -> tuple[int, ...]:
    """Chips along each axis, as far as one process knows: a line of ``world_size`` (or its own devices)."""
    return (world_size or torch.tpu.device_count(), 1, 1)  # type: ignore[attr-defined]
