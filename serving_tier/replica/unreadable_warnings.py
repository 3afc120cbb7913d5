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
        """Void records so far."""
        self._name, self._clock = name, clock
        self._reported = count
        self._reported_s = -math.inf
        self._unreported: Offset | None = None
        """The first offset that no warning has named yet."""

    def note(self, count: int, first: Offset, last: Offset) -> None:
        """Count unreadable records between two offsets."""
        self.count += count
        if self._unreported is None:
            self._unreported = first
        now_s = self._clock()
        if now_s < self._reported_s + _PAUSE_S:
            return
        logger.warning(
            "%s: no table can hold %s of the records at offsets %s to %s, which others wrote; they are skipped, on "
            "every replica alike, %s so far",
            self._name,
            self.count - self._reported,
            self._unreported,
            last,
            self.count,
        )
        self._reported, self._reported_s, self._unreported = self.count, now_s, None
