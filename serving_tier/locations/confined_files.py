"""Local files below some folders and nowhere else, whatever symbolic links say."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from fsspec.implementations.local import LocalFileSystem

from serving_tier.locations.allowed import refused

__all__ = ["ConfinedFiles", "resolved_below"]


def resolved_below(path: str, roots: Sequence[str]) -> str:
    """`path` with its symbolic links followed. Raises `LocationRefused` where that is not below one of `roots`, whose
    own links are followed too. A few `lstat` for each segment.
    """
    real = os.path.realpath(path)
    if not any(os.path.commonpath((real, root)) == root for root in map(os.path.realpath, roots)):
        raise refused(path, "a symbolic link leads out of the folders that this server was configured to open")
    return real


class ConfinedFiles(LocalFileSystem):  # type: ignore[misc]  # fsspec has no types
    """fsspec's local files, for reading. Every file is compared with the roots when it is opened: by its path before,
    and once more by its inode, so that a link which was put there in between is found.
    """

    cachable = False
    """fsspec keeps one object for equal arguments; this one is its store's own."""

    def __init__(self, roots: Sequence[str]) -> None:
        super().__init__(auto_mkdir=False)
        self._roots = tuple(roots)

    def _open(self, path: str, mode: str = "rb", block_size: int | None = None, **kwargs: Any) -> Any:
        real = resolved_below(path, self._roots)
        opened = super()._open(real, mode=mode, block_size=block_size, **kwargs)
        try:
            if not os.path.samestat(os.fstat(opened.fileno()), os.lstat(resolved_below(real, self._roots))):
                raise refused(path, "it was replaced while it was opened")
        except BaseException:
            opened.close()
            raise
        return opened
