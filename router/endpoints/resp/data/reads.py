"""Reads: from the replica that is here, at once, or over the data plane, which waits and knows the other nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from log_tier.concurrency.sized_work import Turn
from log_tier.model.errors import DuramenError, LimitExceeded, TableNotFound
from log_tier.model.identifiers import Offset, Partition
from log_tier.model.record import KEY_BYTES_MAX
from log_tier.tracing.span import TRACED, TRACING
from router.data.freshness import Freshness, ReadDecision, decide, may_answer
from router.data.requests import ReadPart
from router.data.seam import DataPlane
from router.endpoints.resp.data.local_reads import LocalReads, by_partition, entries_of
from router.endpoints.resp.data.openings import Openings
from router.endpoints.resp.data.served_tables import ServedTable
from router.endpoints.resp.wire.error_replies import BAD_KEY
from router.endpoints.resp.wire.limits import AT_ONCE_BYTES_MAX, AT_ONCE_KEYS_MAX, MGET_BYTES_MAX, REQUEST_TIMEOUT_S
from router.routing.local_first import LAG_PATIENCE_S
from serving_tier.fold.entry import LiveEntry
from serving_tier.index.lmdb.lmdb_index import LmdbIndex
from serving_tier.replica.replica import Replica

__all__ = ["Answers", "Reads", "check_keys"]

# The core answers so many keys in one request.
_KEYS_MAX: Final = 10_000


def check_keys(keys: Sequence[bytes]) -> None:
    """Raises `Problem` for what cannot be a key."""
    if keys and not (min(map(len, keys)) > 0 and max(map(len, keys)) <= KEY_BYTES_MAX):
        raise BAD_KEY


class Reads(LocalReads):
    """The reads of all connections. Belongs to one event loop. `clock_ms`: expiries are judged by it and by the log's
    time.
    """

    def __init__(self, connection: DataPlane, clock_ms: Callable[[], int]) -> None:
        self._loop = asyncio.get_running_loop()
        super().__init__(clock_ms, Openings(self._loop.call_soon))
        self._connection = connection
        self._tracing = TRACING.get()

    async def entries(
        self, table: ServedTable, keys: Sequence[bytes], freshness: Freshness
    ) -> dict[bytes, LiveEntry | None]:
        """The entries of keys, after the waiting that `freshness` needs. Raises the data plane's error of the first
        part that fails.
        """
        answers = await self.answers(table, keys, freshness)
        for error in answers.failed.values():
            raise error
        return answers.found

    async def answers(self, table: ServedTable, keys: Sequence[bytes], freshness: Freshness) -> Answers:
        """The entries of keys, after the waiting that `freshness` needs, as far as their partitions answer."""
        table.look()
        seen = tuple(table.seen)
        if freshness.level == "session" and not freshness.offsets:
            here = await self._here(table, keys, seen)
            if here is not None:
                return Answers(here, {})
        tracing = self._tracing
        span = None if tracing is None else tracing.command("RESP/read", table.ref.name)
        if span is None:
            return await self._asked(table, keys, freshness, seen)
        before = TRACED.set((span,))
        try:
            answers = await self._asked(table, keys, freshness, seen)
            for error in answers.failed.values():
                span.fail(error.code)
            return answers
        except BaseException as error:
            span.fail(type(error).__name__)
            raise
        finally:
            TRACED.reset(before)
            span.end()

    async def _asked(
        self, table: ServedTable, keys: Sequence[bytes], freshness: Freshness, seen: Sequence[Offset]
    ) -> Answers:
        """What the data plane answers, which may have to wait."""
        many = len(keys) > AT_ONCE_KEYS_MAX
        groups = await asyncio.to_thread(_groups, table, keys) if many else _groups(table, keys)
        parts = [
            ReadPart(
                table.ids[partition],
                mine[at : at + _KEYS_MAX],
                freshness.after(partition, seen[partition]),
                freshness.strong,
            )
            for partition, mine in groups.items()
            for at in range(0, len(mine), _KEYS_MAX)
        ]
        found: dict[bytes, LiveEntry | None] = {}
        failed: dict[Partition, DuramenError] = {}
        for some in _portions(parts):
            results = await self._connection.read(some, timeout=REQUEST_TIMEOUT_S)
            for part, result in zip(some, results, strict=True):
                partition = part.partition.partition
                if isinstance(result, DuramenError):
                    if isinstance(result, TableNotFound):
                        table.gone = True
                    failed.setdefault(partition, result)
                    continue
                if freshness.level != "eventual":  # what that one shows is no promise to anybody
                    table.raise_floor(partition, result.applied)
                expiries = result.expiries or [0] * len(part.keys)
                for key, value, version, expiry in zip(
                    part.keys, result.values, result.versions, expiries, strict=True
                ):
                    found[key] = None if value is None else LiveEntry(value, Offset(version), expiry)
                if many:
                    await asyncio.sleep(0)
            if failed:
                break
        return Answers(found, failed)

    async def _here(
        self, table: ServedTable, keys: Sequence[bytes], seen: Sequence[Offset]
    ) -> dict[bytes, LiveEntry | None] | None:
        """The entries from the replicas that are here, after they have applied what was written; None without them, and
        where one of them lags: others may answer, or the data plane waits for it.

        What they must have applied is decided once, before the first wait: `seen`, or less. Asked again later, it would
        be higher as long as others write, and the read would wait again.
        """
        found = self.at_once(table, keys)
        if found is not None:
            return found
        many = len(keys) > AT_ONCE_KEYS_MAX
        replicas = tuple(table.replicas)
        groups = await asyncio.to_thread(by_partition, table, keys) if many else by_partition(table, keys)
        shares: list[_Share] = []
        for partition, mine in groups.items():
            replica = replicas[partition]
            if replica is None:
                return None
            # To look at each of many keys would take as long as to read them.
            needed = seen[partition] if many else table.needed(partition, mine)
            shares.append(_Share(partition, mine, replica, needed))
        until_s = self._loop.time() + LAG_PATIENCE_S
        for share in shares:
            replica = share.replica
            if decide(replica.index.applied, share.needed, replica.failure) not in (
                ReadDecision.ANSWER,
                ReadDecision.WAIT,
            ):
                return None
            try:
                await replica.wait_applied(share.needed, timeout=max(0.0, until_s - self._loop.time()))
            except DuramenError:
                return None
        return await self._from_shares(table, shares, many=many)

    async def _from_shares(
        self, table: ServedTable, shares: Sequence[_Share], *, many: bool
    ) -> dict[bytes, LiveEntry | None] | None:
        """Entries from the replicas that are here and have waited; None if one of them cannot answer.

        Each partition's are read in one transaction, so they have one applied offset. A thread reads many, or large
        ones, and opens files; other clients are served meanwhile.
        """
        found: dict[bytes, LiveEntry | None] = {}
        turn = Turn()
        for partition, keys, replica, needed in shares:
            if turn.is_full(len(keys)):
                await turn.end()
            if table.replicas[partition] is not replica:
                return None  # its successor must show what it has shown: more than `needed`, perhaps
            try:
                with replica.reading() as index:
                    if not may_answer(index.applied, needed, replica.failure):
                        return None
                    stored = None if many or index.is_at_rest else _few(index, keys)
                    if stored is not None:
                        found |= entries_of(keys, stored, index)
                    else:
                        more = await asyncio.to_thread(_entries, index, keys)
                        found = found | more if found else more
            except DuramenError:
                return None  # closed, damaged, or too much for one reply: the data plane says so
            cache = table.caches[partition]
            if cache is not None:
                cache.passed()
        return found


class Answers(NamedTuple):
    """What a read of several keys found. The keys of a partition that failed may be missing."""

    found: dict[bytes, LiveEntry | None]
    failed: Mapping[Partition, DuramenError]
    """In the order of the parts."""

    def failure(self, table: ServedTable, keys: Sequence[bytes]) -> DuramenError | None:
        """Why the entries of some keys are not known; None where they are."""
        return next((error for key in keys if (error := self.failed.get(table.partition_of(key))) is not None), None)


class _Share(NamedTuple):
    """What a read asks of one replica of this process."""

    partition: Partition
    keys: Sequence[bytes]
    replica: Replica
    needed: Offset
    """What the replica must have applied: what was acknowledged, or shown, before the read came."""


def _few(index: LmdbIndex, keys: Sequence[bytes]) -> list[bytes | None] | None:
    """The stored forms of a few keys, read on the event loop; None if they are too large for that."""
    try:
        return index.stored_many(keys, bytes_max=AT_ONCE_BYTES_MAX)
    except LimitExceeded:
        return None


def _entries(index: LmdbIndex, keys: Sequence[bytes]) -> dict[bytes, LiveEntry | None]:
    """Runs in a thread: the entries, all read at one applied offset. Raises `LimitExceeded`."""
    stored = index.stored_many(keys, bytes_max=MGET_BYTES_MAX)
    assert stored is not None, "no transaction was named"
    return entries_of(keys, stored, index)


def _groups(table: ServedTable, keys: Sequence[bytes]) -> dict[Partition, Sequence[bytes]]:
    """Keys by their partition, each once."""
    return by_partition(table, list(dict.fromkeys(keys)))


def _portions(parts: Sequence[ReadPart]) -> list[list[ReadPart]]:
    """Requests of at most so many keys."""
    portions: list[list[ReadPart]] = []
    room = 0
    for part in parts:
        if not portions or len(part.keys) > room:
            portions.append([])
            room = _KEYS_MAX
        portions[-1].append(part)
        room -= len(part.keys)
    return portions
