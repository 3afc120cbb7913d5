"""A table as a reader process sees it: the indexes that it may read, and what they must hold."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, cast

from log_tier.model.errors import DuramenError
from log_tier.model.identifiers import NOTHING, Offset, Partition, PartitionId, TableId
from log_tier.model.partitioner import slot_of
from log_tier.model.table_ref import TableRef
from router.data.freshness import may_answer
from router.endpoints.resp.data.freshness_page import FLOORS, GENERATION, PAGE_VERSION, description_of, page_path
from router.endpoints.resp.data.value_cache import ValueCache
from router.endpoints.resp.wire.replies import bulk
from serving_tier.fold.entry import expiry_of, value_of
from serving_tier.index.lmdb.shared_reader import IndexReader

__all__ = ["ReaderTable", "ReaderTables"]


class _Slots:
    """The offsets of the last acknowledged writes, by hash slot: what `ServedTable.fresh` has by key."""

    __slots__ = ("cells",)

    def __init__(self, cells: memoryview) -> None:
        self.cells = cells

    def get(self, key: bytes, default: Offset, /) -> Offset:
        return cast("Offset", self.cells[slot_of(key)])


class _SeenReplica:
    """An index that can be read."""

    __slots__ = ("failure", "index")

    def __init__(self, index: IndexReader) -> None:
        self.index = index
        self.failure: DuramenError | None = None


class ReaderTable:
    """One generation of a table: see `ReadableTable`. `open()` makes one."""

    def __init__(
        self, cells: memoryview, generation: int, ref: TableRef, indexes: Sequence[IndexReader | None]
    ) -> None:
        self.cells = cells
        self.generation = generation
        """The object may be read while this is the page's generation; compare after the read."""
        self.partitions = ref.partitions
        self.partition_of = ref.partition_of
        self.replicas = [None if index is None else _SeenReplica(index) for index in indexes]
        self.floor = cast("Sequence[Offset]", cells[FLOORS : FLOORS + ref.partitions])
        self._slots = _Slots(cells[FLOORS + ref.partitions :])
        self.fresh = [self._slots] * ref.partitions
        self.caches: list[ValueCache | None] = [None] * ref.partitions

    @classmethod
    def open(cls, folder: Path, number: int) -> ReaderTable | None:
        """The table of a freshness page as it is now; None if it cannot be read now."""
        try:
            with open(page_path(folder, number), "rb") as file:
                cells = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)).cast("q")
        except (FileNotFoundError, ValueError):
            return None
        described = description_of(folder, number)
        if cells[0] != PAGE_VERSION or described is None or described["generation"] != cells[GENERATION]:
            return None
        ref = TableRef(TableId(described["table_id"]), described["table"], len(described["indexes"]))
        indexes = [_opened(path, ref.partition(number)) for number, path in enumerate(described["indexes"])]
        return cls(cells, described["generation"], ref, indexes)

    def value(self, key: bytes, null: bytes, clock_ms: Callable[[], int]) -> bytes | None:
        """One key's value as a bulk string, or `null`; None where the server has to say it. 1 µs, in one transaction.

        It holds if the table is still current afterwards. The key has 1 to 511 bytes.
        """
        partition = self.partition_of(key) if self.partitions > 1 else 0
        replica = self.replicas[partition]
        if replica is None:
            return None
        try:
            applied, stored = replica.index.stored_at(key)
        except DuramenError:
            return None
        if not may_answer(applied, max(self._slots.get(key, NOTHING), self.floor[partition]), None):
            return None
        if stored is None:
            return null
        if stored[7]:
            now_ms = max(replica.index.log_time_ms, clock_ms())
            return null if expiry_of(stored) <= now_ms else bulk(value_of(stored))
        return b"$%d\r\n%b\r\n" % (len(stored) - 8, stored[8:])

    @property
    def is_current(self) -> bool:
        """Is this the generation that may be read?"""
        return bool(self.cells[GENERATION] == self.generation)

    def needed(self, partition: Partition, keys: Iterable[bytes]) -> Offset:
        """The offset that the index must have applied to answer for these keys."""
        return max(self.floor[partition], *(self._slots.get(key, NOTHING) for key in keys))

    def close(self) -> None:
        """Close the indexes."""
        for replica in self.replicas:
            if replica is not None:
                replica.index.close()


def _opened(path: Any, partition: PartitionId) -> IndexReader | None:
    if path is None:
        return None
    try:
        return IndexReader.open(Path(path), partition=partition)
    except (DuramenError, OSError):
        return None  # it is just being replaced: the next generation says by what


class ReaderTables:
    """The tables of a reader process, by the number of their freshness page."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open: dict[int, ReaderTable] = {}

    def at(self, number: int) -> ReaderTable | None:
        """The table of a freshness page, in its current generation; None if it cannot be read now."""
        found = self._open.get(number)
        if found is not None and found.is_current:
            return found
        # LMDB must not have a file open twice, so what is not read any more is closed first.
        for each, table in list(self._open.items()):
            if not table.is_current:
                table.close()
                del self._open[each]
        found = ReaderTable.open(self._folder, number) if number else None
        if found is not None:
            self._open[number] = found
        return found

    def close(self) -> None:
        """Close everything."""
        for table in self._open.values():
            table.close()
        self._open.clear()
