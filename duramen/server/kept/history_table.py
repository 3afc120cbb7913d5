"""Writes the steps of a server's week to the table `_duramen_history`, and reads those of before its start.

In the background, and never in the way: what fails is tried again at the next step, from what memory holds.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

from duramen.server.console.history import WEEK_S, ServerHistory
from duramen.server.console.history_ring import HistoryRow
from duramen.server.kept.history_sources import HistorySources
from duramen.server.kept.kept_state import KeptState
from duramen.server.kept.row_format import (
    ROW_PARTITIONS_MAX,
    KeptRow,
    first_key_at,
    key_behind,
    parse_row,
    row_key,
    row_value,
)
from log_tier.concurrency.background import run_forever
from log_tier.concurrency.backoff import Backoff
from log_tier.concurrency.sized_work import run_sized
from log_tier.concurrency.tasks import end_tasks
from log_tier.model.batch import Columns, encode_batch
from log_tier.model.errors import DuramenError, TableExists, TableNotFound, UnknownFormat
from log_tier.model.identifiers import HISTORY_TABLE, PartitionId
from log_tier.model.record import Expiry, Operation, attribute_of
from log_tier.model.retention import Retention
from log_tier.model.table_ref import TableRef
from log_tier.rows.table_spec import TableSpec
from router.data.requests import ScanRequest

__all__ = ["HistoryTable"]

logger = logging.getLogger(__name__)

_TIMEOUT_S: Final = 10.0

_ROWS_AT_ONCE: Final = 64
"""Rows of one append, and of a page that is read: after an hour without a log there are so many."""

# A read that fails at the start, because replicas are not there yet, is tried again sooner than a step.
PAUSE_FIRST_S: Final = 1.0
_PAUSE_MAX_S: Final = 30.0

_WEEK_MS: Final = WEEK_S * 1000
_TTL: Final = attribute_of(Operation.PUT, expiry=Expiry.TTL)
_PARTITIONS: Final = 1

# To write a row costs as much as so many keys of a read, and each partition of it. A page of rows is always read in a
# thread: nobody knows how many partitions they have.
_ROW_ITEMS: Final = 30
_PARTITION_ITEMS: Final = 1
_PAGE_ITEMS: Final = 1 << 20


class HistoryTable:
    """Keeps one server's history in the table. Belongs to its event loop; `start()` begins, `close()` ends it."""

    def __init__(
        self,
        history: ServerHistory,
        sources: HistorySources,
        uptime_s: Callable[[], float],
        now_ms: Callable[[], int],
        *,
        next_s: Callable[[], float] | None = None,
        pause_s: float = PAUSE_FIRST_S,
    ) -> None:
        """`uptime_s`: the clock of the history; `now_ms`: the wall clock. `next_s`: how long to wait for the next step;
        None: until it is over. `pause_s`: before the table is read again that could not be.
        """
        self._history = history
        self._sources = sources
        self._uptime_s = uptime_s
        self._now_ms = now_ms
        self._next_s = next_s or self._left_of_step_s
        self._pause_s = pause_s
        self._written_s = -1.0
        """The time of the newest row that was written; those of before the start are in the table."""
        self._has_warned = False
        self._table: TableRef | None = None
        self._task: asyncio.Task[None] | None = None
        self.state = KeptState()

    def start(self) -> None:
        """Begin to read and write."""
        assert self._task is None, "the history is kept already"
        self._task = run_forever(self._run(), name="keeping the history")

    async def close(self) -> None:
        """Write no longer. The step under way is not written. Idempotent."""
        await end_tasks(self._task)

    async def _run(self) -> None:
        backoff = Backoff(self._pause_s, _PAUSE_MAX_S)
        while True:
            if not self.state.is_read:
                await self._tried(self._read)
            await self._tried(self._write)
            if self.state.is_read:
                await asyncio.sleep(self._next_s())
            else:
                await backoff.pause()

    def _left_of_step_s(self) -> float:
        """Seconds until the next step is over, and the first look of the one behind it was made."""
        step_s = self._history.week.step_s
        return step_s - self._uptime_s() % step_s + self._history.hour.step_s

    async def _tried(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do it. The first failure is logged, and the end of them."""
        try:
            async with asyncio.timeout(_TIMEOUT_S * 2):
                await work()
        except (DuramenError, TimeoutError) as error:
            why = error.message if isinstance(error, DuramenError) else f"no answer within {_TIMEOUT_S * 2:g} s"
            # While a cluster starts, replicas and logs are on their way.
            if not self._has_warned and self._uptime_s() > _PAUSE_MAX_S:
                self._has_warned = True
                logger.warning("the history is kept in memory alone for now, %s cannot be used: %s", HISTORY_TABLE, why)
            self.state = self.state._replace(error=why)
            return
        if self.state.error and self.state.is_read and work == self._write:
            self.state = self.state._replace(error="")
            if self._has_warned:
                self._has_warned = False
                logger.warning("the history is kept in %s again, and nothing of it is missing", HISTORY_TABLE)

    def describe(self) -> dict[str, Any]:
        """How it stands with the table, as JSON."""
        return self.state._asdict()

    # --- what was

    async def _read(self) -> None:
        """Restore the last week of the series. Nothing where there is no table yet."""
        connection = await self._sources.connect()
        try:
            table = await connection.find_table(HISTORY_TABLE, timeout=_TIMEOUT_S)
        except TableNotFound:
            self.state = KeptState(is_read=True)
            return
        self._table = table
        now_ms, series, left_out = self._now_ms(), self._sources.series, 0
        start, end = first_key_at(series, now_ms - _WEEK_MS), key_behind(series)
        found: list[KeptRow] = []
        while True:
            page = await connection.scan(
                ScanRequest(table.id, start, end, limit=_ROWS_AT_ONCE, strong=True), timeout=_TIMEOUT_S
            )
            parsed = await run_sized(_PAGE_ITEMS, partial(_parsed, page.keys, page.values))
            found += parsed
            left_out += len(page.keys) - len(parsed)
            if not page.more:
                break
            start = page.keys[-1] + b"\0"
        # A clock that was wrong has written of times that are yet to come.
        now_s, now_ms = self._uptime_s(), self._now_ms()
        rows = [each.at(now_s - (now_ms - each.time_ms) / 1000) for each in found if each.time_ms <= now_ms]
        self._history.restore(rows)
        if left_out:
            logger.warning("%d rows of %s are of another version, and not shown", left_out, HISTORY_TABLE)
        self.state = self.state._replace(is_read=True, error="", left_out=left_out)

    # --- what is

    async def _write(self) -> None:
        """Write the steps that are over and not written yet."""
        history = self._history
        while rows := history.week.after(self._written_s)[:_ROWS_AT_ONCE]:
            partition = await self._ready_partition()
            step_s, offset_ms = history.week.step_s, self._now_ms() - self._uptime_s() * 1000
            items = _ROW_ITEMS + _PARTITION_ITEMS * sum(min(len(row.names), ROW_PARTITIONS_MAX) for row in rows)
            batch = await run_sized(items, partial(_batch, rows, self._sources.series, offset_ms, step_s))
            try:
                async with asyncio.timeout(_TIMEOUT_S):
                    await self._sources.log.append(partition, batch)
            except TableNotFound:
                self._table = None  # another one may be there
                raise
            self._written_s = rows[-1].at_s
            self.state = self.state._replace(written_ms=round(offset_ms + rows[-1].at_s * 1000))

    async def _ready_partition(self) -> PartitionId:
        """The table's only partition; the table is made where there is none yet. Servers that make it at once end with
        the same one.
        """
        if self._table is None:
            connection = await self._sources.connect()
            try:
                self._table = await connection.find_table(HISTORY_TABLE, timeout=_TIMEOUT_S)
            except TableNotFound:
                spec = TableSpec(HISTORY_TABLE, _PARTITIONS, retention=Retention(_WEEK_MS), of_servers=True)
                with suppress(TableExists):
                    await connection.create_table(spec, timeout=_TIMEOUT_S)
                self._table = await connection.find_table(HISTORY_TABLE, timeout=_TIMEOUT_S)
        return self._table.partition(0)


def _parsed(keys: Sequence[bytes], values: Sequence[bytes]) -> list[KeptRow]:
    found: list[KeptRow] = []
    for key, value in zip(keys, values, strict=True):
        with suppress(UnknownFormat):
            found.append(parse_row(key, value))
    return found


def _batch(rows: Sequence[HistoryRow], series: str, offset_ms: float, step_s: int) -> bytes:
    keys = [row_key(series, round(offset_ms + row.at_s * 1000)) for row in rows]
    values = [row_value(row, step_s) for row in rows]
    count = len(rows)
    return encode_batch(Columns(keys, values, attributes=[_TTL] * count, expiries=[_WEEK_MS] * count))
