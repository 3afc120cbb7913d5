"""A table as a reader process sees it: the indexes that it may read, and what they must hold."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import cast

from log_tier.model.errors import DuramenError
from log_tier.model.identifiers import NOTHING, Offset, Partition, TableId
from log_tier.model.partitioner import slot_of
from log_tier.model.table_ref import TableRef
from router.data.freshness import may_answer
from router.endpoints.resp.data.freshness_page import FLOORS, GENERATION, PAGE_VERSION, description_of, page_path
from router.endpoints.resp.data.openings import Openings
from router.endpoints.resp.data.value_cache import ValueCache
from router.endpoints.resp.readers.lazy_replicas import LazyReplicas
from router.endpoints.resp.wire.replies import bulk
from serving_tier.fold.entry import expiry_of, value_of

__all__ = ["ReaderTable", "ReaderTables"]


class _Slots:
    """The offsets of the last acknowledged writes, by hash slot: what `ServedTable.fresh` has by key."""

    __slots__ = ("cells",)

    def __init__(self, cells: memoryview) -> None:
        self.cells = cells

    def get(self, key: bytes, default: Offset, /) -> Offset:
        return cast("Offset", self.cells[slot_of(key)])


class ReaderTable:
    """One generation of a table: see `ReadableTable`. `open()` makes one."""

    def __init__(self, cells: memoryview, generation: int, ref: TableRef, replicas: LazyReplicas) -> None:
        self.cells = cells
        self.generation = generation
        """The object may be read while this is the page's generation; compare after the read."""
        self.id = ref.id
        self.partitions = ref.partitions
        self.partition_of = ref.partition_of
        self.replicas = replicas
        self.floor = cast("Sequence[Offset]", cells[FLOORS : FLOORS + ref.partitions])
        self._slots = _Slots(cells[FLOORS + ref.partitions :])
        self.fresh = [self._slots] * ref.partitions
        self.caches: list[ValueCache | None] = [None] * ref.partitions

    @classmethod
    def open(cls, folder: Path, number: int, openings: Openings) -> ReaderTable | None:
        """The table of a freshness page as it is now; None if it cannot be read now. No index is opened yet."""
        try:
            with open(page_path(folder, number), "rb") as file:
                cells = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)).cast("q")
        except (FileNotFoundError, ValueError):
            return None
        described = description_of(folder, number)
        if cells[0] != PAGE_VERSION or described is None or described["generation"] != cells[GENERATION]:
            return None
        ref = TableRef(TableId(described["table_id"]), described["table"], len(described["indexes"]))
        return cls(cells, described["generation"], ref, LazyReplicas(ref, described["indexes"], openings))

    def value(self, key: bytes, null: bytes, clock_ms: Callable[[], int]) -> bytes | None:
        """One key's value as a bulk string, or `null`; None where the server has to say it. 1 µs, in one transaction.

        It holds if the table is still current afterwards. The key has 1 to 511 bytes.
        """
        partition = self.partition_of(key) if self.partitions > 1 else 0
        replica = self.replicas.opened[partition] or self.replicas[partition]
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
        self.replicas.close()


class ReaderTables:
    """The tables of a reader process, by the number of their freshness page."""

    def __init__(self, folder: Path, openings: Openings) -> None:
        self._folder = folder
        self._openings = openings
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
        found = ReaderTable.open(self._folder, number, self._openings) if number else None
        if found is not None:
            self._open[number] = found
        return found

    def close(self) -> None:
        """Close everything."""
        for table in self._open.values():
            table.close()
        self._open.clear()
