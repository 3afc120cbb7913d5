"""The resumable writer: what it writes, skips, sends again, and what it does after a failure."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from kit.client.table_size import records
from kit.deadlines import patience_s

import duramen.aio
from duramen.client import table_writer
from duramen.client.database import Database
from duramen.client.table import Table
from duramen.client.table_writer import producer_id_of
from log_tier.concurrency.sized_work import AT_ONCE_ITEMS_MAX
from log_tier.model.batch import encode_batch
from log_tier.model.errors import (
    Disconnected,
    DiskFull,
    DuramenError,
    InvalidKey,
    InvalidRequest,
    LogStopped,
    WriteUnknown,
)
from router.data.requests import WritePart, WriteResult

ROWS = [(b"key%05d" % number, b"%d" % number) for number in range(40_000)]


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    opened = await duramen.aio.open(tmp_path / "db", timeout=patience_s(10))
    yield opened
    await opened.close()


@pytest.fixture
async def table(database: Database) -> Table:
    return await database.create_table("t", partitions=3)


async def scanned(table: Table) -> list[tuple[bytes, bytes]]:
    return [pair async for pair in table.scan(level="strong")]


class Faulty:
    """A connection whose writes fail as the test says: before they are sent, or after."""

    def __init__(self, inner: object, *, before: dict[int, DuramenError], after: dict[int, DuramenError]) -> None:
        self._inner = inner
        self._before = before
        self._after = after
        self.calls = 0

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    async def write(
        self, parts: Sequence[WritePart], *, timeout: float, patience: float = 0.0
    ) -> list[WriteResult | DuramenError]:
        self.calls += 1
        if error := self._before.get(self.calls):
            return [error] * len(parts)
        results: list[WriteResult | DuramenError] = await self._inner.write(parts, timeout=timeout)  # type: ignore[attr-defined]
        return [error] * len(parts) if (error := self._after.get(self.calls)) else results


async def test_writes_all_and_then_skips_all(table: Table) -> None:
    async with table.writer("load 1") as writer:
        await writer.put_rows(ROWS)
        done = await writer.flush()
    assert (writer.written, writer.skipped) == (len(ROWS), 0)
    assert sum(offset + 1 for offset in done.offsets.values()) == len(ROWS)
    assert await scanned(table) == ROWS
    async with table.writer("load 1") as again:
        await again.put_rows(ROWS)
    assert (again.written, again.skipped) == (0, len(ROWS))
    async with table.writer("load 2") as other:
        await other.put_rows(ROWS[:10])
    assert other.written == 10


async def test_a_writer_shares_the_loop(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """Encoding thousands of records is a thread's work, and looking at them, or skipping them, is spread over turns."""
    threads: list[int] = []

    def encoded(*args: Any, **how: Any) -> bytes:
        threads.append(threading.get_ident())
        return encode_batch(*args, **how)

    monkeypatch.setattr(table_writer, "encode_batch", encoded)
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    for _ in range(2):
        async with table.writer("load") as writer:
            begun = turns
            await writer.put_rows(ROWS)
            assert turns - begun >= len(ROWS) // AT_ONCE_ITEMS_MAX
    counting.cancel()
    assert threads
    assert threading.get_ident() not in threads


async def test_goes_on_behind_what_was_written(table: Table) -> None:
    async with table.writer("load") as writer:
        await writer.put_rows(ROWS[:12_345])
    async with table.writer("load") as writer:
        await writer.put_rows(ROWS)
    assert (writer.written, writer.skipped) == (len(ROWS) - 12_345, 12_345)
    assert await records(table) == len(ROWS)
    assert await scanned(table) == ROWS


async def test_what_is_sent_twice_takes_effect_once(database: Database, table: Table) -> None:
    lost = WriteUnknown("the reply was lost")
    faulty = Faulty(database.connection, before={1: DiskFull("no space")}, after={2: lost, 4: Disconnected("gone")})
    database.context.connection = faulty  # type: ignore[assignment]
    async with table.writer("load") as writer:
        await writer.put_rows(ROWS)
    assert (writer.written, writer.skipped) == (len(ROWS), 0)
    assert faulty.calls > 4
    assert await records(table) > len(ROWS)  # the second copies are in the log, and void
    assert await scanned(table) == ROWS
    changes = 0
    async for _ in table.watch(start="earliest"):
        changes += 1
        if changes == len(ROWS):
            break


async def test_nothing_is_written_behind_a_failure(database: Database, table: Table) -> None:
    faulty = Faulty(database.connection, before={2: LogStopped("a sync failed")}, after={})
    database.context.connection = faulty  # type: ignore[assignment]
    writer = table.writer("load")
    with pytest.raises(LogStopped):
        async with writer:
            await writer.put_rows(ROWS)
    with pytest.raises(LogStopped):
        await writer.flush()
    assert faulty.calls == 2
    assert writer.written == await records(table)
    async with table.writer("load") as again:
        await again.put_rows(ROWS)
    assert again.skipped == writer.written


async def test_a_log_that_stops_under_a_write_leaves_it_unknown(database: Database, table: Table) -> None:
    stopped = {1: WriteUnknown("a sync failed"), 2: LogStopped("a sync failed")}
    database.context.connection = Faulty(database.connection, before=stopped, after={})  # type: ignore[assignment]
    writer = table.writer("load")
    with pytest.raises(WriteUnknown, match="a sync failed"):
        async with writer:
            await writer.put_rows(ROWS)
    database.context.connection = database.context.connection._inner  # type: ignore[attr-defined]
    async with table.writer("load") as again:
        await again.put_rows(ROWS)
    assert await scanned(table) == ROWS
    assert await scanned(table) == ROWS


async def test_an_error_in_the_block_leaves_a_whole_prefix(table: Table) -> None:
    def rows_with_an_error() -> Iterator[tuple[bytes, bytes]]:
        yield from ROWS
        raise ZeroDivisionError

    writer = table.writer("load")
    with pytest.raises(ZeroDivisionError):
        async with writer:
            await writer.put_rows(rows_with_an_error())
    assert 0 < writer.written < len(ROWS)
    assert await records(table) == writer.written


async def test_what_a_table_would_refuse(table: Table) -> None:
    writer = table.writer("load")
    with pytest.raises(InvalidRequest, match="async with"):
        await writer.put(b"k", b"v")
    async with writer:
        with pytest.raises(InvalidKey):
            await writer.put(b"", b"v")
        await writer.put(b"k", b"v")
    assert writer.written == 1


def test_producer_ids_are_positive_and_stable() -> None:
    ids = {producer_id_of(f"load {number}") for number in range(1000)}
    assert len(ids) == 1000
    assert all(0 < producer < 1 << 63 for producer in ids)
    assert producer_id_of("load 1") == producer_id_of("load 1")
