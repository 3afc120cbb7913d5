"""What waits for a commit: the batches of one call."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from log_tier.embedded.segments.partition_log import PartitionLog
from log_tier.model.errors import DuramenError
from log_tier.model.log import Appended
from log_tier.tracing.span import Span

__all__ = ["Append", "CheckedBatch", "Results"]

CheckedBatch = tuple[PartitionLog, bytes, int]
"""A checked batch: its partition, its bytes, its span."""
Results = list[Appended | DuramenError]
"""The outcomes of the batches of one call, in their order."""


class Append(NamedTuple):
    """The batches of one call. All of them are in one commit."""

    batches: Sequence[CheckedBatch]
    size: int
    future: asyncio.Future[Results]
    callers: tuple[Span, ...] = ()
    """Those of its callers that are traced; nearly always none."""
    came_s: float = 0.0
    """When it came, by the stopwatch, if a caller is traced."""
