"""Rate-limited warnings about void records: of each kind at most one per replica every 5 s."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from typing import Final

from log_tier.model.identifiers import Offset
from serving_tier.fold.misfits import FirstMisfit

__all__ = ["VoidWarnings"]

logger = logging.getLogger(__name__)

# A producer that writes nothing but void records must not fill the disk by way of our log.
_PAUSE_S: Final = 5.0


class VoidWarnings:
    """Counts the void records of one replica. `clock`: monotonic seconds."""

    def __init__(self, name: str, count: int, *, clock: Callable[[], float]) -> None:
        self.count = count
        """Void records so far, of either kind."""
        self._name = name
        self._unreadable, self._misfits = _Unreported(clock), _Unreported(clock)

    def note(
        self, count: int, first: Offset, last: Offset, *, misfits: int = 0, first_misfit: FirstMisfit | None = None
    ) -> None:
        """Count void records between two offsets. `misfits` of them do not fit the table's definition; the others are
        nothing that a table can hold.
        """
        self.count += count
        if count > misfits and (due := self._unreadable.note(count - misfits, first)) is not None:
            logger.warning(
                "%s: no table can hold %s of the records at offsets %s to %s, which others wrote; they are skipped, on "
                "every replica alike, %s so far",
                self._name,
                *due,
                last,
                self.count,
            )
        if first_misfit is not None and (due := self._misfits.note(misfits, first)) is not None:
            logger.warning(
                "%s: %s of the records at offsets %s to %s do not fit the table's definition; the one at offset %s: "
                "%s. They are skipped, on every replica alike, %s so far: have their writer send what the table's "
                "schema says, or write through Duramen, which refuses them",
                self._name,
                *due,
                last,
                first_misfit.offset,
                first_misfit.why,
                self.count,
            )


class _Unreported:
    """Records that no warning has counted yet."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._count = 0
        self._first: Offset | None = None
        self._reported_s = -math.inf

    def note(self, count: int, first: Offset) -> tuple[int, Offset] | None:
        """Count some more; where a warning is due, how many it is about, and from which offset on."""
        self._count += count
        self._first = first if self._first is None else self._first
        now_s = self._clock()
        if now_s < self._reported_s + _PAUSE_S:
            return None
        due = self._count, self._first
        self._count, self._first, self._reported_s = 0, None, now_s
        return due
