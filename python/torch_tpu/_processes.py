"""Tensors sent to other processes, by a queue or as arguments of a new process: copied there, to the device of
the same index. What one process writes the other does not see: PJRT shares no device memory."""

from __future__ import annotations

import pickle
from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch
from torch.multiprocessing import reductions


def _reduce(tensor: torch.Tensor) -> tuple[Any, ...]:
    if tensor.device.type != "tpu" or not tensor.is_leaf:  # torch refuses what has a history
        return reductions.reduce_tensor(tensor)
    return pickle.loads, (pickle.dumps(tensor, pickle.HIGHEST_PROTOCOL),)


def install() -> None:
    for kind in (torch.Tensor, torch.nn.Parameter):
        ForkingPickler.register(kind, _reduce)
