"""An older public name that callers still use."""

from __future__ import annotations

import torch


def tpu_device(index: int | None = None) -> torch.device:
    return torch.device("tpu") if index is None else torch.device("tpu", index)
