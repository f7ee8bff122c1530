"""What PyTorch's compiler learns of the device, at the moment it is first imported: that takes seconds, and most programs never do."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any


def _device_interface(_: ModuleType) -> None:
    from . import interface

    interface.register()


def _inductor_loaded(_: ModuleType) -> None:
    from torch._inductor.codegen.common import init_backend_registration

    init_backend_registration()  # before ours: it has an entry of its own for the name
    from . import inductor

    inductor.register()


def _artifacts(module: ModuleType) -> None:
    from . import artifacts

    artifacts.register()


_HOOKS: dict[str, Callable[[ModuleType], None]] = {
    "torch._dynamo.device_interface": _device_interface,
    "torch._inductor.compile_fx": _inductor_loaded,
    "torch.compiler._cache": _artifacts,
}


class _Loader(importlib.abc.Loader):
    """The module's own loader, and then the hook."""

    def __init__(self, loader: Any, hook: Callable[[ModuleType], None]):
        self._loader, self._hook = loader, hook

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        self._hook(module)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        hook = _HOOKS.pop(fullname, None)
        if hook is None:
            return None
        if not _HOOKS:
            sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, hook)
        return spec


def install() -> None:
    """Called when the device is registered; imports nothing of the compiler."""
    for name in [n for n in _HOOKS if n in sys.modules]:
        _HOOKS.pop(name)(sys.modules[name])
    if _HOOKS:
        sys.meta_path.insert(0, _Finder())
