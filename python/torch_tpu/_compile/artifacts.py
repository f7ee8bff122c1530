"""Programs of graphs among what ``torch.compiler.save_cache_artifacts()`` carries to another process or host.

An artifact is an entry of the program cache (core/step/cache.c) under the name of its file. It is noted when a graph was recorded, and
read from disk when somebody saves: what nobody saves costs nothing. Loading puts it into the host's cache, where compiling finds it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from torch.compiler._cache import CacheArtifact, CacheArtifactFactory, CacheArtifactManager

from .. import _C

log = logging.getLogger("torch_tpu.compile")


class ProgramArtifact(CacheArtifact):
    def __init__(self, key: str, content: bytes):
        object.__setattr__(self, "key", key)
        object.__setattr__(self, "_content", content)

    @property
    def content(self) -> bytes:  # type: ignore[override]
        """Empty when the entry is gone from the disk, or never was there."""
        return self._content or _C.cache_export(self.key) or b""  # type: ignore[attr-defined]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ProgramArtifact) and self.key == other.key

    def __hash__(self) -> int:
        return hash((ProgramArtifact, self.key))

    def populate_cache(self) -> None:
        content = self.content
        if content and not _C.cache_import(content):
            log.warning("program %s among the cache artifacts is damaged, or of another version", self.key)

    @staticmethod
    def type() -> str:
        return "tpu_program"


def register() -> None:
    if ProgramArtifact.type() not in CacheArtifactFactory._artifact_types:
        CacheArtifactFactory.register(ProgramArtifact)


def note(files: Iterable[str]) -> None:
    for file in files:
        CacheArtifactManager.record_artifact(ProgramArtifact.type(), file, b"")
