"""How the log's server is, where that is another process: it is asked in the background, as it streams no status.

The question is `Cluster/Status`, whose document every log server answers. What a router or a node sees of the log
otherwise, that writes fail or that replicas hear nothing, does not say whether its disk fills or its clock is wrong.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from typing import Any, Final

from duramen.server.sight.observed import CertificateExpiry, LogServerSeen
from log_tier.concurrency.background import run_forever
from log_tier.concurrency.clocks import SYSTEM_CLOCK, Clock
from log_tier.concurrency.tasks import end_tasks
from log_tier.model.errors import DuramenError
from log_tier.model.log import Log
from log_tier.remote.remote_log import RemoteLog
from log_tier.rpc.problems import without_advice

__all__ = ["LogWatch", "seen_of"]

_ASK_EVERY_S: Final = 5.0
"""A disk fills in minutes at the fastest. Twenty servers ask a log four times a second."""

_ANSWER_S_MAX: Final = 3.0
"""The clock may be read as much earlier than its answer comes: well below the skew that is warned of."""

_REASON_CHARS_MAX: Final = 300

_CERTIFICATES_MAX: Final = 8
"""A server has its own and that of its CA."""

_STATUS_FORMAT: Final = 1

_SECONDS_MAX: Final = 1e9
"""Thirty years."""


class LogWatch:
    """Asks one log server, for as long as its owner is open. Belongs to one event loop."""

    def __init__(self, log: RemoteLog, clock: Clock) -> None:
        self._log = log
        self._clock = clock
        self.seen: LogServerSeen | None = None
        """What it said; None: it was not asked yet."""

    @classmethod
    def of(cls, log: Log, opened: AsyncExitStack, *, clock: Clock = SYSTEM_CLOCK) -> LogWatch | None:
        """Begin to ask the server of `log`, until `opened` ends it; None for a log that is no server of Duramen."""
        if not isinstance(log, RemoteLog):
            return None
        watch = cls(log, clock)
        task = run_forever(watch._ask_on(), name="asking the log's server for its status")
        opened.push_async_callback(partial(end_tasks, task))
        return watch

    async def _ask_on(self) -> None:
        while True:
            await self._ask()
            await asyncio.sleep(_ASK_EVERY_S)

    async def _ask(self) -> None:
        before = LogServerSeen(self._log.target, False, "") if self.seen is None else self.seen
        try:
            document = await self._log.server_status(timeout=_ANSWER_S_MAX)
        except DuramenError as error:
            self.seen = replace(before, alive=False, reason=without_advice(error.message)[:_REASON_CHARS_MAX])
        else:
            self.seen = seen_of(document, before, now_ms=self._clock.wall_ms())


def seen_of(document: bytes, before: LogServerSeen, *, now_ms: int) -> LogServerSeen:
    """What a status document says of a log's server. `before`: what was seen last; it stays where the document cannot
    be read. `now_ms`: this process's clock, ms since 1970.
    """
    try:
        found = json.loads(document)
        if found["format"] != _STATUS_FORMAT:
            raise ValueError(found["format"])
        disk, log = found["disk"], found["log"]
        return LogServerSeen(
            before.address,
            alive=True,
            reason="",
            clock_skew_s=round((_whole(found["now_ms"]) - now_ms) / 1000),
            disk_free_bytes=None if disk is None else _whole(disk["free_bytes"]),
            disk_full_bytes=None if disk is None else _whole(disk["full_bytes"]),
            stopped=None if log is None or log["stopped"] is None else _text(log["stopped"]),
            certificates=_certificates(found.get("certificates", [])),
            **_queue(log),
        )
    except (ValueError, KeyError, TypeError, RecursionError):
        return replace(before, alive=False, reason="its status is none that this release can read")


def _certificates(found: Any) -> tuple[CertificateExpiry, ...]:
    if type(found) is not list:
        raise ValueError(found)
    return tuple(
        CertificateExpiry(_text(each["name"]), _text(each["kind"]), _whole(each["expires_ms"]))
        for each in found[:_CERTIFICATES_MAX]
    )


def _queue(log: Any) -> dict[str, Any]:
    """What waits for the log's disk, and how long commits take. An older server says less."""
    if log is None or "queue_age_s" not in log:
        return {}
    p99_s = log.get("sync_p99_s")
    return {
        "queue_age_s": _seconds(log["queue_age_s"]),
        "queued_batches": _whole(log["queued_batches"]),
        "queued_bytes": _whole(log["queued_bytes"]),
        "sync_p99_s": None if p99_s is None else _seconds(p99_s),
    }


def _seconds(value: Any) -> float:
    """A duration; `ValueError` for anything else."""
    if type(value) not in (int, float) or not 0 <= value < _SECONDS_MAX:
        raise ValueError(value)
    return float(value)


def _text(value: Any) -> str:
    """So much of a text as a person reads, as UTF-8 can have it; `ValueError` for anything else."""
    if type(value) is not str:
        raise ValueError(value)
    return value[:_REASON_CHARS_MAX].encode(errors="replace").decode()


def _whole(value: Any) -> int:
    """A count or a time; `ValueError` for anything else, and for what no clock or disk has."""
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise ValueError(value)
    return value
