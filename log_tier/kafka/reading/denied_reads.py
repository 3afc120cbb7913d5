"""The partitions that Kafka denies to our readers now. Readers try again and again, so a denial that is not repeated is
over.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from copy import copy
from typing import Final

from log_tier.concurrency.clocks import SYSTEM_CLOCK
from log_tier.model.errors import AccessDenied
from log_tier.model.identifiers import PartitionId

__all__ = ["DeniedReads"]

_logger = logging.getLogger(__name__)

# Readers pause for a second at most between two tries.
_REPEATED_WITHIN_S: Final = 3.0


class DeniedReads:
    """The newest denial of each partition. Callable from any thread."""

    def __init__(self, clock: Callable[[], float] = SYSTEM_CLOCK.monotonic_s) -> None:
        self._clock = clock
        self._denials: dict[PartitionId, tuple[AccessDenied, float]] = {}

    def note(self, partition: PartitionId, denial: AccessDenied) -> None:
        """Kafka has denied a try. Logs it, unless it is a repetition."""
        if self.reason(partition) is None:
            _logger.warning("%s; its readers wait", denial)
        self._denials[partition] = (denial, self._clock())

    def over(self, partition: PartitionId) -> None:
        """A try has had another result."""
        self._denials.pop(partition, None)

    def reason(self, partition: PartitionId) -> AccessDenied | None:
        """The error for who wants to read to the partition's end now; None: try it. O(1)."""
        denial, noted_s = self._denials.get(partition, (None, 0.0))
        if denial is None or self._clock() - noted_s > _REPEATED_WITHIN_S:
            return None
        return copy(denial)
