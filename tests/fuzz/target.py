"""A parser, its samples, and the errors by which it may refuse."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fuzz.changes import changed_sample
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
    seal: Callable[[bytes], bytes] | None = None
    """Makes the checksums of changed bytes right; None: they stay as they are."""
