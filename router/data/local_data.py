"""The data plane: what a read, a write, a scan, a watch mean. It knows no protocol; endpoints translate to it.

    write   log.append of every part, all at once → stable → (for conditions and updates) wait until the replica has
            applied it, and return the verdicts
    read    strong? ask the log for its end → the replica has applied `after`? else wait → values
    scan    the same, in every partition, then merge in key order

A data plane keeps no state of its own, so it may be replaced at any time; what it needs to know is in the log and in
the replicas. Parts of one request fail by themselves.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from copy import copy
from functools import partial
from operator import attrgetter
from typing import Final

from log_tier.catalog.catalog import Catalog
from log_tier.concurrency.sized_work import AT_ONCE_ITEMS_MAX, Turn, gather_some
from log_tier.measures.call_times import CallTimes
from log_tier.measures.long_work import LongRequest, LongWork, places_of
from log_tier.model.errors import (
    DeadlineExceeded,
    DuramenError,
    InvalidRequest,
    ReplicaBehind,
    TableNotFound,
    VersionMissing,
    WriteUnknown,
)
from log_tier.model.identifiers import NOTHING, Offset, Partition, PartitionId, TableId
from log_tier.model.log import Appended, Log
from log_tier.model.retention import Retention
from log_tier.model.table_ref import TableRef
from log_tier.rows.alter_table import TableChange
from log_tier.rows.definition import TableDefinition
from log_tier.rows.table_spec import TableSpec
from log_tier.tracing.indexes import trace_read
from log_tier.tracing.span import TRACED
from router.data.catalog_tables import CatalogTables, without_absent
from router.data.fresh_replicas import FreshReplicas, answers_now
from router.data.in_time import end_waiting, in_time, time_left
from router.data.machine_tables import MachineTables
from router.data.misfits import asked_where_misfit, explained, named
from router.data.outcomes import judged, outcome_forgotten, refused_parts, unanswered, unjudged
from router.data.reply_budget import ReplyBudget, read_keys, read_many_keys
from router.data.requests import (
    PARTS_MAX,
    READ_KEYS_MAX,
    OutcomesPart,
    ReadPart,
    ReadResult,
    ScanRequest,
    ScanResult,
    TableDescription,
    WatchEvent,
    WritePart,
    WriteResult,
    too_many_keys,
    too_many_parts,
    write_result_of,
)
from router.data.scan import check_scan, found_pages
from router.data.watch import watch_replicas
from serving_tier.index.lmdb.index_file import OPENING_ITEMS
from serving_tier.node.hosting import Hosting
from serving_tier.replica.replica import Replica

__all__ = ["LocalData"]

# A part costs as much as so many keys: its replica is looked up, and it has a transaction of its own.
_PART_ITEMS: Final = 10

_is_gathered: Final = attrgetter("gathered")
_keys_of: Final = attrgetter("keys")
_table_of: Final = attrgetter("partition.table")

_UNANSWERED: Final = InvalidRequest("no answer yet: a bug if anybody sees this")


class LocalData:
    """The core behind every endpoint. It is a `router.data.seam.Connection`."""

    def __init__(
        self, log: Log, catalog: Catalog, hosting: Hosting, *, resources: AsyncExitStack | None = None
    ) -> None:
        """`resources`: what `close` closes; None: hosting, node, catalog and log."""
        self._resources = resources
        self.log = log
        self.catalog = catalog
        self.hosting = hosting
        self.node = hosting.node
        self.tables = CatalogTables(log, catalog)
        self._machine = MachineTables(log, catalog, hosting, self.tables)
        self._fresh = FreshReplicas(log, self.node, self.tables)
        self.times = CallTimes()
        """How long requests took, those that failed included."""
        self.long: LongWork[LongRequest] = LongWork()
        self._plain: set[TableId] = set()  # see `asked_where_misfit`

    # --- reads

    async def read(
        self, parts: Sequence[ReadPart], *, timeout: float, patience: float = 0.0
    ) -> list[ReadResult | DuramenError]:
        """Read keys; each part is answered, or fails, by itself. About 2 µs a key where nothing has to wait."""
        keys = sum(map(len, map(_keys_of, parts)))
        if keys > READ_KEYS_MAX:
            raise too_many_keys(keys)
        if len(parts) > PARTS_MAX:
            raise too_many_parts(parts)
        time = asyncio.get_running_loop().time
        began_s = time()
        budget = ReplyBudget()
        results: list[ReadResult | DuramenError] = []
        waiting: list[tuple[int, ReadPart]] = []
        waits_s = 0.0
        turn = Turn() if len(parts) > 1 else None  # a lone read pays for nothing else
        for place, part in enumerate(parts):
            try:
                replica = self.node.replica(part.partition)
                if not answers_now(replica, part):
                    waiting.append((place, part))
                    results.append(_UNANSWERED)
                elif len(part.keys) <= AT_ONCE_ITEMS_MAX and not replica.index.is_at_rest and part.past is None:
                    results.append(read_keys(replica, part.keys, budget))
                else:
                    results.append(await read_many_keys(replica, part, budget))
            except TableNotFound:
                waiting.append((place, part))  # it may have just been made
                results.append(_UNANSWERED)
            except DuramenError as error:
                results.append(error.as_value())
            if turn is not None and turn.is_full(_PART_ITEMS + min(len(part.keys), AT_ONCE_ITEMS_MAX)):
                await turn.end()
        if waiting:
            waited_s = time()
            left_s = time_left(min(timeout, patience) if patience else timeout)
            asked = waiting if len(waiting) == 1 else await without_absent(self.tables, waiting, results, left_s())
            answers = await gather_some(asked, lambda each: self._read_when_fresh(each[1], left_s, budget))
            for (place, part), answer in zip(asked, answers, strict=True):
                if patience and type(answer) is DeadlineExceeded:
                    # For the caller this part has to wait, whatever for: it sends the part again with more time.
                    results[place] = ReplicaBehind(answer.message, partition=part.partition.partition)
                else:
                    results[place] = answer
            waits_s = time() - waited_s
            self.times.waits.observe(waits_s)
        took_s, measured = time() - began_s, self.times.reads  # `observe`, without a call into another file
        measured.counts[bisect_left(measured.bounds, took_s)] += 1
        measured.total += took_s
        if took_s >= self.long.least_s:
            after = waiting[0][1].after if waiting else None
            self.long.note(LongRequest("read", began_s, began_s + took_s, places_of(parts), waits_s, after))
        if callers := TRACED.get():
            if waiting:
                self._fresh.trace_wait(callers, waits_s, waiting[0][1].partition, waiting[0][1].after)
            read = [(part.partition.partition, each) for part, each in zip(parts, results, strict=True)]
            trace_read(callers, took_s, [(at, each.applied) for at, each in read if isinstance(each, ReadResult)])
        return results

    async def _read_when_fresh(
        self, part: ReadPart, left_s: Callable[[], float], budget: ReplyBudget
    ) -> ReadResult | DuramenError:
        try:
            replica = await self._fresh.fresh(part.partition, part.after, part.strong, part.lag_max_ms, left_s=left_s)
            return await read_many_keys(replica, part, budget)
        except DuramenError as error:
            return error.as_value()

    # --- writes

    async def write(
        self, parts: Sequence[WritePart], *, timeout: float, patience: float = 0.0
    ) -> list[WriteResult | DuramenError]:
        """Append every part; a result means stable storage. One sync per partition, shared by concurrent writes.

        Outcomes that the replica does not know within `patience` come as `pending`.
        """
        time = asyncio.get_running_loop().time
        ends_s = (began_s := time()) + timeout
        if len(parts) > PARTS_MAX:
            raise too_many_parts(parts)
        refusals, closed, defined = self.node.refusals, self.catalog.closed, self.catalog.defined
        if not self._plain.issuperset(map(_table_of, parts)):
            parts = await asked_where_misfit(parts, self.catalog.map, self._plain)
        if (refusals or (closed and not closed.isdisjoint(map(_table_of, parts)))) and (
            lost := refused_parts(parts, closed, refusals)
        ):
            return await self._write_others(parts, lost, timeout, patience)
        if (turn := Turn() if len(parts) > AT_ONCE_ITEMS_MAX else None) is not None:
            await turn.end()
        appended: Sequence[Appended | DuramenError]
        try:
            appending = self.log.append_many([part[:2] for part in parts], gathered=all(map(_is_gathered, parts)))
            if not isinstance(appending, asyncio.Future):
                async with asyncio.timeout(timeout):
                    appended = await appending
            elif appending.done():
                appended = appending.result()
            else:
                timer = appending.get_loop().call_later(timeout, end_waiting, appending)
                try:
                    appended = await appending
                finally:
                    timer.cancel()
        except (DuramenError, TimeoutError) as error:
            appended = unanswered(parts, error, timeout)
        took_s, measured = time() - began_s, self.times.writes
        measured.counts[bisect_left(measured.bounds, took_s)] += 1
        measured.total += took_s
        results: list[WriteResult | DuramenError] = []
        asked: dict[int, OutcomesPart] = {}
        waits_s = 0.0
        for number, (part, place) in enumerate(zip(parts, appended, strict=True)):
            if isinstance(place, DuramenError):
                results.append(place)
            else:
                results.append(write_result_of((place.base_offset, place.timestamp_ms, (), False)))
                if part.outcomes:
                    asked[number] = OutcomesPart(part.partition, *place)
            if turn is not None and turn.is_full():
                await turn.end()
        if asked:
            asked_s = time()
            until_s = min(ends_s, asked_s + patience) if patience else ends_s
            verdicts = await self._judge_all(list(asked.values()), until_s, acknowledged=True)
            for (number, question), verdict in zip(asked.items(), verdicts, strict=True):
                if not isinstance(verdict, (WriteResult, WriteUnknown)):
                    verdict = unjudged(question, verdict, patient=bool(patience))
                results[number] = verdict
                if turn is not None and turn.is_full():
                    await turn.end()
            waits_s = time() - asked_s
        if took_s + waits_s >= self.long.least_s:
            first = next((place.base_offset for place in appended if isinstance(place, Appended)), None)
            self.long.note(LongRequest("write", began_s, time(), places_of(parts), waits_s, first))
        return await explained(parts, results, defined) if defined and asked else results

    async def _write_others(
        self, parts: Sequence[WritePart], lost: Mapping[PartitionId, DuramenError], timeout: float, patience: float
    ) -> list[WriteResult | DuramenError]:
        others = [part for part in parts if part.partition not in lost]
        done = iter(await self.write(others, timeout=timeout, patience=patience) if others else ())
        return [copy(lost[part.partition]) if part.partition in lost else next(done) for part in parts]

    async def outcomes(self, parts: Sequence[OutcomesPart], *, timeout: float) -> list[WriteResult | DuramenError]:
        """What became of batches that are in the log; each part waits until the replica here has applied it.

        A part whose outcomes are not known here fails with the reason: it is in the log all the same.
        """
        if len(parts) > PARTS_MAX:
            raise too_many_parts(parts)
        time = asyncio.get_running_loop().time
        began_s = time()
        verdicts = await self._judge_all(parts, began_s + timeout)
        if (took_s := time() - began_s) >= self.long.least_s:
            self.long.note(LongRequest("outcomes", began_s, began_s + took_s, places_of(parts), took_s))
        return named(parts, verdicts, self.catalog.defined)

    async def _judge_all(
        self, parts: Sequence[OutcomesPart], ends_s: float, *, acknowledged: bool = False
    ) -> list[WriteResult | DuramenError]:
        callers = TRACED.get()
        began_s = asyncio.get_running_loop().time() if callers else 0.0
        if len(parts) == 1:
            verdicts = [await self._judge(parts[0], ends_s, acknowledged)]  # a lone write pays for nothing else
        else:
            verdicts = await gather_some(parts, lambda part: self._judge(part, ends_s, acknowledged))
        if callers:
            first, waited_s = parts[0], asyncio.get_running_loop().time() - began_s
            self._fresh.trace_wait(callers, waited_s, first.partition, first.after)
        return verdicts

    async def _judge(self, part: OutcomesPart, ends_s: float, acknowledged: bool) -> WriteResult | DuramenError:
        """Wait until a batch is applied, at most until `ends_s` of the loop's time, and return what became of its
        records. `acknowledged`: this process has appended it, so there is no need to ask the log for it.
        """
        time = asyncio.get_running_loop().time
        try:
            try:
                replica = self.node.replica(part.partition)
            except TableNotFound:
                replica = await self._fresh.replica(part.partition, time_left(ends_s - time()))
            if replica.failure is not None:
                replica.check_open()
            if replica.index.applied < part.after:
                wait = replica.progress.wait_written if acknowledged else replica.wait_applied
                await wait(part.after, timeout=max(0.0, ends_s - time()))
            if part.base_offset < replica.applying.compacted:
                return outcome_forgotten(part)  # a second copy may be gone from what was folded here
            if part.after - part.base_offset < AT_ONCE_ITEMS_MAX:
                return judged(part, replica.index.outcomes(part.base_offset, part.after))
            with replica.reading() as index:
                return await asyncio.to_thread(lambda: judged(part, index.outcomes(part.base_offset, part.after)))
        except DuramenError as error:
            return error.as_value()

    # --- scans and watches

    async def scan(self, request: ScanRequest, *, timeout: float) -> ScanResult:
        """One page in key order, read partition by partition, each at one offset of its own.

        Every partition's state is at least as new as `after` says; the page names the offset at which each was read.
        """
        check_scan(request)
        began_s = (time := asyncio.get_running_loop().time)()
        left_s = time_left(timeout)
        async with in_time(timeout, "the table was not looked up"):
            table = await self.tables.known(request.table_id)
        places = [table.partition(each) for each in request.partitions_asked(table.partitions, table.partitioner)]

        async def fresh(strong: bool = True) -> list[Replica]:
            how = partial(self._fresh.fresh, strong=strong, lag_max_ms=request.lag_max_ms, left_s=left_s)
            return await gather_some(places, lambda each: how(each, request.needed(each.partition)))

        replicas = await fresh(request.strong)
        waits_s = time() - began_s
        try:
            page = await found_pages(replicas, request, fresh, self.node.texts.search, left_s)
            if callers := TRACED.get():
                trace_read(callers, time() - began_s - waits_s, page.applied.items())
            return page
        except VersionMissing as error:
            known = self.catalog.map.tables.get(table.id)
            if known is not None and known.has_ended(int(error.fields["version"])):
                error.fields = {**error.fields, "ended": 1}
            raise
        finally:
            self.times.scans.observe(took_s := time() - began_s)
            if took_s >= self.long.least_s:
                self.long.note(LongRequest("scan", began_s, time(), [each.id for each in replicas], waits_s))

    async def watch(
        self, table_id: TableId, start: Mapping[Partition, Offset], partitions: Sequence[Partition] = ()
    ) -> AsyncGenerator[WatchEvent, None]:
        """Follow a table's changes; see `router.data.watch`."""
        table = await self.tables.known(table_id)
        replicas = [self.node.replica(table.partition(each)) for each in partitions or range(table.partitions)]
        async with aclosing(watch_replicas(self.log, replicas, start, self.node.deliveries)) as events:
            async for event in events:
                yield event

    async def producer(
        self, table_id: TableId, producer_id: int, *, timeout: float, partitions: Sequence[Partition] = ()
    ) -> dict[Partition, int]:
        """The last sequence of a producer in each partition that has one, at the log's end."""
        left_s = time_left(timeout)
        found: dict[Partition, int] = {}
        async with in_time(timeout, "the table was not looked up"):
            table = await self.tables.known(table_id)
        turn = Turn()
        for partition in partitions or map(Partition, range(table.partitions)):
            replica = await self._fresh.fresh(PartitionId(table_id, partition), NOTHING, True, left_s=left_s)
            if turn.is_full(OPENING_ITEMS if replica.index.is_at_rest else _PART_ITEMS):
                await turn.end()
            state = replica.index.producer(producer_id)
            if state is not None:
                found[partition] = state.last_sequence
        return found

    # --- tables

    async def create_table(self, spec: TableSpec, *, timeout: float) -> TableRef:
        return await self._machine.create_table(spec, timeout=timeout)

    async def find_table(self, name: str, *, timeout: float) -> TableRef:
        return await self._machine.find_table(name, timeout=timeout)

    async def definition(self, table_id: TableId, *, schema: int = 0, timeout: float) -> TableDefinition | None:
        return await self._machine.definition(table_id, schema=schema, timeout=timeout)

    async def list_tables(self, *, timeout: float) -> list[TableRef]:
        return await self._machine.list_tables(timeout=timeout)

    async def describe_table(self, name: str, *, timeout: float) -> TableDescription:
        return await self._machine.describe_table(name, timeout=timeout)

    async def alter_table(self, name: str, change: TableChange, *, timeout: float) -> TableDefinition:
        return await self._machine.alter_table(name, change, timeout=timeout)

    async def set_retention(self, name: str, *, ms: int | None, size: int | None, timeout: float) -> Retention:
        return await self._machine.set_retention(name, ms=ms, size=size, timeout=timeout)

    async def drop_table(self, name: str, *, timeout: float) -> None:
        await self._machine.drop_table(name, timeout=timeout)

    async def close(self) -> None:
        try:
            await self.tables.close()
        finally:
            async with self._resources or AsyncExitStack() as closing:
                if self._resources is None:
                    for close in (self.log.close, self.catalog.close, self.node.close, self.hosting.close):
                        closing.push_async_callback(close)
