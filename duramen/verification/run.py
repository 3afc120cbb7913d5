"""One check: a table of its own, clients and watchers on it for a while, then the log and every replica read back."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any, Final

from duramen import aio
from duramen.client.database import Database
from duramen.client.table import Table
from duramen.verification.history import Call, History, LogRecord
from duramen.verification.observations import HEAL_S, differences, join_dropped, read_log, read_served_log, void_records
from duramen.verification.workload import Recorder, WorkloadShape, run_client, run_watcher
from log_tier.catalog.remote import fetch_view
from log_tier.concurrency.backoff import Backoff
from log_tier.model.errors import Unavailable, WriteUnknown
from log_tier.model.identifiers import Offset, Partition, PartitionId
from log_tier.model.table_ref import TableRef
from log_tier.model.tokens import Token
from router.data.requests import ScanRequest
from router.remote.grpc_connection import GrpcConnection

__all__ = ["Connect", "connect_to", "run_check"]

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
    faults: Callable[[asyncio.Event], Awaitable[None]] | None = None,
    log_url: str | None = None,
    dropped: Callable[[TableRef], Iterable[LogRecord]] | None = None,
    clock: Callable[[], int] = time.monotonic_ns,
) -> History:
    """Run the workload and return the whole history.

    `faults` breaks things until the event it gets is set, and returns when everything is alive again. `targets`: a
    server that names the nodes, so that each replica can be read by itself; none: replicas are not read. `log_url`:
    where the log is, so that it is read without a server between, and what servers give of it is compared. `dropped`:
    what a log that is trimmed meanwhile has lost, and perhaps more of it; needs `log_url`. `clock`: nanoseconds, for
    the times of calls. `replicas`: of the table; None: as `create_table` chooses. `earlier`: a check that has
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
        if earlier is None:
            table = await first.create_table(f"check-{secrets.token_hex(4)}", partitions=partitions, replicas=replicas)
        else:
            table = first.table(earlier.about["table"])
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
        breaking = asyncio.create_task(_no_faults(stop) if faults is None else _awaited(faults(stop)))
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
        history = History(partitions, recorder.calls, about={"seed": seed, "seconds": seconds, "table": table.name})
        history.log = await read_served_log(first.connection, ref, end)
        if log_url is not None:
            history.log = await _read_log_itself(log_url, ref, end, history.log, dropped, recorder)
        for target in targets[:1]:
            await _read_replicas(target, ref, _end_of(history.log), recorder)
        if not keep_table:
            await first.drop_table(table.name)
        return history


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
    _tell_void(log, served)
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


def _tell_void(log: list[LogRecord], served: list[LogRecord]) -> None:
    """The log does not know which of its records changed nothing; the servers say so, as far back as they know it."""
    void = {(record.partition, record.offset): record.void for record in served}
    for record in log:
        record.void = record.void or void.get((record.partition, record.offset))


async def _no_faults(stop: asyncio.Event) -> None:
    await stop.wait()


async def _awaited(work: Awaitable[None]) -> None:
    await work


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


def _end_of(log: Sequence[LogRecord]) -> dict[Partition, Offset]:
    """The offsets that every replica can reach: a log that lost what it acknowledged last ends before the last mark."""
    return {Partition(record.partition): Offset(record.offset) for record in log}  # by offset: the last one stays


async def _read_replicas(target: str, ref: TableRef, end: Mapping[Partition, Offset], recorder: Recorder) -> None:
    """Each replica's whole content, asked of its node and of nobody else."""
    view = await fetch_view(target, timeout=10)
    table = view.map.table(ref.id)
    for partition, offset in end.items():
        for node in table.readable(partition):
            connection = GrpcConnection(view.map.nodes[node].address)
            try:
                await _read_replica(connection, node, ref.partition(partition), offset, recorder)
            finally:
                await connection.close()


async def _read_replica(
    connection: GrpcConnection, node: str, partition: PartitionId, offset: Offset, recorder: Recorder
) -> None:
    table_id, number = partition
    call = recorder.begin(-1, "replica", node=node, session=False)
    call.partition = number
    entries: list[list[Any]] = []
    applied: int = offset
    begin = b""
    while True:
        request = ScanRequest(table_id, begin, limit=_PAGE, after={number: offset}, partitions=(number,))
        page = await connection.scan(request, timeout=HEAL_S)
        applied = page.applied[number]
        entries += [
            [key.decode(), value.decode(), version]
            for key, value, version in zip(page.keys, page.values, page.versions, strict=True)
        ]
        if not page.more or not page.keys:
            break
        begin = page.keys[-1] + b"\x00"
    recorder.end(call, "ok", applied=applied, entries=entries)


def connect_to(target: str, *, timeout: float) -> Connect:
    """Clients of a server."""

    async def connect() -> Database:
        return await aio.connect(target, timeout=timeout)

    return connect
