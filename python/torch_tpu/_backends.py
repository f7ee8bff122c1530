"""``torch.backends.tpu``: switches of the backend. There with or without a device."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
import types
from collections.abc import Iterator

PRECISIONS = ("default", "high", "highest")


class TpuBackendModule(types.ModuleType):
    """A module, as all of ``torch.backends`` are, with properties, because its switches have effects."""

    _matmul_precision = "highest"

    @property
    def matmul_precision(self) -> str:
        """Passes of a float32 matrix product: "default" (one bfloat16 pass), "high" (three), "highest" (six).

        ``torch.set_float32_matmul_precision`` says the same for all devices; the lower of the two wins.
        A CPU plugin always computes in float32.
        """
        return self._matmul_precision

    @matmul_precision.setter
    def matmul_precision(self, value: str) -> None:
        if value not in PRECISIONS:
            raise ValueError(f"matmul_precision must be one of {PRECISIONS}, got {value!r}")
        from . import _C

        _C.set_matmul_precision(PRECISIONS.index(value))
        self._matmul_precision = value

    @property
    def allow_excess_precision(self) -> bool:
        """Whether the compiler may keep more digits than a dtype has between fused operations.

        True, and fixed when the runtime starts: XLA_FLAGS=--xla_allow_excess_precision=false turns it off.
        """
        import os

        off = {"--xla_allow_excess_precision=false", "--xla_allow_excess_precision=0"}
        return off.isdisjoint(os.environ.get("XLA_FLAGS", "").split())

    @allow_excess_precision.setter
    def allow_excess_precision(self, value: bool) -> None:
        if bool(value) != self.allow_excess_precision:
            raise RuntimeError(
                "allow_excess_precision is fixed when the process starts: set "
                f"XLA_FLAGS=--xla_allow_excess_precision={str(bool(value)).lower()} before importing torch"
            )

    @contextlib.contextmanager
    def flags(self, matmul_precision: str | None = None) -> Iterator[None]:
        old = self.matmul_precision
        if matmul_precision is not None:
            self.matmul_precision = matmul_precision
        try:
            yield
        finally:
            self.matmul_precision = old

    @staticmethod
    def is_built() -> bool:
        return importlib.util.find_spec("torch_tpu._C") is not None

    @staticmethod
    def is_available() -> bool:
        import torch

        return hasattr(torch, "tpu") and torch.tpu.is_available()

    @staticmethod
    def version() -> str:
        from ._loader import version

        return version()


_module = TpuBackendModule("torch.backends.tpu", TpuBackendModule.__doc__)


def install() -> None:
    import torch

    sys.modules.setdefault("torch.backends.tpu", _module)
    torch.backends.tpu = sys.modules["torch.backends.tpu"]  # type: ignore[attr-defined]


install()
