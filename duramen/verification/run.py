"""One check: a table of its own, clients and watchers on it for a while, then the log and every replica read back."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import Any, Final

from duramen import aio
from duramen.client.database import Database
from duramen.client.table import Table
from duramen.verification.history import BuiltPart, Call, History, LogRecord
from duramen.verification.observations import (
    HEAL_S,
    differences,
    join_dropped,
    read_log,
    read_served_log,
    tell_void,
    void_records,
)
from duramen.verification.recorder import Recorder
from duramen.verification.replicas import read_replicas
from duramen.verification.watcher import run_watcher
from duramen.verification.workload import WorkloadShape, run_client
from log_tier.concurrency.backoff import Backoff
from log_tier.model.errors import Unavailable, WriteUnknown
from log_tier.model.identifiers import Offset, Partition
from log_tier.model.table_ref import TableRef
from log_tier.model.tokens import Token

__all__ = ["Connect", "beyond", "connect_to", "run_check"]

Connect = Callable[[], Awaitable[Database]]
"""Makes a new client, with a session of its own."""

_PAUSE_FIRST_S: Final = 0.1
_PAUSE_MAX_S: Final = 1.0

_PAGE: Final = 2000


async def run_check(
    connect: Connect,
    *,
    seconds: float,
    seed: str,
    shape: WorkloadShape,
    partitions: int = 4,
    replicas: int | None = None,
    earlier: History | None = None,
    keep_table: bool = False,
    targets: Sequence[str] = (),
    faults: Callable[[asyncio.Event], Coroutine[Any, Any, None]] | None = None,
    log_url: str | None = None,
    dropped: Callable[[TableRef], Iterable[LogRecord]] | None = None,
    builds: dict[str, list[BuiltPart]] | None = None,
    clock: Callable[[], int] = time.monotonic_ns,
) -> History:
    """Run the workload and return the whole history.

    `faults` breaks things until the event it gets is set, and returns when everything is alive again. `targets`: a
    server that names the nodes, so that each replica can be read by itself; none: replicas are not read. `log_url`:
    where the log is, so that it is read without a server between, and what servers give of it is compared. `dropped`:
    what a log that is trimmed meanwhile has lost, and perhaps more of it; needs `log_url`. `builds`: what was
    built for the table meanwhile, as a history has it; the builder adds to it. `clock`: nanoseconds, for the times
    of calls. `replicas`: of the table; None: as `create_table` chooses. `earlier`: a check that has
    kept its table, which this one goes on with; the log may have lost what that one wrote. `keep_table`: it is dropped
    otherwise.

    Raises what keeps the check from being made at all, `Unavailable` where the cluster does not heal.
    """
    recorder = Recorder(_perhaps_written(earlier), clock=clock)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    async with AsyncExitStack() as opened:

        async def client() -> Database:
            return await opened.enter_async_context(await connect())

        first = await client()
        table = await _table(first, earlier, partitions, replicas)
        ref = table.lookup.ref or await table.lookup.resolve()
        start = Token({ref.id: {Partition(number): Offset(-1) for number in range(partitions)}})
        ended: asyncio.Future[Token] = loop.create_future()
        watchers = [
            asyncio.create_task(
                run_watcher(
                    1000 + number,
                    (await client()).table(table.name),
                    ref,
                    recorder,
                    seed=seed,
                    stop=stop,
                    start=start,
                    until=asyncio.shield(ended),
                    late_s=shape.late_s * (number % 2),
                    compacted=shape.compacted,
                )
            )
            for number in range(shape.watchers)
        ]
        clients = [
            asyncio.create_task(
                run_client(number, (await client()).table(table.name), ref, recorder, shape, seed=seed, stop=stop)
            )
            for number in _numbers(shape, earlier)
        ]
        breaking = asyncio.create_task((_no_faults if faults is None else faults)(stop))
        try:
            await _until(seconds, stop, [*clients, *watchers, breaking])
            await asyncio.gather(*clients)
            await breaking
            end = await _mark_the_end(first, table, ref, recorder)
            ended.set_result(end)
            await asyncio.gather(*watchers)
        finally:
            for task in (*clients, *watchers, breaking):
                task.cancel()
            await asyncio.gather(*clients, *watchers, breaking, return_exceptions=True)
        about = {"seed": seed, "seconds": seconds, "table": table.name}
        history = History(partitions, recorder.calls, about=about, builds={} if builds is None else builds)

        read = _LogReader(first, ref, log_url, dropped, recorder)
        history.log = await read.up_to(end)
        for target in targets[:1]:
            await read_replicas(target, ref, _end_of(history.log), recorder)
            if further := beyond(end, ref, recorder.calls):
                history.log = await read.up_to(further)
        if not keep_table:
            await first.drop_table(table.name)
        return history


async def _table(database: Database, earlier: History | None, partitions: int, replicas: int | None) -> Table:
    """A new one, or that of an earlier check."""
    if earlier is not None:
        return database.table(earlier.about["table"])
    return await database.create_table(f"check-{secrets.token_hex(4)}", partitions=partitions, replicas=replicas)


@dataclass(frozen=True)
class _LogReader:
    """Reads the table's log as a server gives it, and itself where its address is known."""

    database: Database
    ref: TableRef
    log_url: str | None
    dropped: Callable[[TableRef], Iterable[LogRecord]] | None
    recorder: Recorder

    async def up_to(self, end: Token) -> list[LogRecord]:
        served = await read_served_log(self.database.connection, self.ref, end)
        if self.log_url is None:
            return served
        return await _read_log_itself(self.log_url, self.ref, end, served, self.dropped, self.recorder)


async def _read_log_itself(
    url: str,
    ref: TableRef,
    end: Token,
    served: list[LogRecord],
    dropped: Callable[[TableRef], Iterable[LogRecord]] | None,
    recorder: Recorder,
) -> list[LogRecord]:
    """The log up to `end` without a server between, from its first record on; what differs is recorded."""
    call = recorder.begin(-1, "served", session=False)
    log = await read_log(url, ref, end)
    found = differences(served, log, trimmed=dropped is not None)
    tell_void(log, served)
    if dropped is not None:
        kept = {(record.partition, record.offset): record for record in dropped(ref)}
        again = [record for record in log if (record.partition, record.offset) in kept]
        gone = void_records(kept.values(), log)
        left = [record for record in kept.values() if (record.partition, record.offset) not in gone]
        found += differences(left, again, trimmed=True)
        log = join_dropped(kept.values(), log)
    recorder.end(call, "ok", differences=found)
    return log


def _perhaps_written(earlier: History | None) -> list[Call]:
    """What an earlier check has written, of which the log may have lost anything."""
    if earlier is None:
        return []
    writes = [call for call in earlier.calls if call.kind in ("write", "batch")]
    return [call if call.outcome == "failed" else replace(call, outcome="unknown", reply={}) for call in writes]


def _numbers(shape: WorkloadShape, earlier: History | None) -> range:
    """Of the clients: others than an earlier check's, so that no two write the same values."""
    first = 0 if earlier is None else 1 + max((call.client for call in earlier.calls if call.client < 1000), default=0)
    return range(first, first + shape.clients)


async def _no_faults(stop: asyncio.Event) -> None:
    await stop.wait()


async def _until(seconds: float, stop: asyncio.Event, tasks: Sequence[asyncio.Task[None]]) -> None:
    """Let it run; a task that fails ends the check with its reason."""
    await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_EXCEPTION)
    stop.set()
    for task in tasks:
        if task.done():
            task.result()


async def _mark_the_end(database: Database, table: Table, ref: TableRef, recorder: Recorder) -> Token:
    """One last put in each partition: what every watcher and every replica must reach."""
    token = Token({ref.id: {}})
    for number in range(ref.partitions):
        key = next(key for key in (b"end%d" % k for k in range(10_000)) if ref.partition_of(key) == number)
        backoff = Backoff(_PAUSE_FIRST_S, _PAUSE_MAX_S, deadline_s=asyncio.get_running_loop().time() + HEAL_S)
        while True:
            value = secrets.token_hex(8).encode()
            operations = [{"operation": "put", "key": key.decode(), "value": value.decode(), "condition": ""}]
            call = recorder.begin(-1, "write", operations=operations, session=False)
            call.partition = number
            try:
                done = await table.put(key, value, timeout=10)
            except (Unavailable, WriteUnknown) as error:
                unknown = isinstance(error, WriteUnknown)
                recorder.end(call, "unknown" if unknown else "failed", error=error.code)
                if not await backoff.pause():
                    raise
            else:
                recorder.end(call, "ok", offset=done.offset)
                token = token.merge(Token.parse(done.token))
                break
    return token


def beyond(end: Token, ref: TableRef, calls: Iterable[Call]) -> Token | None:
    """What replicas were read at, where one is beyond `end`: a no-op may have let keys expire after the last write."""
    reached = end
    for call in calls:
        if call.kind == "replica" and call.outcome == "ok":
            reached = reached.merge(Token.of(ref.id, Partition(call.partition), Offset(call.reply["applied"])))
    return None if reached == end else reached


def _end_of(log: Sequence[LogRecord]) -> dict[Partition, Offset]:
    """The offsets that every replica can reach: a log that lost what it acknowledged last ends before the last mark."""
    return {Partition(record.partition): Offset(record.offset) for record in log}  # by offset: the last one stays


def connect_to(target: str, *, timeout: float) -> Connect:
    """Clients of a server."""

    async def connect() -> Database:
        return await aio.connect(target, timeout=timeout)

    return connect
