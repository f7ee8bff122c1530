"""Streams and events of ``torch.tpu``. A device works in order, so a stream is an identity and no queue."""

from __future__ import annotations

from typing import Any

import torch

from ._index import _device_t, _index


class Stream(torch.Stream):
    """A stream of a device. All streams of a device run in program order."""

    def __new__(cls, device: _device_t = None, priority: int = 0, **kwargs: Any) -> Stream:
        if "stream_id" in kwargs:  # an existing stream
            return super().__new__(cls, **kwargs)
        return super().__new__(cls, device=f"tpu:{_index(device)}", priority=priority)

    def record_event(self, event: torch.Event | None = None) -> torch.Event:
        event = Event(device=self.device) if event is None else event
        event.record(self)
        return event

    def wait_stream(self, stream: torch.Stream) -> None:
        """In order already."""

    def __repr__(self) -> str:
        return f"torch.tpu.Stream(device={self.device}, stream_id={self.stream_id})"


class Event(torch.Event):
    """A point in a device's work; ``elapsed_time`` between two gives milliseconds.

    PyTorch compares times of its own exact class only, so the recorded event is one of those, inside.
    """

    _event: torch.Event

    def __new__(
        cls,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
        device: _device_t = None,
    ) -> Event:
        if interprocess:
            raise NotImplementedError("tpu events cannot be shared between processes")
        where = f"tpu:{_index(device)}"
        event = super().__new__(cls, device=where, enable_timing=enable_timing, blocking=blocking)
        event._event = torch.Event(device=where, enable_timing=enable_timing, blocking=blocking)
        return event

    def record(self, stream: torch.Stream | None = None) -> None:
        self._event.record(stream)

    def wait(self, stream: torch.Stream | None = None) -> None:
        self._event.wait(stream)

    def query(self) -> bool:
        return self._event.query()

    def synchronize(self) -> None:
        self._event.synchronize()

    def elapsed_time(self, other: torch.Event) -> float:
        return self._event.elapsed_time(getattr(other, "_event", other))

    @property
    def event_id(self) -> int:  # type: ignore[override]
        return self._event.event_id

    def __repr__(self) -> str:
        return f"torch.tpu.Event(device={self.device}, recorded={bool(self.event_id)})"


def _ours(stream: torch.Stream) -> Stream:
    return Stream(
        stream_id=stream.stream_id, device_index=stream.device_index, device_type=stream.device_type
    )


def current_stream(device: _device_t = None) -> Stream:
    return _ours(torch.accelerator.current_stream(_index(device)))


def default_stream(device: _device_t = None) -> Stream:
    here = torch.accelerator.current_stream(_index(device))
    return Stream(stream_id=0, device_index=here.device_index, device_type=here.device_type)


def set_stream(stream: torch.Stream | None) -> None:
    if stream is not None:
        torch.accelerator.set_stream(stream)


class StreamContext:
    """Makes a stream (and its device) the current one; ``None`` changes nothing."""

    def __init__(self, stream: torch.Stream | None):
        self.stream = stream

    def __enter__(self) -> torch.Stream | None:
        if self.stream is not None:
            self.stream.__enter__()
        return self.stream

    def __exit__(self, *exc: Any) -> None:
        if self.stream is not None:
            self.stream.__exit__(*exc)


def stream(stream: torch.Stream | None) -> StreamContext:
    return StreamContext(stream)
