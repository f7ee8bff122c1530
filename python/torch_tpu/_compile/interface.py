"""What Dynamo asks of a device. Imported once PyTorch's compiler is."""

from __future__ import annotations

from typing import Any

import torch
from torch._dynamo import device_interface

from .. import _device


class TpuInterface(device_interface.DeviceInterface):
    """In place of the one that PyTorch has under the same name, which says no to most dtypes and knows no index."""

    Event = _device.Event
    Stream = _device.Stream
    device = _device.device  # type: ignore[assignment]
    current_device = staticmethod(_device.current_device)
    set_device = staticmethod(_device.set_device)
    device_count = staticmethod(_device.device_count)
    is_available = staticmethod(_device.is_available)
    synchronize = staticmethod(_device.synchronize)
    stream = staticmethod(_device.stream)  # type: ignore[assignment]
    current_stream = staticmethod(_device.current_stream)
    set_stream = staticmethod(_device.set_stream)  # type: ignore[assignment]
    memory_allocated = staticmethod(_device.memory_allocated)
    get_device_properties = staticmethod(_device.get_device_properties)

    class Worker:
        set_device = staticmethod(_device.set_device)
        current_device = staticmethod(_device.current_device)
        get_device_properties = staticmethod(_device.get_device_properties)

    @staticmethod
    def exchange_device(device: int) -> int:
        before = _device.current_device()
        _device.set_device(device)
        return before

    @staticmethod
    def maybe_exchange_device(device: int) -> int:
        return TpuInterface.exchange_device(device) if device >= 0 else _device.current_device()

    @staticmethod
    def get_raw_stream(device_idx: int) -> int:
        return 0

    @staticmethod
    def is_bf16_supported(including_emulation: bool = False) -> bool:
        return True

    @classmethod
    def is_dtype_supported(cls, dtype: torch.dtype, including_emulation: bool = False) -> bool:
        return True

    @staticmethod
    def get_compute_capability(device: Any = None) -> str:
        return ""

    @staticmethod
    def is_triton_capable(device: Any = None) -> bool:
        return False


def register() -> None:
    if not device_interface._device_initialized:
        device_interface.init_device_reg()  # else it would put its own in our place at the first question
    device_interface.register_interface_for_device("tpu", TpuInterface)
    for i in range(_device.device_count()):
        device_interface.register_interface_for_device(f"tpu:{i}", TpuInterface)
