"""Reads at once: from an index of this machine, where it is fresh enough, with nothing awaited.

The table may be one whose replicas are in this process (`served_tables.py`), or the one that a reader process sees of
it (`router/endpoints/resp/readers/reader_table.py`): both are a `ReadableTable`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol, cast

from log_tier.model.errors import DuramenError, LimitExceeded
from log_tier.model.identifiers import NOTHING, Offset, Partition
from log_tier.model.record import KEY_BYTES_MAX
from router.data.freshness import may_answer
from router.endpoints.resp.data.openings import Openings
from router.endpoints.resp.data.stored_entries import StoredEntries
from router.endpoints.resp.data.value_cache import REPLY_BYTES_MAX, ValueCache
from router.endpoints.resp.wire.limits import AT_ONCE_BYTES_MAX, AT_ONCE_KEYS_MAX, MGET_BYTES_MAX
from router.endpoints.resp.wire.replies import bulk
from serving_tier.fold.entry import LiveEntry, entry_of, expiry_of, is_live, plain_entries, value_of

__all__ = ["LocalReads", "ReadableIndex", "ReadableTable", "bulks", "by_partition", "entries_of"]

_ZERO: Final = Partition(0)

# As many replies of the largest size that is kept are as much as one command may answer with.
_KEYS_KNOWN_MAX: Final = MGET_BYTES_MAX // REPLY_BYTES_MAX


class ReadableIndex(Protocol):
    """The reads of an index that the RESP endpoint needs. See `serving_tier.index.lmdb.lmdb_reads`."""

    @property
    def applied(self) -> Offset: ...

    @property
    def log_time_ms(self) -> int: ...

    @property
    def is_at_rest(self) -> bool: ...

    def stored(self, key: bytes) -> bytes | None: ...

    def stored_many(
        self, keys: Sequence[bytes], *, bytes_max: int, transaction: int | None = None
    ) -> list[bytes | None] | None: ...


class _Replica(Protocol):
    @property
    def failure(self) -> DuramenError | None: ...

    @property
    def index(self) -> ReadableIndex: ...


class _Fresh(Protocol):
    """Keys with the offset of what was written to them last, if that may not be applied yet."""

    def get(self, key: bytes, default: Offset, /) -> Offset: ...


class ReadableTable(Protocol):
    """The parts of a table that the RESP endpoint reads. See `ServedTable`."""

    @property
    def partitions(self) -> int: ...

    @property
    def partition_of(self) -> Callable[[bytes], Partition]: ...

    @property
    def replicas(self) -> Sequence[_Replica | None]: ...

    @property
    def floor(self) -> Sequence[Offset]: ...

    @property
    def fresh(self) -> Sequence[_Fresh]: ...

    @property
    def caches(self) -> Sequence[ValueCache | None]:
        """What was read lately, by partition; None where nothing is kept."""
        ...

    def needed(self, partition: Partition, keys: Sequence[bytes]) -> Offset: ...


class LocalReads:
    """Reads that wait for nothing. `clock_ms`: expiries are judged by it and by the log's time. `openings`: of this
    event loop; a read for which no file may be opened in this turn is not to be had here and now.
    """

    def __init__(self, clock_ms: Callable[[], int], openings: Openings) -> None:
        self._clock_ms = clock_ms
        self._openings = openings
        self.direct = 0
        """Commands, and runs of GETs, that connections of this process have answered by it."""

    # --- at once, as the bytes of replies

    def value(self, table: ReadableTable, key: bytes, null: bytes) -> bytes | None:
        """One key's value as a bulk string, or `null`; None where it is not to be had here and now. 0.9 µs, and half of
        that where it was read before.

        The key has 1 to 511 bytes.
        """
        partition = table.partition_of(key) if table.partitions > 1 else _ZERO
        replica = table.replicas[partition]
        if replica is None:
            return None
        index = replica.index
        applied = index.applied
        needed = table.floor[partition]
        fresh = table.fresh[partition]
        if fresh and (own := fresh.get(key, NOTHING)) > needed:
            needed = own
        if not may_answer(applied, needed, replica.failure):
            return None
        cache = table.caches[partition]
        known = cache if cache is not None and cache.applied == applied and cache.index is index else None
        if known is not None:
            reply = known.young.get(key)
            if reply is not None or (known.old and (reply := known.again(key)) is not None):
                return reply
        if index.is_at_rest and not self._openings.take():
            return None
        try:
            stored = index.stored(key)
        except DuramenError:
            return None
        if cache is not None:
            cache.passed()
        if stored is None:
            return null
        if stored[7]:
            return null if expiry_of(stored) <= max(index.log_time_ms, self._clock_ms()) else bulk(value_of(stored))
        reply = b"$%d\r\n%b\r\n" % (len(stored) - 8, stored[8:])
        if known is not None:
            known.put(key, reply)
        return reply

    def values(self, table: ReadableTable, keys: Sequence[bytes], null: bytes) -> bytes | None:
        """The values of keys as bulk strings, end to end; None where one of them is not to be had here and now, or they
        are too many or too large to read on the event loop.

        One read transaction for each partition, or none where all were read before. 0.2 to 0.8 µs a key.
        """
        if len(keys) > AT_ONCE_KEYS_MAX:
            return None
        try:
            return self.values_within(table, keys, null, AT_ONCE_BYTES_MAX)
        except LimitExceeded:
            return None

    def values_within(self, table: ReadableTable, keys: Sequence[bytes], null: bytes, bytes_max: int) -> bytes | None:
        """`values`, but raises `LimitExceeded` if they have more than `bytes_max`, before more than that was read."""
        if not keys:
            return None
        if table.partitions == 1:
            replies = self._replies(table, _ZERO, keys, null, bytes_max)
            return None if replies is None else b"".join(replies)
        found: dict[bytes, bytes] = {}
        room = bytes_max
        groups = by_partition(table, keys)
        for partition, mine in groups.items():
            some = self._replies(table, partition, mine, null, max(0, room))
            if some is None:
                return None
            room -= sum(map(len, some))
            found.update(zip(mine, some, strict=True))
        return b"".join([found[key] for key in keys])

    def _replies(
        self, table: ReadableTable, partition: Partition, keys: Sequence[bytes], null: bytes, bytes_max: int
    ) -> list[bytes] | None:
        """The replies for keys of one partition, all at one applied offset: those in the cache, and the rest from the
        index if it has the same offset, else all of them.
        """
        replica = table.replicas[partition]
        if replica is None:
            return None
        index = replica.index
        applied = index.applied
        if not may_answer(applied, table.needed(partition, keys), replica.failure):
            return None
        cache = table.caches[partition]
        known = cache if cache is not None and cache.applied == applied and cache.index is index else None
        if known is not None and len(keys) <= _KEYS_KNOWN_MAX:
            remembered = list(map(known.young.get, keys))
            if None in remembered and known.old:
                remembered = [
                    known.again(key) if reply is None else reply for key, reply in zip(keys, remembered, strict=True)
                ]
            if None not in remembered:
                return cast("list[bytes]", remembered)
            missing = [key for key, reply in zip(keys, remembered, strict=True) if reply is None]
            if len(missing) < len(keys):
                rest = self._from_index(index, known, missing, null, bytes_max, known.transaction)
                if rest is not None:
                    found = iter(rest)
                    return [next(found) if reply is None else reply for reply in remembered]
        replies = self._from_index(index, known, keys, null, bytes_max, None)
        if cache is not None and replies is not None:
            cache.passed()
        return replies

    def _from_index(
        self,
        index: ReadableIndex,
        cache: ValueCache | None,
        keys: Sequence[bytes],
        null: bytes,
        bytes_max: int,
        transaction: int | None,
    ) -> list[bytes] | None:
        """The replies from the index, in one read transaction: in this one, or None. Raises `LimitExceeded`."""
        if not (min(map(len, keys)) > 0 and max(map(len, keys)) <= KEY_BYTES_MAX):
            return None
        if index.is_at_rest and not self._openings.take():
            return None
        try:
            stored = index.stored_many(keys, bytes_max=bytes_max, transaction=transaction)
        except LimitExceeded:
            raise
        except DuramenError:
            return None  # closed or damaged: the slow path says so
        if stored is None:
            return None
        replies = bulks(stored, null, self._clock_ms)
        if cache is not None:
            cache.put_new(keys, stored, replies)
        return replies

    # --- as entries

    def stored(self, table: ReadableTable, partition: Partition, keys: Sequence[bytes]) -> list[bytes | None] | None:
        """The stored forms of keys of one partition, all at one applied offset; None where they are not here, or not
        yet.

        One read transaction; 0.2 µs a key.
        """
        replica = table.replicas[partition]
        if replica is None:
            return None
        index = replica.index
        needed = table.needed(partition, keys) if table.fresh[partition] else table.floor[partition]
        if not may_answer(index.applied, needed, replica.failure):
            return None
        if index.is_at_rest and not self._openings.take():
            return None
        try:
            found = index.stored_many(keys, bytes_max=AT_ONCE_BYTES_MAX)
        except DuramenError:
            return None  # closed, damaged, or too much: the slow path says so
        cache = table.caches[partition]
        if cache is not None:
            cache.passed()
        return found

    def at_once(self, table: ReadableTable, keys: Sequence[bytes]) -> dict[bytes, LiveEntry | None] | None:
        """The entries of keys, each partition's at one applied offset; None if a read has to wait or a partition is at
        another node, or if the entries are too many or too large to read on the event loop.
        """
        if len(keys) > AT_ONCE_KEYS_MAX:
            return None
        found: dict[bytes, LiveEntry | None] = {}
        groups = by_partition(table, keys)
        for partition, mine in groups.items():
            stored, replica = self.stored(table, partition, mine), table.replicas[partition]
            if stored is None or replica is None:
                return None
            found.update(entries_of(mine, stored, replica.index))
        return found

    def of_partition(
        self, table: ReadableTable, partition: Partition, keys: Sequence[bytes]
    ) -> Mapping[bytes, LiveEntry | None] | None:
        """`at_once` for the keys of a round, which are those of one partition. Many keys are decoded as far as somebody
        looks at them.
        """
        stored, replica = self.stored(table, partition, keys), table.replicas[partition]
        if stored is None or replica is None:
            return None
        if len(keys) == 1:
            return entries_of(keys, stored, replica.index)
        return StoredEntries(keys, stored, replica.index.log_time_ms)


def entries_of(
    keys: Sequence[bytes], stored: Sequence[bytes | None], index: ReadableIndex
) -> dict[bytes, LiveEntry | None]:
    """Stored forms as entries, by key. 0.3 µs each, a tenth of it for what is not there."""
    if not any(stored):
        return dict.fromkeys(keys)
    plain = plain_entries(stored)
    if plain is not None:
        return dict(zip(keys, plain, strict=True))
    log_time_ms = index.log_time_ms
    return {
        key: None if each is None or (each[7] and not is_live(each, log_time_ms)) else entry_of(each)
        for key, each in zip(keys, stored, strict=True)
    }


def by_partition(table: ReadableTable, keys: Sequence[bytes]) -> dict[Partition, Sequence[bytes]]:
    """Keys by their partition, in their order."""
    if table.partitions == 1:
        return {_ZERO: keys} if keys else {}
    partition_of = table.partition_of
    groups: dict[Partition, Sequence[bytes]] = {}
    for key in keys:
        groups.setdefault(partition_of(key), []).append(key)  # type: ignore[attr-defined]
    return groups


def bulks(stored: Sequence[bytes | None], null: bytes, clock_ms: Callable[[], int]) -> list[bytes]:
    """Stored forms as bulk strings. 0.2 µs each."""
    replies: list[bytes] = []
    now_ms = 0
    for each in stored:
        if each is None:
            replies.append(null)
        elif not each[7]:
            replies.append(b"$%d\r\n%b\r\n" % (len(each) - 8, each[8:]))
        else:
            now_ms = now_ms or clock_ms()
            replies.append(null if expiry_of(each) <= now_ms else bulk(value_of(each)))
    return replies
