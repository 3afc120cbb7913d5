"""Ranges of keys. Pure."""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["ALL_KEYS", "KeyRange"]


class KeyRange(NamedTuple):
    """Keys from `start` up to, and without, `end`; None: no end."""

    start: bytes = b""
    end: bytes | None = None

    @property
    def is_all(self) -> bool:
        """Does it hold every key?"""
        return not self.start and self.end is None

    @property
    def is_empty(self) -> bool:
        """Can no key be in it?"""
        return self.end is not None and self.start >= self.end

    @property
    def single(self) -> bytes | None:
        """The one key that it can hold, if it is one."""
        return self.start if self.start and self.end == self.start + b"\x00" else None


ALL_KEYS: Final = KeyRange()
