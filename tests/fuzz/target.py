"""A parser, its samples, and the errors by which it may refuse."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fuzz.changes import changed_sample
from fuzz.growth import GROWN_BYTES, grown
from log_tier.model.errors import DuramenError

__all__ = ["Target"]


@dataclass(frozen=True)
class Target:
    """One parser. `samples` and `read` are called in the process that fuzzes."""

    name: str
    samples: Callable[[], Sequence[bytes]]
    """What the format looks like; at least one is accepted."""
    read: Callable[[bytes], object]
    """Parses the bytes. It raises an error of `refusals` to refuse them, and any other for a broken promise."""
    refusals: tuple[type[Exception], ...] = (DuramenError,)
    change: Callable[[Sequence[bytes], random.Random], bytes] = changed_sample
    """Makes an input of the samples."""
    quick_inputs: int = 2000
    """How many inputs each change of the repository reads: fewer where one takes a millisecond."""
    grow: Callable[[Sequence[bytes], random.Random, int], bytes] | None = None
    """Makes a long input; None: a changed sample that grows."""
    grown_bytes_max: int = GROWN_BYTES[1]
    """Shorter where a parser is a server that answers what it reads: what it does for an input is then what it takes to
    answer so many requests.
    """
    seal: Callable[[bytes], bytes] | None = None
    """Makes the checksums of changed bytes right; None: they stay as they are."""

    def small_input(self, samples: Sequence[bytes], chance: random.Random) -> bytes:
        """A sample with some changes."""
        return self._sealed(self.change(samples, chance))

    def grown_input(self, samples: Sequence[bytes], chance: random.Random) -> bytes:
        """A sample that has grown to some kilobytes."""
        if self.grow is not None:
            return self._sealed(self.grow(samples, chance, self.grown_bytes_max))
        return self._sealed(grown(self.change, samples, chance, self.grown_bytes_max))

    def _sealed(self, data: bytes) -> bytes:
        return data if self.seal is None else self.seal(data)
