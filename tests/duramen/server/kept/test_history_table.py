"""A server's history outlives it: written a row a step, read again at the start, and never in the way."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from kit.deadlines import patience_s, until, until_true
from kit.http import http_get
from kit.seen_partitions import seen_partition

from duramen.server.console.history import ServerHistory
from duramen.server.console.history_ring import ServerSample
from duramen.server.kept import history_table
from duramen.server.kept.history_sources import HistorySources
from duramen.server.kept.history_table import HistoryTable
from duramen.server.kept.row_format import parse_row
from duramen.server.roles.all_in_one import SingleServer
from log_tier.model.errors import DiskFull, DuramenError, NotHosted, TableNotFound
from log_tier.model.identifiers import HISTORY_TABLE, PartitionId
from log_tier.model.log import Appended
from router.data.local_data import LocalData
from router.data.requests import ScanRequest
from router.data.seam import Connection

NOW_MS = 1_764_104_400_000


class StubbornLog:
    """The log of a server, which a test has fail."""

    def __init__(self, data: LocalData) -> None:
        self._data = data
        self.failing: DuramenError | None = None
        self.appends = 0

    async def append(self, partition: PartitionId, batch: bytes) -> Appended:
        self.appends += 1
        if self.failing is not None:
            raise self.failing
        return await self._data.log.append(partition, batch)


class Run:
    """One life of a server, whose clock a test sets."""

    def __init__(self, data: LocalData, *, began_ms: int, series: str = "node/n1") -> None:
        self.data = data
        self.log = StubbornLog(data)
        self.history = ServerHistory()
        self.uptime_s = 0.0
        self.began_ms = began_ms

        async def connect() -> Connection:
            return data

        sources = HistorySources(self.log, connect, series)
        self.table = HistoryTable(
            self.history, sources, lambda: self.uptime_s, self.now_ms, next_s=lambda: 0.01, pause_s=0.01
        )

    def now_ms(self) -> int:
        return self.began_ms + round(self.uptime_s * 1000)

    def lives(self, minutes: int) -> None:
        """Look each half minute."""
        for _ in range(2 * minutes):
            self.uptime_s += 30.0
            self.history.record(self.uptime_s, [seen_partition(0, int(self.uptime_s), 0)], ServerSample())


@pytest.fixture
async def data(tmp_path: Path) -> AsyncIterator[LocalData]:
    server = await SingleServer.open(tmp_path / "data", port=0)
    yield server.data_plane
    await server.close()


@asynccontextmanager
async def kept(run: Run) -> AsyncIterator[Run]:
    run.table.start()
    try:
        yield run
    finally:
        await run.table.close()


async def rows(data: Connection) -> list[tuple[bytes, Any]]:
    try:
        table = await data.find_table(HISTORY_TABLE, timeout=patience_s(30))
        page = await data.scan(ScanRequest(table.id, strong=True), timeout=patience_s(30))
    except (TableNotFound, NotHosted):
        return []
    return [(key, parse_row(key, value)) for key, value in zip(page.keys, page.values, strict=True)]


def count_is(data: Connection, count: int) -> Callable[[], Awaitable[bool]]:
    async def check() -> bool:
        return len(await rows(data)) == count

    return check


async def test_each_step_is_one_row_once_it_is_over(data: LocalData) -> None:
    async with kept(Run(data, began_ms=NOW_MS)) as run:
        assert await rows(data) == [], "a server that is young has not even made the table"
        run.lives(3)
        await until_true(count_is(data, 3))
        found = await rows(data)
        assert [each.last[0] for _, each in found] == [30, 90, 150]
        assert found[0][0] == b"node/n1/%013d" % (NOW_MS + 30_000)
        appends = run.log.appends
        run.lives(1)
        await until_true(count_is(data, 4))
        assert run.log.appends == appends + 1, "one append for each step"
        assert run.table.state.written_ms == NOW_MS + 210_000


async def test_a_server_that_is_started_again_shows_its_past(data: LocalData) -> None:
    async with kept(Run(data, began_ms=NOW_MS)) as run:
        run.lives(5)
        await until_true(count_is(data, 5))
    async with (
        kept(Run(data, began_ms=NOW_MS + 20 * 60_000)) as other,
        kept(Run(data, began_ms=NOW_MS + 20 * 60_000, series="node/n10")) as stranger,
    ):
        await until(lambda: other.table.state.is_read and stranger.table.state.is_read)
        assert len(other.history.week) == 5
        assert len(stranger.history.week) == 0, "rows of other servers are theirs"
        found = other.history.week.points(-20 * 60, -1, 60)
        assert [rows[0].last[0] for rows in found if rows] == [30, 90, 150, 210, 270]
        other.lives(1)
        other.lives(1)
        await until_true(count_is(data, 7))
    assert len(await rows(data)) == 7, "what was read is not written again"


async def test_rows_of_the_future_and_of_other_versions_are_left_out(
    data: LocalData, caplog: pytest.LogCaptureFixture
) -> None:
    """A clock that was wrong by an hour, and a release that writes another format."""
    async with kept(Run(data, began_ms=NOW_MS + 3_600_000)) as run:
        run.lives(2)
        await until_true(count_is(data, 2))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(history_table, "row_value", lambda *_: b"of a later release")
        async with kept(Run(data, began_ms=NOW_MS)) as run:
            run.lives(3)
            table = (await data.find_table(HISTORY_TABLE, timeout=patience_s(30))).id

            async def five() -> bool:
                page = await data.scan(ScanRequest(table, strong=True), timeout=patience_s(30))
                return len(page.keys) == 5

            await until_true(five)
    async with kept(Run(data, began_ms=NOW_MS + 20 * 60_000)) as other:
        await until(lambda: other.table.state.is_read)
        assert other.table.state.left_out == 3
        assert len(other.history.week) == 0
    assert "3 rows of _duramen_history are of another version" in caplog.text


async def test_a_log_that_fails_is_said_once_and_nothing_is_missing(
    data: LocalData, caplog: pytest.LogCaptureFixture
) -> None:
    async with kept(Run(data, began_ms=NOW_MS)) as run:
        run.lives(2)
        await until_true(count_is(data, 2))
        run.log.failing = DiskFull("the disk of the log is full")
        run.lives(80)
        before = run.log.appends
        await until(lambda: run.log.appends >= before + 3)
        assert run.table.state.error == "the disk of the log is full"
        assert caplog.text.count("the history is kept in memory alone for now") == 1
        run.log.failing = None
        await until_true(count_is(data, 82))
        await until(lambda: run.table.state.error == "")
        assert "nothing of it is missing" in caplog.text


async def test_a_table_that_cannot_be_read_is_read_later(data: LocalData, monkeypatch: pytest.MonkeyPatch) -> None:
    async with kept(Run(data, began_ms=NOW_MS)) as run:
        run.lives(2)
        await until_true(count_is(data, 2))
    scan, answers = LocalData.scan, asyncio.Event()

    async def refused(self: LocalData, request: ScanRequest, *, timeout: float) -> Any:
        if not answers.is_set():
            raise DiskFull("no answer")
        return await scan(self, request, timeout=timeout)

    monkeypatch.setattr(LocalData, "scan", refused)
    async with kept(Run(data, began_ms=NOW_MS + 20 * 60_000)) as other:
        other.lives(2)
        await until(lambda: other.table.state.error != "" and other.table.state.written_ms is not None)
        assert not other.table.state.is_read
        answers.set()
        await until(lambda: other.table.state.is_read)
        assert [rows[0].last[0] for rows in other.history.week.points(-20 * 60, -1, 60) if rows] == [30, 90]
        await until(lambda: other.table.state.error == "")


@pytest.mark.parametrize(
    ("history", "expected"),
    [(False, None), (True, {"is_read": True, "written_ms": None, "error": "", "left_out": 0})],
)
async def test_the_setting_switches_it_off(tmp_path: Path, history: bool, expected: dict[str, Any] | None) -> None:
    server = await SingleServer.open(tmp_path / "data", port=0)
    try:
        await server.serve_http(0, history=history)
        found: list[Any] = []

        async def is_said() -> bool:
            found.append(json.loads((await http_get(server.http_port, "/history?since=-60"))[2])["kept"])
            return bool(found[-1] == expected)

        await until_true(is_said)
        assert found[-1] == expected
    finally:
        await server.close()


async def test_a_real_server_shows_what_was_before_it_began(tmp_path: Path) -> None:
    server = await SingleServer.open(tmp_path / "data", port=0)
    try:
        now_ms = time.time_ns() // 1_000_000
        async with kept(Run(server.data_plane, began_ms=now_ms - 20 * 60_000, series="single/n1")) as run:
            run.lives(5)
            await until_true(count_is(server.data_plane, 5))
        await server.serve_http(0, history=True)
        found: list[Any] = []

        async def is_shown() -> bool:
            found.append(json.loads((await http_get(server.http_port, "/history?since=-3600"))[2]))
            return bool(found[-1]["kept"]["is_read"])

        await until_true(is_shown)
        lags = found[-1]["all"]["lag_records"]
        assert sum(lag is not None for lag in lags) in (5, 6), "five minutes, and what is known since"
        assert lags[-1] is not None or lags[-2] is not None or len(found) == 1
        assert found[-1]["kept_step_s"] == 60
        assert None in lags[lags.index(30) + 5 :], "and the time in between is a gap"
    finally:
        await server.close()
