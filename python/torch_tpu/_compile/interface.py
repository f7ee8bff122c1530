"""What Dynamo asks of a device."""

from __future__ import annotations

from typing import Any

import torch


def register(module: Any) -> None:
    """Puts ours in place of the one that PyTorch has under the same name, which says no to most dtypes and knows no index."""
    from .. import _device

    class TpuInterface(module.DeviceInterface):  # type: ignore[name-defined, misc]
        Event = _device.Event
        Stream = _device.Stream
        device = _device.device
        current_device = staticmethod(_device.current_device)
        set_device = staticmethod(_device.set_device)
        device_count = staticmethod(_device.device_count)
        is_available = staticmethod(_device.is_available)
        synchronize = staticmethod(_device.synchronize)
        stream = staticmethod(_device.stream)
        current_stream = staticmethod(_device.current_stream)
        set_stream = staticmethod(_device.set_stream)
        memory_allocated = staticmethod(_device.memory_allocated)

        class Worker:
            @staticmethod
            def set_device(device: int) -> None:
                _device.set_device(device)

            @staticmethod
            def current_device() -> int:
                return _device.current_device()

            @staticmethod
            def get_device_properties(device: Any = None) -> Any:
                return _device.get_device_properties(device)

        @staticmethod
        def get_device_properties(device: Any = None) -> Any:
            return _device.get_device_properties(device)

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

    init = getattr(module, "init_device_reg", None)
    if init is not None and not module._device_initialized:
        init()
    module.register_interface_for_device("tpu", TpuInterface)
    for i in range(_device.device_count()):
        module.register_interface_for_device(f"tpu:{i}", TpuInterface)
