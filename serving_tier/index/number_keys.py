"""Numbers as keys: eight bytes, big-endian, so an index has them in their order. Pure."""

from __future__ import annotations

import struct
from typing import Final

__all__ = ["number_key", "number_of"]

_KEY: Final = struct.Struct(">Q")

number_key = _KEY.pack
"""An offset, a time or a producer's id as a key. Raises `struct.error` for a negative number."""


def number_of(key: bytes) -> int:
    """The number that a key encodes."""
    return int(_KEY.unpack(key)[0])
