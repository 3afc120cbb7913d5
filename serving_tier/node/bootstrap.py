"""Bringing a replica up: the source of its content, and its progress."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from log_tier.concurrency.threads import Progress
from log_tier.model.identifiers import PartitionId
from log_tier.model.log import Topic

__all__ = ["Bootstrap", "PendingReplica", "replay_only"]

Bootstrap = Callable[[Topic, PartitionId, Path, str, Progress], Awaitable[str]]
"""Fills a folder that does not exist with an index's files, or leaves it missing: then the log is replayed from its
beginning. Gets the wanted source (auto, snapshot, peer, log) and a callable for progress (phase, done, total bytes);
returns where the content came from, for people. Raises what kept it, `OffsetTrimmed` where there is no way at all."""


@dataclass(slots=True)
class PendingReplica:
    """A replica that is being brought up."""

    topic: Topic
    partition: PartitionId
    phase: str = "opening"
    done: int = 0
    total: int = 0
    trouble: str = ""
    """Why the last try failed."""

    def progress(self, phase: str, done: int, total: int) -> None:
        """Note the phase, and how much of it is done; in bytes, if the phase moves bytes."""
        self.phase, self.done, self.total = phase, done, total


async def replay_only(topic: Topic, partition: PartitionId, folder: Path, source: str, progress: Progress) -> str:
    """The `Bootstrap` of a node that has neither snapshots nor peers."""
    return "log"
