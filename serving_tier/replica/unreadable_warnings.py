"""Rate-limited warnings about unreadable foreign records: at most one per replica every 5 s."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from typing import Final

from log_tier.model.identifiers import Offset

__all__ = ["UnreadableWarnings"]

logger = logging.getLogger(__name__)

# A producer that writes nothing but void records must not fill the disk by way of our log.
_PAUSE_S: Final = 5.0


class UnreadableWarnings:
    """Counts the void records of one replica. `clock`: monotonic seconds."""

    def __init__(self, name: str, count: int, *, clock: Callable[[], float]) -> None:
        self.count = count
        """So far."""
        self._name, self._clock = name, clock
        self._told = count
        self._told_s = -math.inf
        self._untold: Offset | None = None
        """The first offset that no warning has named yet."""

    def note(self, count: int, first: Offset, last: Offset) -> None:
        """So many more lie between two offsets."""
        self.count += count
        if self._untold is None:
            self._untold = first
        now_s = self._clock()
        if now_s < self._told_s + _PAUSE_S:
            return
        logger.warning(
            "%s: no table can hold %s of the records at offsets %s to %s, which others wrote; they are skipped, on "
            "every replica alike, %s so far",
            self._name,
            self.count - self._told,
            self._untold,
            last,
            self.count,
        )
        self._told, self._told_s, self._untold = self.count, now_s, None
