"""The names that gRPC reflection knows: the process's pool of descriptors, methods included.

`grpcurl describe duramen.v1.KV.Put` asks for the file that contains a method. The pool of protobuf's C library finds
files by services, messages, fields and enums, and not by methods; the pools of other languages find them by both.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pool
from google.protobuf.descriptor import FileDescriptor

__all__ = ["ReflectedNames"]


class ReflectedNames:
    """A `DescriptorPool` for gRPC's reflection service."""

    def __init__(self) -> None:
        self._pool: Any = descriptor_pool.Default()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pool, name)

    def FindFileContainingSymbol(self, symbol: str) -> FileDescriptor:  # noqa: N802
        """The file that declares `symbol`, a full name. Raises `KeyError` where none does."""
        try:
            found: FileDescriptor = self._pool.FindFileContainingSymbol(symbol)
        except KeyError:
            found = self._pool.FindMethodByName(symbol).containing_service.file
        return found
