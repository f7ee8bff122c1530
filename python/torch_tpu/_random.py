"""Random state of ``torch.tpu``: 16 bytes a device, seed and offset of a Philox stream."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import torch

from . import _C
from ._index import _device_t, _index


def _generator(index: int) -> torch.Generator:
    """The generator that ops on this device draw from when none is given."""
    return torch.ops.tpu.default_generator(index)


class _DefaultGenerators(Sequence):
    """``torch.tpu.default_generators``: a view, since the devices are not known before the first use."""

    def __len__(self) -> int:
        return _C.device_count()

    def __getitem__(self, index):  # type: ignore[no-untyped-def, override]
        if isinstance(index, slice):
            return tuple(_generator(i) for i in range(*index.indices(len(self))))
        if not -len(self) <= index < len(self):
            raise IndexError(f"device index {index} is out of range: there are {len(self)} tpu devices")
        return _generator(index % len(self))

    def __iter__(self) -> Iterator[torch.Generator]:
        return (_generator(i) for i in range(len(self)))


default_generators = _DefaultGenerators()


def get_rng_state(device: _device_t = "tpu") -> torch.Tensor:
    return _generator(_index(device)).get_state()


def get_rng_state_all() -> list[torch.Tensor]:
    return [g.get_state() for g in default_generators]


def set_rng_state(new_state: torch.Tensor, device: _device_t = "tpu") -> None:
    _generator(_index(device)).set_state(new_state)


def set_rng_state_all(new_states: Iterable[torch.Tensor]) -> None:
    for i, state in enumerate(new_states):
        set_rng_state(state, i)


def manual_seed(seed: int) -> None:
    """Seeds the current device."""
    _generator(_index(None)).manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    for generator in default_generators:
        generator.manual_seed(int(seed))


def seed() -> int:
    """A random seed for the current device; returns it."""
    return _generator(_index(None)).seed()


def seed_all() -> None:
    """One random seed for all devices."""
    value: int | None = None
    for generator in default_generators:
        if value is None:
            value = generator.seed()
        else:
            generator.manual_seed(value)


def initial_seed() -> int:
    return _generator(_index(None)).initial_seed()
