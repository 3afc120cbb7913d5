"""The writer of a server's audit: what its `AuditTrail` holds becomes rows of the table `_duramen_audit`.

It writes in the background, by the server's own way to the data, and makes the table once the catalog has users. What
cannot be written is tried again until it can: rows keep their keys, so one that is written twice is there once. What
the queue has no room for meanwhile is counted, in a row of its own.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final

from log_tier.access.gate import Gate
from log_tier.audit.audit_event import AuditEvent
from log_tier.audit.audit_row import AuditRow
from log_tier.audit.audit_trail import AuditTrail
from log_tier.audit.row_format import row_key, row_value
from log_tier.concurrency.background import Failed, run_forever
from log_tier.concurrency.backoff import Backoff
from log_tier.concurrency.tasks import end_tasks
from log_tier.model.batch import Columns, encode_batch
from log_tier.model.errors import DuramenError, ShuttingDown, TableExists, TableNotFound
from log_tier.model.identifiers import AUDIT_TABLE, Partition
from log_tier.model.record import Expiry, Operation, attribute_of
from log_tier.model.retention import Retention
from log_tier.model.table_ref import TableRef
from log_tier.rows.table_spec import TableSpec
from log_tier.trust.grants import cut_key_prefix
from router.data.requests import WritePart
from router.data.seam import Connection

__all__ = ["AuditWriter"]

logger = logging.getLogger(__name__)

# Their texts have some 300 bytes each, 2 KiB at most.
_ROWS_AT_ONCE: Final = 500
_TIMEOUT_S: Final = 10.0
_PAUSE_FIRST_S: Final = 0.2
_PAUSE_MAX_S: Final = 5.0

# A server that stops waits so long for a table that cannot be written.
_ENDING_S: Final = 3.0

_TTL: Final = attribute_of(Operation.PUT, expiry=Expiry.TTL)

# All rows of a second are together: each write costs one sync.
_PARTITIONS: Final = 1


class AuditWriter:
    """Writes the rows of one server. `start()` begins, `close()` writes what is left. Belongs to one event loop."""

    def __init__(
        self, trail: AuditTrail, gate: Gate, connect: Callable[[], Awaitable[Connection]], *, server: str
    ) -> None:
        """`connect`: a way to the data, which stays its owner's. `server`: its name in the rows."""
        self._trail = trail
        self._gate = gate
        self._connect = connect
        self._server = server
        self._process = secrets.token_hex(4)
        self._table: TableRef | None = None
        self._closed_gate = asyncio.Event()
        self._leave = gate.on_change(self._look)
        self._task: asyncio.Task[None] | None = None
        self._look()

    def start(self, *, failed: Failed) -> None:
        """Begin to write. `failed` is called if that ends by a bug."""
        assert self._task is None, "the writer of an audit was started twice"
        self._task = run_forever(self._run(), name="writing the audit", failed=failed)

    def _look(self) -> None:
        if self._gate.is_closed:
            self._closed_gate.set()

    async def _run(self) -> None:
        await self._closed_gate.wait()
        await self._until_done(self._ready_table)
        while True:
            rows = await self._trail.next_rows(_ROWS_AT_ONCE)
            await self._until_done(lambda rows=rows: self._write(rows))  # type: ignore[misc]
            self._trail.queue.wrote(len(rows))

    async def _until_done(self, work: Callable[[], Awaitable[object]]) -> None:
        """Do it, again and again where it fails. The first failure is logged, and the end of them."""
        backoff: Backoff | None = None
        while True:
            try:
                await work()
                if backoff is not None:
                    logger.warning("the audit is written again: %d events were lost", self._trail.queue.lost)
                return
            except ShuttingDown:
                raise
            except DuramenError as error:
                if backoff is None:
                    backoff = Backoff(_PAUSE_FIRST_S, _PAUSE_MAX_S)
                    logger.warning("the audit cannot be written, its events wait: %s", error)
                await backoff.pause()

    async def _ready_table(self) -> TableRef:
        """The table, made where there is none yet. Servers that make it at once end with the same one."""
        if self._table is None:
            connection = await self._connect()
            try:
                self._table = await connection.find_table(AUDIT_TABLE, timeout=_TIMEOUT_S)
            except TableNotFound:
                keeps = Retention(self._trail.settings.retention_ms)
                spec = TableSpec(AUDIT_TABLE, _PARTITIONS, retention=keeps, of_servers=True)
                with suppress(TableExists):
                    await connection.create_table(spec, timeout=_TIMEOUT_S)
                self._table = await connection.find_table(AUDIT_TABLE, timeout=_TIMEOUT_S)
        return self._table

    async def _write(self, rows: Sequence[AuditRow]) -> None:
        """Return when the rows are on stable storage. Raises what the data plane says."""
        table = await self._ready_table()
        connection = await self._connect()
        keyed: dict[Partition, list[tuple[bytes, bytes]]] = {}
        for row in rows:
            key = row_key(row, self._server, self._process)
            keyed.setdefault(table.partition_of(key), []).append(
                (key, row_value(row, self._server, self._key_text(row.event)))
            )
        ttl_ms = self._trail.settings.retention_ms
        parts = [WritePart(table.partition(partition), _batch(entries, ttl_ms)) for partition, entries in keyed.items()]
        for result in await connection.write(parts, timeout=_TIMEOUT_S):
            if isinstance(result, TableNotFound):
                self._table = None  # another one may be there
            if isinstance(result, DuramenError):
                raise result

    def _key_text(self, event: AuditEvent) -> str:
        """What the event's key is in fields; empty: it has none."""
        return self._gate.key_text(event.table, cut_key_prefix(event.key)) if event.table and event.key else ""

    async def close(self) -> None:
        """Write what is left, for a short time. To be called when no call is under way any more. Idempotent."""
        self._leave()
        task, self._task = self._task, None
        queue = self._trail.queue
        try:
            await end_tasks(task)
        finally:
            queue.end()
        if task is None or not queue:
            return
        try:
            async with asyncio.timeout(_ENDING_S):
                while rows := queue.ready(_ROWS_AT_ONCE):
                    await self._write(rows)
                    queue.wrote(len(rows))
        except (TimeoutError, DuramenError) as error:
            left = sum(row.count for row in queue.ready(len(queue)))
            logger.error("%d events of the audit are lost, the server stops and cannot write them: %s", left, error)


def _batch(entries: Sequence[tuple[bytes, bytes]], ttl_ms: int) -> bytes:
    keys, values = zip(*entries, strict=True)
    count = len(entries)
    return encode_batch(Columns(keys, values, attributes=[_TTL] * count, expiries=[ttl_ms] * count), compress=True)
