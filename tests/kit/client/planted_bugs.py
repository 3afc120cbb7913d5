"""Bugs to plant in a database, each with the invariants that the checker must name."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from duramen.client import watch as client_watching
from duramen.client.model.session import Session
from duramen.verification import observations as truth
from kit.client.checked import changed
from log_tier.embedded import EmbeddedLog
from log_tier.model.batch import Batch, Columns, decode_batch, encode_batch
from log_tier.model.batch_header import stamp_batch
from log_tier.model.errors import Disconnected, DuramenError, ShuttingDown
from log_tier.model.identifiers import NOTHING, Offset
from log_tier.model.log import Appended
from log_tier.model.record import GROUPED, Operation
from router.data import merge as merging
from router.data.gather.pending_calls import FutureCalls
from router.data.local_data import LocalData
from router.data.merge import MergedPage
from router.data.merge import merge_pages as real_merge_pages
from router.data.requests import ReadResult, WriteResult
from serving_tier.index.index import Found
from serving_tier.index.lmdb.lmdb_index import LmdbIndex

__all__ = ["BUGS", "Patch", "loses_replies", "slow_applies"]


Patch = pytest.MonkeyPatch


def every(count: int) -> Callable[[], bool]:
    """True for every `count`th call."""
    numbers = itertools.count(1)
    return lambda: next(numbers) % count == 0


def slow_applies(patch: Patch) -> None:
    """An applier that is always a little behind, also for a slow caller: else nobody could be too early."""
    inner = LmdbIndex.fold_in

    def fold_in(self: LmdbIndex, batches: Any, **how: Any) -> Any:
        time.sleep(0.02)
        return inner(self, batches, **how)

    patch.setattr(LmdbIndex, "fold_in", fold_in)


def applied_otherwise(patch: Patch, change: Callable[[Batch], Batch | None]) -> None:
    inner = LmdbIndex.fold_in
    patch.setattr(LmdbIndex, "fold_in", lambda self, batches, **how: inner(self, changed(batches, change), **how))


def answers_early(patch: Patch) -> None:
    slow_applies(patch)
    inner = LocalData.read

    async def read(self: LocalData, parts: Any, **how: Any) -> Any:
        return await inner(self, [part._replace(after=NOTHING) for part in parts], **how)

    patch.setattr(LocalData, "read", read)


def strong_does_not_ask(patch: Patch) -> None:
    slow_applies(patch)
    inner = LocalData.read

    async def read(self: LocalData, parts: Any, **how: Any) -> Any:
        return await inner(self, [part._replace(strong=False) for part in parts], **how)

    patch.setattr(LocalData, "read", read)


def scans_early(patch: Patch) -> None:
    slow_applies(patch)
    inner = LocalData.scan

    async def scan(self: LocalData, request: Any, **how: Any) -> Any:
        return await inner(self, replace(request, after={}), **how)

    patch.setattr(LocalData, "scan", scan)


def session_forgets(patch: Patch) -> None:
    slow_applies(patch)
    patch.setattr(Session, "saw", lambda *_: None)


def offset_outside_of_the_transaction(patch: Patch) -> None:
    """What a store does whose offset is not in the transaction of its data: a fold under way ends in between."""
    under_way: dict[int, threading.Event] = {}
    inner_fold, inner = LmdbIndex.fold_in, LmdbIndex.get_many

    def fold_in(self: LmdbIndex, batches: Any, **how: Any) -> Any:
        ended = under_way[id(self)] = threading.Event()
        try:
            time.sleep(0.02)  # long enough that reads come meanwhile
            return inner_fold(self, batches, **how)
        finally:
            del under_way[id(self)]
            ended.set()

    def get_many(self: LmdbIndex, keys: Any, **how: Any) -> Found:
        found = inner(self, keys, **how)
        if (ended := under_way.get(id(self))) is not None:
            ended.wait()
        return found._replace(applied=self.applied)

    patch.setattr(LmdbIndex, "fold_in", fold_in)
    patch.setattr(LmdbIndex, "get_many", get_many)


def skips_a_record(patch: Patch) -> None:
    now = every(40)

    def change(batch: Batch) -> Batch | None:
        if not now():
            return None
        batch.columns = Columns([b""], [b""], [int(Operation.NOOP)])
        return batch

    applied_otherwise(patch, change)


def applies_twice(patch: Patch) -> None:
    def change(batch: Batch) -> Batch | None:
        batch.header = batch.header._replace(producer_id=0)
        return batch

    inner = LmdbIndex.fold_in

    def fold_in(self: LmdbIndex, batches: Any, **how: Any) -> Any:
        batches = changed(batches, change)
        before = self._state
        inner(self, batches, **how)
        self._state = before
        return inner(self, batches, **how)

    patch.setattr(LmdbIndex, "fold_in", fold_in)


def half_a_group(patch: Patch) -> None:
    def change(batch: Batch) -> Batch | None:
        attributes = batch.columns.attributes
        if attributes is None or not any(attribute & GROUPED for attribute in attributes):
            return None
        batch.columns.attributes = [attribute & ~GROUPED for attribute in attributes]
        return batch

    applied_otherwise(patch, change)


def conditions_are_not_looked_at(patch: Patch) -> None:
    def change(batch: Batch) -> Batch | None:
        attributes = batch.columns.attributes
        if attributes is None:
            return None
        batch.columns.attributes = [attribute & ~0x300 for attribute in attributes]
        return batch

    applied_otherwise(patch, change)


def stale_answers(patch: Patch) -> None:
    """A cache before the replica that writes do not invalidate."""
    inner = LocalData.read
    cache: dict[Any, Any] = {}

    async def read(self: LocalData, parts: Any, **how: Any) -> Any:
        results = []
        for part, result in zip(parts, await inner(self, parts, **how), strict=True):
            place = (part.partition, tuple(part.keys))
            if isinstance(result, ReadResult):
                kept = cache.setdefault(place, result)
                result = kept._replace(applied=result.applied)
            results.append(result)
        return results

    patch.setattr(LocalData, "read", read)


def wrong_versions(patch: Patch) -> None:
    inner = LmdbIndex.get_many

    def get_many(self: LmdbIndex, keys: Any, **how: Any) -> Found:
        found = inner(self, keys, **how)
        return found._replace(versions=[max(0, version - 1) if version >= 0 else -1 for version in found.versions])

    patch.setattr(LmdbIndex, "get_many", get_many)


def made_up_values(patch: Patch) -> None:
    inner = LmdbIndex.get_many

    def get_many(self: LmdbIndex, keys: Any, **how: Any) -> Found:
        found = inner(self, keys, **how)
        return found._replace(values=[None if value is None else value + b"!" for value in found.values])

    patch.setattr(LmdbIndex, "get_many", get_many)


def verdicts_are_lost(patch: Patch) -> None:
    inner = LocalData.write

    async def write(self: LocalData, parts: Any, **how: Any) -> Any:
        results = await inner(self, parts, **how)
        return [
            result._replace(outcomes=[outcome._replace(rejected=None) for outcome in result.outcomes])
            if isinstance(result, WriteResult)
            else result
            for result in results
        ]

    patch.setattr(LocalData, "write", write)


def wrong_results(patch: Patch) -> None:
    inner = LocalData.write

    def more(result: bytes | None) -> bytes | None:
        return None if result is None else b"%d" % (int(result) + 1)

    async def write(self: LocalData, parts: Any, **how: Any) -> Any:
        results = await inner(self, parts, **how)
        return [
            result._replace(outcomes=[outcome._replace(result=more(outcome.result)) for outcome in result.outcomes])
            if isinstance(result, WriteResult)
            else result
            for result in results
        ]

    patch.setattr(LocalData, "write", write)


def acknowledged_and_never_written(patch: Patch, count: int = 50) -> None:
    """What a power failure does to a log that acknowledges before it syncs."""
    now = every(count)
    patch.setattr(truth, "SILENCE_S", 2.0)  # it may be a partition's last record
    inner = EmbeddedLog.append_many

    async def append_many(self: EmbeddedLog, parts: Any, **how: Any) -> Any:
        results: list[Appended | DuramenError] = []
        for part in parts:
            if now():
                following = Offset((await self.bounds(part[0])).latest + 1)
                results.append(Appended(following, 1, following))
            else:
                results += await inner(self, [part], **how)
        return results

    patch.setattr(EmbeddedLog, "append_many", append_many)


def much_of_it_never_written(patch: Patch) -> None:
    """So much that the last record of some partition is among it: nobody may wait for that one for ever."""
    acknowledged_and_never_written(patch, 3)


def retries_count_twice(patch: Patch) -> None:
    """Every write is sent twice, and nobody remembers producers."""
    inner = EmbeddedLog.append_many
    now = every(5)

    async def append_many(self: EmbeddedLog, parts: Any, **how: Any) -> Any:
        results = await inner(self, parts, **how)
        if now():
            await inner(self, [(partition, _anonymous(batch)) for partition, batch in parts])
        return results

    patch.setattr(EmbeddedLog, "append_many", append_many)


def _anonymous(batch: bytes) -> bytes:
    stored = stamp_batch(batch, base_offset=Offset(0), timestamp_ms=0, unsynced=0)
    return encode_batch(decode_batch(stored).columns)


def _watch_otherwise(patch: Patch, change: Callable[[list[Any]], list[Any]]) -> None:
    inner = client_watching.changes_of

    def changes_of(*arguments: Any) -> Iterator[Any]:
        yield from change(list(inner(*arguments)))

    patch.setattr(client_watching, "changes_of", changes_of)


def watch_skips(patch: Patch) -> None:
    now = every(30)
    _watch_otherwise(patch, lambda changes: [change for change in changes if not now()])


def watch_repeats(patch: Patch) -> None:
    _watch_otherwise(patch, lambda changes: changes + changes[-1:])


def watch_reorders(patch: Patch) -> None:
    _watch_otherwise(patch, lambda changes: changes[::-1])


def log_changes_its_bytes(patch: Patch) -> None:
    now = every(20)

    def change(changes: list[Any]) -> list[Any]:
        return [replace(c, value=b"other") if c.value is not None and now() else c for c in changes]

    _watch_otherwise(patch, change)


def watch_shows_what_was_rejected(patch: Patch) -> None:
    inner = LocalData.watch

    async def watch(self: LocalData, *arguments: Any, **how: Any) -> AsyncIterator[Any]:
        async for event in inner(self, *arguments, **how):
            yield event._replace(void_offsets=())

    patch.setattr(LocalData, "watch", watch)


def scan_loses_the_end_of_a_page(patch: Patch) -> None:
    inner = real_merge_pages

    def merge_pages(*arguments: Any, **how: Any) -> MergedPage:
        page = inner(*arguments, **how)
        if len(page.keys) <= 3:
            return page
        return page._replace(keys=page.keys[:-1], values=page.values[:-1], versions=page.versions[:-1])

    patch.setattr(merging, "merge_pages", merge_pages)


def loses_replies(patch: Patch) -> None:
    """Not a bug by itself: the server does the work, and its answer is lost, or says that it is stopping."""
    now, stopping = every(7), every(2)
    inner = LocalData.write

    async def write(self: LocalData, parts: Any, **how: Any) -> Any:
        found = await inner(self, parts, **how)
        if now():
            raise ShuttingDown("stopping") if stopping() else Disconnected("the reply was lost")
        return found

    patch.setattr(LocalData, "write", write)


def tells_the_place_of_the_second_copy(patch: Patch) -> None:
    loses_replies(patch)

    def want_verdict(self: FutureCalls, *, repeated: bool) -> bool:
        return inner_want(self, repeated=False)

    def placed(self: FutureCalls, result: WriteResult, *, repeated: bool) -> bool:
        return inner_placed(self, result, repeated=False)

    inner_want, inner_placed = FutureCalls.want_verdict, FutureCalls.placed
    patch.setattr(FutureCalls, "want_verdict", want_verdict)
    patch.setattr(FutureCalls, "placed", placed)


BUGS: list[tuple[Callable[[Patch], None], set[str]]] = [
    (answers_early, {"I5"}),
    (strong_does_not_ask, {"I5"}),
    (scans_early, {"I5"}),
    (session_forgets, {"I5"}),
    (offset_outside_of_the_transaction, {"I4"}),
    (skips_a_record, {"I4"}),
    (applies_twice, {"I4", "I6"}),
    (half_a_group, {"I4", "I6"}),
    (conditions_are_not_looked_at, {"I6"}),
    (stale_answers, {"I4"}),
    (wrong_versions, {"I4"}),
    (made_up_values, {"I4", "I2"}),
    (verdicts_are_lost, {"I6"}),
    (wrong_results, {"I6"}),
    (acknowledged_and_never_written, {"I1"}),
    (much_of_it_never_written, {"I1"}),
    (retries_count_twice, {"I2"}),
    (tells_the_place_of_the_second_copy, {"I6"}),
    (watch_skips, {"I7"}),
    (watch_repeats, {"I7"}),
    (watch_reorders, {"I7"}),
    (watch_shows_what_was_rejected, {"I7", "I6"}),
    (log_changes_its_bytes, {"I3"}),
    (scan_loses_the_end_of_a_page, {"I4"}),
]
