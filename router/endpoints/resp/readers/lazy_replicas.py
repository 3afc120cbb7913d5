"""The indexes of a table in a reader process: each is opened when a key of its partition is read, few in a turn.

To open an index takes up to 1 ms, and a table may have 1,024 of them. A read that would open more than its turn of the
event loop has time for goes to the server, and the next read opens some more.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import overload

from log_tier.model.errors import DuramenError
from log_tier.model.identifiers import PartitionId
from log_tier.model.table_ref import TableRef
from router.endpoints.resp.data.openings import Openings
from serving_tier.index.lmdb.shared_reader import IndexReader

__all__ = ["LazyReplicas", "SeenReplica"]


class SeenReplica:
    """An index that can be read."""

    __slots__ = ("failure", "index")

    def __init__(self, index: IndexReader) -> None:
        self.index = index
        self.failure: DuramenError | None = None


class LazyReplicas(Sequence[SeenReplica | None]):
    """The replicas of a table by partition; None where the server has to answer."""

    def __init__(self, ref: TableRef, folders: Sequence[str | None], openings: Openings) -> None:
        """`folders`: of the indexes, by partition; None where there is none that may be read."""
        self._ref = ref
        self._folders = list(folders)
        self._openings = openings
        self.opened: list[SeenReplica | None] = [None] * len(folders)
        """Those that are open."""

    def __len__(self) -> int:
        return len(self.opened)

    @overload
    def __getitem__(self, at: int, /) -> SeenReplica | None: ...
    @overload
    def __getitem__(self, at: slice, /) -> Sequence[SeenReplica | None]: ...
    def __getitem__(self, at: int | slice, /) -> SeenReplica | Sequence[SeenReplica | None] | None:
        if isinstance(at, slice):
            return [self[each] for each in range(*at.indices(len(self)))]
        return self.opened[at] or self._open(at)

    def _open(self, number: int) -> SeenReplica | None:
        folder = self._folders[number]
        if folder is None or not self._openings.take():
            return None
        index = _opened(folder, self._ref.partition(number))
        if index is None:
            return None
        found = self.opened[number] = SeenReplica(index)
        return found

    def close(self) -> None:
        """Close the indexes, and open none any more: LMDB must not have a file open twice. Idempotent."""
        self._folders = [None] * len(self._folders)
        opened, self.opened = self.opened, [None] * len(self._folders)
        for replica in opened:
            if replica is not None:
                replica.index.close()


def _opened(folder: str, partition: PartitionId) -> IndexReader | None:
    """The index in a folder; None if it cannot be read now: nobody has used it yet, or it is just being replaced."""
    try:
        return IndexReader.open(Path(folder), partition=partition)
    except (DuramenError, OSError):
        return None
