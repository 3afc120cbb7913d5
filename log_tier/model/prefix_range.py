"""The range of the keys that begin with a prefix. Pure."""

from __future__ import annotations

__all__ = ["prefix_range"]


def prefix_range(prefix: bytes) -> tuple[bytes, bytes | None]:
    """The range of the keys that begin with `prefix`: start inclusive, end exclusive (None: to the last key).

    >>> prefix_range(b"ab"), prefix_range(b"a\\xff"), prefix_range(b"\\xff"), prefix_range(b"")
    ((b'ab', b'ac'), (b'a\\xff', b'b'), (b'\\xff', None), (b'', None))
    """
    stem = prefix.rstrip(b"\xff")
    return prefix, stem[:-1] + bytes([stem[-1] + 1]) if stem else None
