"""What all partitions of one log share."""

from __future__ import annotations

from typing import NamedTuple

from log_tier.embedded.segments.open_files import OpenFiles
from log_tier.embedded.segments.settling import Settling
from log_tier.embedded.segments.tail_cache import TailMemory
from log_tier.embedded.storage.disk import Disk
from log_tier.embedded.storage.settings import EngineSettings
from log_tier.model.moves import MoveFeed
from log_tier.tracing.written import WrittenTraces

__all__ = ["LogResources"]


class LogResources(NamedTuple):
    """The disk and the bounds under which a log's partitions use it."""

    disk: Disk
    settings: EngineSettings
    memory: TailMemory
    """For the newest batches of all partitions."""
    files: OpenFiles
    """Which partitions have their newest segment open."""
    moves: MoveFeed
    """Which partitions have new records, or a new state."""
    settling: Settling
    """What the journal still has to bring into the segments."""
    traced: WrittenTraces
    """Who wrote the newest batches, where somebody traces."""
