"""Listeners to a replica: its one owner, and observers, objects that keep something of what the index holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from log_tier.model.batch import Batch
from serving_tier.index.lmdb.lmdb_index import LmdbIndex

__all__ = ["ReplicaEvent", "ReplicaObserver"]

ReplicaEvent = Literal["damaged", "stopped", "version_missing", "switched"]
"""What a replica's owner hears: the index turned out damaged, or something else stopped the replica (`failure` says
what), but not the end of its table or of its log; it waits at a barrier for a version that is not here; another version
is live, and all versions have passed the barrier."""


class ReplicaObserver(Protocol):
    """Keeps something of what a replica's index holds. Both methods are called on the event loop and return at once."""

    def replica_applied(self, index: LmdbIndex, batches: Sequence[Batch]) -> None:
        """`index`, the live one, has just applied these batches. Nobody who waits for them was woken yet."""
        ...

    def replica_left(self) -> None:
        """The index that was read until now is not the live one any more, or must not be read any more: another
        version is live, the replica stopped, it was closed. Nobody else has heard of it yet.
        """
        ...
