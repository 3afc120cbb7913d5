"""The bytes of many rows, one behind the other, and what is read of all of them at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from log_tier.rows.avro.varints import Misfit, long_value

__all__ = ["Places", "RowBytes"]

Places = NDArray[np.int64]
"""For each row, a place in the bytes of all."""

_PADDING: Final = bytes(8)
"""Behind the last row, as eight bytes are read at once."""
_TOPS: Final = np.uint64(0x8080808080808080)
"""The bits that say whether an integer goes on."""
_ONE: Final = np.uint64(1)
_SQUEEZES: Final = tuple(
    (np.uint64(low), np.uint64(high), np.uint64(bits))
    for low, high, bits in (
        (0x007F007F007F007F, 0x7F007F007F007F00, 1),
        (0x00003FFF00003FFF, 0x3FFF00003FFF0000, 2),
        (0x000000000FFFFFFF, 0x0FFFFFFF00000000, 4),
    )
)
"""Pieces of 7 bits become such of 14, of 28, and one of 56."""
_SURE_BYTES: Final = 8


class RowBytes:
    """Rows as one buffer. Every method takes places and returns what is there. O(rows)."""

    def __init__(self, values: Sequence[bytes]) -> None:
        self.raw = b"".join((*values, _PADDING))
        self.data: NDArray[np.uint8] = np.frombuffer(self.raw, np.uint8)
        sizes = np.fromiter(map(len, values), np.int64, len(values))
        self.ends: Places = np.cumsum(sizes)
        self.starts: Places = self.ends - sizes
        self.size = len(self.raw) - len(_PADDING)
        self._words: NDArray[np.uint64] = np.ndarray((self.size + 1,), "<u8", self.raw, 0, (1,))

    def words(self, at: Places) -> NDArray[np.uint64]:
        """Eight bytes at each place. Raises `Misfit` for places behind the end."""
        try:
            return self._words.take(at)
        except IndexError:
            raise Misfit("a value ends before its end") from None

    def longs(self, at: Places) -> tuple[NDArray[np.int64], Places]:
        """An integer at each place, and where it ends. Some 17 ns each."""
        word = self.words(at)
        last = ~word & _TOPS
        last &= ~last + _ONE  # the lowest bit alone: of the byte that ends it
        mask = last ^ (last - _ONE)
        word &= mask
        for low, high, bits in _SQUEEZES:
            word = (word & low) | ((word & high) >> bits)
        ends = at + (np.bitwise_count(mask) >> 3)
        for place in np.flatnonzero(last == 0):
            value, ends[place] = long_value(self.raw, self.raw[at[place]], int(at[place]) + 1)
            word[place] = value
        return ((word >> _ONE) ^ (~(word & _ONE) + _ONE)).view(np.int64), ends

    def sizes(self, at: Places) -> tuple[Places, Places]:
        """A length at each place, and where its bytes begin. Raises `Misfit` for more than there are bytes."""
        sizes, begins = self.longs(at)
        if len(sizes) and (sizes.min() < 0 or sizes.max() > self.size or sizes.sum() > self.size):
            raise Misfit("a length is beyond the value")
        return sizes, begins

    def parts(self, begins: Places, sizes: Places) -> tuple[NDArray[np.uint8], NDArray[np.int32]]:
        """So many bytes from each place on, one part behind the other, and where each begins: one place more than
        there are parts. O(their size).
        """
        ends = np.cumsum(sizes)
        total = int(ends[-1]) if len(ends) else 0
        offsets = np.zeros(len(sizes) + 1, np.int32)
        offsets[1:] = ends
        if total and (begins + sizes).max() > self.size:
            raise Misfit("a text ends before its end")
        index = np.repeat(begins - offsets[:-1], sizes)
        index += np.arange(total)
        return self.data.take(index), offsets

    def fixed(self, at: Places, size: int) -> NDArray[np.uint8]:
        """So many bytes at each place, as a matrix."""
        if size and len(at) and at.max() + size > self.size:
            raise Misfit("a value ends before its end")
        found: Any = self.data.take(at[:, None] + np.arange(size))
        return found  # type: ignore[no-any-return]
