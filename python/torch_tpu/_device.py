"""``torch.tpu``: the device module. Nothing here starts the runtime unless its docstring says so."""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import functools
import json
import os
import re
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Any

import torch

from . import _C, memory
from . import _random as random
from ._index import _device_t, _index
from ._modes import (
    Precision,
    eager_mode,
    get_eager_mode,
    precision,
    set_eager_mode,
)
from ._random import (
    default_generators,
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)
from ._stats import (
    _clear_cache,
    _get_cache_stats,
    compile_stats,
    explain,
    explain_sizes,
    fallback_report,
    get_fallback_policy,
    reset_compile_stats,
    reset_fallback_report,
    set_fallback_policy,
    trace_report,
)
from ._streams import Event, Stream, StreamContext, current_stream, default_stream, set_stream, stream
from .memory import (
    _hbm_usage_summary,
    empty_cache,
    get_per_process_memory_fraction,
    host_memory_stats,
    host_memory_stats_as_nested_dict,
    ipc_collect,
    max_memory_allocated,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_reserved,
    memory_snapshot,
    memory_stats,
    memory_stats_as_nested_dict,
    memory_summary,
    reset_accumulated_host_memory_stats,
    reset_accumulated_memory_stats,
    reset_max_memory_allocated,
    reset_max_memory_reserved,
    reset_peak_host_memory_stats,
    reset_peak_memory_stats,
    set_per_process_memory_fraction,
)

# --- runtime ---

_bad_fork = False


def is_available() -> bool:
    """Whether a plugin with a device was found. Cheap: loads nothing, never raises."""
    return _C.device_count() > 0


def device_count() -> int:
    return _C.device_count()


def init() -> None:
    """Starts the runtime now instead of at the first use; says what is missing."""
    _C.open()


def is_initialized() -> bool:
    return _C.is_open() and not _bad_fork


def __getattr__(name: str) -> Any:
    if name == "_initialized":  # torch.utils.checkpoint asks for it before it keeps random states
        return is_initialized()
    raise AttributeError(f"module 'torch.tpu' has no attribute {name!r}")


def _get_generator(device: torch.device) -> torch.Generator:
    """For PyTorch's compiler: the generator that calls on the device draw from."""
    return default_generators[_index(device)]


def _lazy_init() -> None:
    init()


def _is_in_bad_fork() -> bool:
    return _bad_fork


def _register_process_hooks() -> None:
    was_open = False

    def before() -> None:  # the core calls a runtime that it inherited closed
        nonlocal was_open
        was_open = _C.is_open()

    def in_child() -> None:
        global _bad_fork
        _bad_fork = _bad_fork or was_open

    os.register_at_fork(before=before, after_in_child=in_child)
    atexit.register(_shutdown)


def _shutdown() -> None:
    """Waits for compiles that Ctrl-C left behind: what a process runs last would crash under them.

    Another Ctrl-C ends the process as if Python had never caught it: by the signal, which runs nothing more.
    """
    if _C.shutdown():
        return
    for out in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            out.flush()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGINT)
    os._exit(130)  # the signal is blocked


def synchronize(device: _device_t = None) -> None:
    """Waits for all work of the device, recorded or launched, and raises what failed in it."""
    _C.synchronize(_index(device))


# --- current device ---


def current_device() -> int:
    return torch.accelerator.current_device_index()


def set_device(device: _device_t) -> None:
    """Makes ``device`` the current one; a negative index does nothing.

    A process that sees one device only may pass its LOCAL_RANK: launchers give each process a device of its
    own, which is tpu:0 there.
    """
    index = _index(device)
    if index > 0 and device_count() == 1 and os.environ.get("LOCAL_RANK") == str(index):
        index = 0
    if index >= 0:
        torch.accelerator.set_device_index(index)


class device:
    """Context manager that makes a device the current one. ``None`` or a negative index changes nothing."""

    def __init__(self, device: Any):
        self.idx = -1 if device is None else _index(device, optional=True)
        self.prev_idx = -1

    def __enter__(self) -> None:
        self.prev_idx = current_device()
        if self.idx >= 0:
            set_device(self.idx)

    def __exit__(self, *_: Any) -> None:
        if self.idx >= 0:
            torch.accelerator.set_device_index(self.prev_idx)


class device_of(device):
    """The same, with the device of a tensor or storage; one that is not on a tpu changes nothing."""

    def __init__(self, obj: torch.Tensor | torch.UntypedStorage | torch.TypedStorage):
        super().__init__(obj.device.index if obj.device.type == "tpu" else None)


def _exchange_device(index: int) -> int:
    old = current_device()
    if index >= 0:
        torch.accelerator.set_device_index(index)
    return old


_maybe_exchange_device = _exchange_device


def can_device_access_peer(device: _device_t, peer_device: _device_t) -> bool:
    """Devices of one process reach each other's memory through the runtime."""
    return _index(device) != _index(peer_device)


# --- what the device is ---


@dataclasses.dataclass(frozen=True)
class _TpuDeviceProperties:
    name: str
    total_memory: int
    index: int
    kind: str
    platform: str
    platform_version: str
    is_simulated: bool
    multi_processor_count: int = 1


@functools.cache
def _static_info() -> dict[str, Any]:
    init()
    return json.loads(_C.info())


def _info() -> dict[str, Any]:
    """What ``python -m torch_tpu info`` shows, as a dict. Opens nothing."""
    return json.loads(_C.info())


def _name_of(kind: str, platform: str) -> str:
    """The chip as callers compare it: "TPU v6 lite" is "TPU v6e", "TPU v5" "TPU v5p", "TPU7x" "TPU v7"."""
    if platform.lower() == "cpu":
        return "TPU (simulated on CPU)"
    found = re.fullmatch(r"TPU ?v?(\d+)(.*)", kind.strip())
    if not found:
        return kind if kind.startswith("TPU") else f"TPU ({kind})"
    generation, rest = found[1], found[2].strip().lower()
    suffix = {"lite": "e", "x": "", "": "p" if generation == "5" else ""}.get(rest, rest)
    return f"TPU v{generation}{suffix}"


@functools.cache
def _properties(index: int) -> _TpuDeviceProperties:
    info = _static_info()
    _C.device_check(index)
    platform = str(info.get("platform", ""))
    kind = str(info.get("kind", ""))
    return _TpuDeviceProperties(
        name=_name_of(kind, platform),
        total_memory=_C.memory(index)["limit"],
        index=index,
        kind=kind,
        platform=platform,
        platform_version=str(info.get("platform_version", "")),
        is_simulated=platform.lower() == "cpu",
    )


def get_device_properties(device: _device_t = None) -> _TpuDeviceProperties:
    """Starts the runtime."""
    return _properties(_index(device))


def get_device_name(device: _device_t = None) -> str:
    """ "TPU v6e", "TPU v5p", ...; "TPU (simulated on CPU)" on a CPU plugin. Starts the runtime."""
    return get_device_properties(device).name


def get_device_capability(device: _device_t = None) -> tuple[int, int]:
    """(generation, 0); (0, 0) where the device is simulated. Starts the runtime."""
    found = re.match(r"TPU v(\d+)", get_device_name(device))
    return (int(found[1]) if found else 0, 0)


def is_bf16_supported(including_emulation: bool = True) -> bool:
    return True


def get_amp_supported_dtype() -> list[torch.dtype]:
    return [torch.bfloat16, torch.float16]


def get_arch_list() -> list[str]:
    return []


# --- bookkeeping ---


OutOfMemoryError = torch.OutOfMemoryError


def is_current_stream_capturing() -> bool:
    """Nothing captures: there are no graphs of launches."""
    return False


def flush() -> None:
    """Fused mode: launches what is recorded, without waiting."""
    _C.flush()


_sizes_lock = threading.Lock()


@contextlib.contextmanager
def sizes(mode: str) -> Iterator[None]:
    """ "auto" lets programs serve many sizes, "exact" makes one per size (also TORCH_TPU_SIZES)."""
    if mode not in ("auto", "exact"):
        raise ValueError(f'sizes must be "auto" or "exact", got {mode!r}')
    with _sizes_lock:
        old = _C.sizes_auto()
        _C.set_sizes_auto(mode == "auto")
    try:
        yield
    finally:
        _C.set_sizes_auto(old)


__all__ = [
    "Event",
    "OutOfMemoryError",
    "Precision",
    "Stream",
    "StreamContext",
    "_clear_cache",
    "_get_cache_stats",
    "_hbm_usage_summary",
    "can_device_access_peer",
    "compile_stats",
    "current_device",
    "current_stream",
    "default_generators",
    "default_stream",
    "device",
    "device_count",
    "device_of",
    "eager_mode",
    "empty_cache",
    "fallback_report",
    "flush",
    "get_amp_supported_dtype",
    "get_arch_list",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_eager_mode",
    "get_fallback_policy",
    "get_per_process_memory_fraction",
    "get_rng_state",
    "get_rng_state_all",
    "host_memory_stats",
    "host_memory_stats_as_nested_dict",
    "init",
    "initial_seed",
    "ipc_collect",
    "is_available",
    "is_bf16_supported",
    "is_current_stream_capturing",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory",
    "memory_allocated",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_summary",
    "precision",
    "random",
    "reset_accumulated_host_memory_stats",
    "reset_accumulated_memory_stats",
    "reset_compile_stats",
    "reset_fallback_report",
    "reset_max_memory_allocated",
    "reset_max_memory_reserved",
    "reset_peak_host_memory_stats",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_eager_mode",
    "set_fallback_policy",
    "set_per_process_memory_fraction",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "sizes",
    "stream",
    "synchronize",
    "explain",
    "explain_sizes",
    "trace_report",
]
