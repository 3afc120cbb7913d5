"""Reads in the caller's own thread, for a database in the same process.

LMDB's readers need no lock and no event loop. Where the index has already applied what the session has seen, which is
nearly always, a `get` is one short transaction, and the first page of a scan one for each partition; otherwise the
answer is `NOT_FRESH` and the caller goes the slow path, which knows how to wait, and says what is wrong with a call.
"""

from __future__ import annotations

from binascii import crc_hqx
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol

from log_tier.catalog.cluster_map import ClusterMap
from log_tier.concurrency.forking import on_fork
from log_tier.model.errors import DuramenError, InvalidKey, ShuttingDown
from log_tier.model.identifiers import Offset, Partition, PartitionId
from log_tier.model.partitioner import partition_of_prefix, slot_of
from log_tier.model.record import KEY_BYTES_MAX
from log_tier.model.table_ref import TableRef
from log_tier.rows.definition import TableDefinition
from router.data.freshness import may_answer, needed_offset
from router.data.merge import read_merged
from router.data.requests import ScanRequest
from router.data.scan import PagedIndex, Served, read_index
from router.data.seam import NOT_FRESH, FirstPage
from serving_tier.index.index import ScanPage

__all__ = ["DirectReads", "LocalTables"]

_UNDEFINED: Final = TableDefinition()


class _Index(PagedIndex, Protocol):
    is_at_rest: bool
    definition: TableDefinition | None

    @property
    def applied(self) -> Offset: ...

    @property
    def shown(self) -> Offset: ...

    def get_value(self, key: bytes) -> bytes | None: ...


class _Replica(Protocol):
    @property
    def index(self) -> _Index: ...

    @property
    def state(self) -> str: ...

    @property
    def failure(self) -> DuramenError | None: ...

    @property
    def progress(self) -> Served: ...

    @property
    def floor(self) -> Offset: ...

    @property
    def lost(self) -> int: ...


class _Catalog(Protocol):
    @property
    def map(self) -> ClusterMap: ...


class _Node(Protocol):
    def replica(self, partition: PartitionId, /) -> _Replica: ...


class LocalTables(Protocol):
    """What these reads need of a `LocalData`: the map of the tables, and the replicas of this process."""

    @property
    def catalog(self) -> _Catalog:
        """The catalog, whose map has the tables."""
        ...

    @property
    def node(self) -> _Node:
        """The node, which has the replicas. `replica` raises `NotHosted` for another node's."""
        ...


class _Found(NamedTuple):
    """A table as it was found; replaced as a whole, so that no thread sees half of two."""

    replicas: Sequence[_Replica]
    """Replicas and not their indexes: another version of the table puts another index in a replica's place."""
    seen: Sequence[Offset]
    """What the session has seen, by partition: the live list."""
    partitions: int
    partition_of: Callable[[bytes], Partition] | None
    """None: by slot, which is computed where it is needed."""
    ref: TableRef


class DirectReads:
    """`CallerReads` over the replicas of this process."""

    def __init__(
        self,
        data_plane: LocalTables,
        name: str,
        seen: Callable[[TableRef], Sequence[Offset]],
        saw: Callable[[TableRef, Partition, Offset], None],
    ) -> None:
        """`seen` and `saw`: the session's. What was read here is merged into it when a replica goes away, and when
        a caller asks for the session's token (`note_shown`), and not at each read: as long as the replica is the same
        one, it shows no less than before.
        """
        self._data_plane = data_plane
        self._name = name
        self._session_offsets = seen
        self._saw = saw
        self._forked = False
        self._found: _Found | None = None
        """None: the table is to be looked up, by the next call."""
        on_fork(self)

    def after_fork(self) -> None:
        """An index that is open in the parent must not be touched here: every call goes the slow path, and learns
        it.
        """
        self._found = None
        self._forked = True

    def get(self, key: bytes) -> object:
        """About 1 µs where nothing has to wait."""
        found = self._found
        if found is None:
            self._found = self._look_up()
            return NOT_FRESH
        replicas, seen, partitions, partition_of, _ = found
        try:
            if partition_of is None:
                # `partition_of` inlined: one call less is a tenth of the time, and so is a brace as a number.
                partition = (slot_of(key) if 0x7B in key else crc_hqx(key, 0) & 16383) * partitions >> 14
            else:
                partition = partition_of(key)
            replica = replicas[partition]
            index = replica.index
            # LMDB looks a key up that is too long to be there; the slow path says that it is none.
            if may_answer(index.applied, seen[partition], replica.failure) and len(key) <= KEY_BYTES_MAX:
                return index.get_value(key)
            if replica.state == "closed":
                self._let_go(found)  # the table was dropped, or the replica is being replaced
        except (TypeError, InvalidKey):
            pass  # no bytes, or an empty key: the slow path says so
        except ShuttingDown:
            self._let_go(found)  # the same, just before that
        except DuramenError:
            # The pages of an index that nobody serves any more say nothing about the table.
            if replica.state != "closed" and replica.index is index:
                raise
            self._let_go(found)
        return NOT_FRESH

    def first_page(
        self,
        start: bytes,
        end: bytes | None,
        *,
        reverse: bool,
        limit: int,
        index_name: str = "",
        index_number: int = 0,
        key_prefix: bytes = b"",
    ) -> FirstPage | None:
        """Some 1 µs an entry."""
        found = self._found
        if found is None:
            self._found = self._look_up()
            return None
        replicas, seen, ref = found.replicas, found.seen, found.ref
        request = ScanRequest(
            ref.id, start, end, reverse, limit, index=index_name, index_number=index_number
        )  # the offsets that it must contain are looked at here
        only = partition_of_prefix(key_prefix, found.partitions, ref.partitioner) if key_prefix else None
        asked = request.partitions_asked(found.partitions, ref.partitioner) if only is None else (only,)
        indexes = {partition: replicas[partition].index for partition in asked}

        def read(partition: Partition, start: bytes, end: bytes | None, limit: int) -> tuple[ScanPage, int]:
            index = indexes[partition]
            page = read_index(index, index.definition or _UNDEFINED, request, start, end, limit)
            replicas[partition].progress.served += len(page.keys)
            return page, index.version

        if not all(_is_fresh(replicas[each], indexes[each], seen[each]) for each in asked):
            self._let_go_if_closed(found)
            return None
        try:
            page = read_merged(asked, request, read)
        except DuramenError:
            # Damage, an index that is not in service, a replica that was closed meanwhile: the slow path says which.
            self._let_go_if_closed(found)
            return None
        for partition, offset in page.applied.items():
            self._saw(ref, partition, offset)
        return FirstPage(ref, page)

    def note_shown(self) -> None:
        if (found := self._found) is not None:
            self._note(found)

    def _note(self, found: _Found) -> None:
        for number, replica in enumerate(found.replicas):
            self._saw(found.ref, Partition(number), replica.index.shown)

    def _let_go_if_closed(self, found: _Found) -> None:
        if any(replica.state == "closed" for replica in found.replicas):
            self._let_go(found)

    def _let_go(self, found: _Found) -> None:
        """Look for the replicas anew. Their successors must not show less than they did."""
        self._note(found)
        self._found = self._look_up()

    def _look_up(self) -> _Found | None:
        table = None if self._forked else self._data_plane.catalog.map.named(self._name)
        if table is None:
            return None
        try:
            replicas = [
                self._data_plane.node.replica(PartitionId(table.id, Partition(number)))
                for number in range(table.partitions)
            ]
        except DuramenError:
            return None  # a partition is not served: the slow path says why
        if any(replica.state == "replaying" for replica in replicas):
            return None  # the slow path knows how to wait
        ref = table.ref
        partition_of = None if ref.partitioner == "slot" else ref.partition_of
        return _Found(replicas, self._session_offsets(ref), table.partitions, partition_of, ref)


def _is_fresh(replica: _Replica, index: _Index, seen: Offset) -> bool:
    """May an index answer at once? Not one at rest: Ctrl-C must not come while its file is being opened."""
    needed = needed_offset(seen, replica.floor, replica.lost)
    return may_answer(index.applied, needed, replica.failure) and not index.is_at_rest
