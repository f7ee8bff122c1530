"""Memory of ``torch.tpu``, with CUDA's key names.

Buffers go back to the plugin as soon as nothing holds them: reserved is allocated, and there is no cache to
empty.
"""

from __future__ import annotations

import collections
import pickle
from typing import Any

from . import _C
from ._index import _device_t, _index

_PINNED = -1  # stands for a device: pinned memory


def _stat(m: dict[str, int], what: str, more: str, less: str) -> dict[str, int]:
    return {
        "current": m[what],
        "peak": m[f"{what}_peak"],
        "allocated": m[f"{more}_total"],
        "freed": m[f"{less}_total"],
    }


def memory_stats_as_nested_dict(device: _device_t = None) -> dict[str, Any]:
    m = _C.memory(_index(device))

    def pools(stat: dict[str, int]) -> dict[str, dict[str, int]]:
        zero = dict.fromkeys(stat, 0)
        return {"all": dict(stat), "large_pool": dict(zero), "small_pool": dict(zero)}

    size, count = _stat(m, "allocated", "allocated", "freed"), _stat(m, "buffers", "buffers", "buffers_freed")
    none = dict.fromkeys(size, 0)
    return {
        "allocation": pools(count),
        "segment": pools(count),
        "active": pools(count),
        "inactive_split": pools(none),
        "allocated_bytes": pools(size),
        "reserved_bytes": pools(size),
        "active_bytes": pools(size),
        "inactive_split_bytes": pools(none),
        "requested_bytes": pools(size),
        "oversize_allocations": {"current": 0, "peak": 0, "allocated": 0, "freed": 0},
        "oversize_segments": {"current": 0, "peak": 0, "allocated": 0, "freed": 0},
        "num_alloc_retries": m["retries"],
        "num_ooms": m["ooms"],
        "num_sync_all_streams": 0,
        "num_device_alloc": m["buffers_total"],
        "num_device_free": m["buffers_freed_total"],
        "max_split_size": -1,
    }


def host_memory_stats_as_nested_dict() -> dict[str, Any]:
    """Pinned memory. What CUDA has beside these, the time that its calls take, is not measured."""
    m = _C.memory(_PINNED)
    size, count = _stat(m, "allocated", "allocated", "freed"), _stat(m, "buffers", "buffers", "buffers_freed")
    return {
        "allocations": count,
        "active_requests": dict(count),
        "allocated_bytes": size,
        "active_bytes": dict(size),
        "num_host_alloc": count["allocated"],
        "num_host_free": count["freed"],
    }


def _flat(nested: dict[str, Any]) -> collections.OrderedDict[str, Any]:
    flat: list[tuple[str, int]] = []

    def walk(prefix: str, value: Any) -> None:
        if isinstance(value, dict):
            for key, inner in value.items():
                walk(f"{prefix}.{key}" if prefix else key, inner)
        else:
            flat.append((prefix, value))

    walk("", nested)
    return collections.OrderedDict(sorted(flat))


def host_memory_stats() -> collections.OrderedDict[str, Any]:
    return _flat(host_memory_stats_as_nested_dict())


def memory_stats(device: _device_t = None) -> collections.OrderedDict[str, Any]:
    return _flat(memory_stats_as_nested_dict(device))


def memory_allocated(device: _device_t = None) -> int:
    """Bytes of the buffers that tensors of the device have.

    A tensor has one from the moment something is written to it: ``torch.empty`` takes none, views and what an
    expanded view repeats share one, and in fused mode a result has its own once its step is launched.
    """
    return _C.memory(_index(device))["allocated"]


def max_memory_allocated(device: _device_t = None) -> int:
    return _C.memory(_index(device))["allocated_peak"]


memory_reserved = memory_allocated
max_memory_reserved = max_memory_allocated


def reset_peak_memory_stats(device: _device_t = None) -> None:
    _C.memory_reset_peak(_index(device))


reset_max_memory_allocated = reset_peak_memory_stats
reset_max_memory_reserved = reset_peak_memory_stats


def reset_accumulated_memory_stats(device: _device_t = None) -> None:
    _C.memory_reset_accumulated(_index(device))


def reset_peak_host_memory_stats() -> None:
    _C.memory_reset_peak(_PINNED)


def reset_accumulated_host_memory_stats() -> None:
    _C.memory_reset_accumulated(_PINNED)


def mem_get_info(device: _device_t = None) -> tuple[int, int]:
    """(free, total) in bytes. Starts the runtime: the limit is the plugin's."""
    _C.open()
    m = _C.memory(_index(device))
    return max(0, m["limit"] - m["allocated"]), m["limit"]


def empty_cache() -> None:
    """Nothing is kept back, so there is nothing to give back."""


def memory_snapshot(device: _device_t = None) -> list[dict[str, Any]]:
    """Segments of a caching allocator, of which there are none: the runtime allocates buffer by buffer."""
    return _snapshot(device)["segments"]


def ipc_collect() -> None:
    """Processes share no device memory with each other, so there is none to collect."""


def set_per_process_memory_fraction(fraction: float, device: _device_t = None) -> None:
    """From here on what would make the process have more than this part of the memory is out of memory."""
    if not isinstance(fraction, float):
        raise TypeError("Invalid type for fraction argument, must be `float`")
    if not 0 <= fraction <= 1:
        raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
    index = _index(device)
    _C.open()
    _C.device_check(index)
    _C.memory_set_fraction(index, fraction)


def get_per_process_memory_fraction(device: _device_t = None) -> float:
    index = _index(device)
    _C.open()
    _C.device_check(index)
    return _C.memory(index)["fraction"]


def memory_summary(device: _device_t = None, abbreviated: bool = False) -> str:
    index = _index(device)
    m = _C.memory(index)
    mib = 1 << 20
    rows = [
        ("allocated", m["allocated"] / mib, m["allocated_peak"] / mib, "MiB"),
        ("buffers", m["buffers"], m["buffers_peak"], ""),
    ]
    if not abbreviated:
        rows.append(
            ("total so far", m["allocated_total"] / mib, m["freed_total"] / mib, "MiB (allocated, freed)")
        )
    lines = [f"tpu:{index}, limit {m['limit'] / mib:.0f} MiB, {m['ooms']} times out of memory"]
    lines += [f"{what:14}{now:14.1f}{peak:14.1f} {unit}".rstrip() for what, now, peak, unit in rows]
    return "\n".join([lines[0], f"{'':14}{'now':>14}{'peak':>14}", *lines[1:]])


def _hbm_usage_summary(device: _device_t = None) -> str:
    return memory_summary(device)


# Profilers ask for a history of allocations. There is none to give; what they write must still be readable.


def _record_memory_history(*args: Any, **kwargs: Any) -> None:
    pass


def _snapshot(device: _device_t = None) -> dict[str, Any]:
    return {"segments": [], "device_traces": [[] for _ in range(_C.device_count())], "allocator_settings": {}}


def _dump_snapshot(filename: str = "dump_snapshot.pickle") -> None:
    with open(filename, "wb") as file:
        pickle.dump(_snapshot(), file)


__all__ = [
    "empty_cache",
    "host_memory_stats",
    "host_memory_stats_as_nested_dict",
    "get_per_process_memory_fraction",
    "ipc_collect",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_summary",
    "reset_accumulated_host_memory_stats",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_max_memory_reserved",
    "reset_peak_host_memory_stats",
    "reset_peak_memory_stats",
    "set_per_process_memory_fraction",
]
