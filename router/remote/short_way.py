"""The short way of an event loop to a server that is the whole cluster: its RESP endpoint, in place of gRPC.

A small request of one partition, which is what a lone caller makes, goes by a `RespLine`: a read as `DURAMEN.FETCH`, a
batch as `DURAMEN.WRITE`. gRPC's core takes most of a millisecond on either side of such a call. All others, and those
that cannot be answered at once, go by gRPC, which waits, retries and reports errors. Which way a call takes is seen by
nobody: the gatherers above are the same ones, and so are their sessions, batches and sequences.

    S1  A read that is not answered here is asked by gRPC, within the same time.
    S2  A batch of which it is sure that nothing was written goes by gRPC. Of another one the caller hears
        `Disconnected`, and sends the same bytes again, asking what became of them (W3 of the gatherer).
    S3  Reads and writes have a line each: replies come in the order of their commands, and a read must not wait for
        the sync of another call's write. A line with a write under way takes no second one, which goes by gRPC. When
        anything goes wrong on a line, both are over. The next ones are opened after some more calls.
    S4  Who calls is proved by AUTH before anything else. Where the endpoint refuses the secret, all calls go by gRPC,
        which says why, until there is another secret.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, Final, NamedTuple

from log_tier.concurrency.tasks import end_tasks, every_step
from log_tier.model.errors import Disconnected
from log_tier.model.identifiers import Offset
from log_tier.rpc.credentials import CallCredentials
from log_tier.tracing.span import TRACED
from router.data.requests import ReadPart, ReadResult, WritePart, WriteResult, read_result_of
from router.remote.resp_line import RespLine, open_line
from router.remote.resp_place import NOWHERE, RespPlace

__all__ = ["ShortWay"]

# A read takes some microseconds and a put a sync. A call without an answer by then goes by gRPC, which waits longer.
_PATIENCE_S: Final = 2.0

# After so many calls that could have gone there, the server is asked for its endpoint, then after twice as many, and so
# on. Most programs that make few calls never cause it to be opened.
_LOOK_AFTER: Final = 16

_KEYS_MAX: Final = 256
"""Of one DURAMEN.FETCH."""

_BATCH_BYTES_MAX: Final = 1 << 20
"""Larger ones gain nothing here."""

_NOTHING_WRITTEN: Final = ("NOTWRITTEN ", "NOPERM ", "NOAUTH ", "WRONGPASS ")


class _Lines(NamedTuple):
    reads: RespLine
    writes: RespLine

    @property
    def are_whole(self) -> bool:
        return not self.reads.is_over and not self.writes.is_over

    def end(self) -> None:
        self.reads.end()
        self.writes.end()


class ShortWay:
    """The short way to one server. Belongs to one event loop; `close` ends it."""

    def __init__(
        self,
        describe: Callable[[], Awaitable[RespPlace | None]],
        *,
        secured: bool,
        credentials: CallCredentials | None = None,
    ) -> None:
        """`describe`: has the server open its endpoint, and returns where it is. `secured`: the client's channels are;
        then nothing goes by plain TCP.
        """
        self._describe = describe
        self._secured = secured
        self._credentials = credentials
        self.lines: _Lines | None = None
        """None: requests go by gRPC. Who sends one asks for this itself, without a call."""
        self.look_at = _LOOK_AFTER
        """After so many requests that go by gRPC `look` is to be called."""
        self._opening: asyncio.Task[None] | None = None
        self._refused = ""
        """The secret that the endpoint refused last."""
        self._closed = False

    @property
    def is_open(self) -> bool:
        """Will the next small request go this way?"""
        return self.lines is not None and self.lines.are_whole

    async def read(self, parts: Sequence[ReadPart], *, timeout: float) -> list[ReadResult] | None:
        """The answer to a small request; None: ask by gRPC."""
        lines = self._lines_for(parts)
        if lines is None:
            return None
        part = parts[0]
        if part.strong or part.lag_max_ms or part.past is not None or len(part.keys) > _KEYS_MAX:
            return None
        table_id, partition = part.partition
        words = (table_id.encode(), b"%d" % partition, b"%d" % part.after)
        asked = lines.reads.ask(b"DURAMEN.FETCH", *words, *part.keys, timeout=_PATIENCE_S)
        try:
            if timeout < _PATIENCE_S:  # which ends for this caller, and not the line of the others
                async with asyncio.timeout(timeout):
                    reply = await asked
            else:
                reply = await asked
        except TimeoutError:
            return None
        except ConnectionError:
            self._end(lines)
            return None
        if type(reply) is not list:
            self._heard(lines, reply)
            return None
        return [read_result_of((Offset(reply[0]), *reply[1:], None))]

    async def write(self, parts: Sequence[WritePart], *, timeout: float) -> list[WriteResult] | None:
        """The place of a small batch whose outcomes nobody waits for; None: nothing was written, send it by gRPC.

        Raises `Disconnected` where it is not known whether it was.
        """
        lines = self._lines_for(parts)
        if lines is None or lines.writes.waiting:
            return None
        part = parts[0]
        if part.outcomes or len(part.batch) > _BATCH_BYTES_MAX:
            return None
        table_id, partition = part.partition
        words = (table_id.encode(), b"%d" % partition, part.batch)
        try:
            reply = await lines.writes.ask(b"DURAMEN.WRITE", *words, timeout=min(timeout, _PATIENCE_S))
        except ConnectionError as error:
            self._end(lines)
            raise Disconnected("a batch was sent to the server's socket and not answered: send it again") from error
        if type(reply) is list:
            return [WriteResult(Offset(reply[0]), reply[1])]
        self._heard(lines, reply)
        if str(reply).startswith(_NOTHING_WRITTEN):
            return None
        self._end(lines)  # the next try asks by gRPC, which says it in our words
        raise Disconnected(f"a batch was sent to the server's socket and answered by {reply}: send it again")

    def _lines_for(self, parts: Sequence[object]) -> _Lines | None:
        """The lines, for a request of one part that is not traced: a trace goes by the metadata of gRPC."""
        lines = self.lines
        if lines is not None and not lines.are_whole:
            self._end(lines)
            return None
        return None if len(parts) != 1 or TRACED.get() else lines

    def look(self) -> None:
        """Open the lines in the background, and for the next time only after twice as many requests."""
        self.look_at *= 2
        if self._opening is None and not self._closed:
            self._opening = asyncio.create_task(self._open(), name="opening the short way")
            self._opening.add_done_callback(self._opened)

    def _end(self, lines: _Lines) -> None:
        lines.end()
        if self.lines is lines:
            self.lines = None

    async def _open(self) -> None:
        secret = None if self._credentials is None else self._credentials.secret()
        if secret is not None and secret == self._refused:
            return
        place = await self._describe() or NOWHERE
        if not place.is_known or (place.users and secret is None):
            return
        async with AsyncExitStack() as opened:
            lines = []
            for _ in _Lines._fields:
                line = await open_line(place, secured=self._secured)
                if line is None:
                    return
                opened.callback(line.end)
                if self._credentials is not None and secret is not None:
                    reply = await line.ask(
                        b"AUTH", self._credentials.user.encode(), secret.encode(), timeout=_PATIENCE_S
                    )
                    if reply != b"OK":
                        self._refused = secret
                        return
                lines.append(line)
            opened.pop_all()
            self.lines, self.look_at = _Lines(*lines), _LOOK_AFTER

    def _opened(self, opening: asyncio.Task[None]) -> None:
        self._opening = None
        if not opening.cancelled():
            opening.exception()  # what failed goes by gRPC

    def _heard(self, lines: _Lines, reply: Any) -> None:
        """An error. Where the proof does not count any more, the lines are over."""
        if str(reply).startswith(("NOAUTH ", "WRONGPASS ")):
            self._end(lines)

    async def close(self) -> None:
        """Close the lines. Calls under way go on by gRPC. Idempotent."""
        self._closed = True
        await every_step(partial(end_tasks, self._opening), self._close_lines)

    async def _close_lines(self) -> None:
        lines, self.lines = self.lines, None
        if lines is not None:
            lines.end()
            await asyncio.gather(lines.reads.closed, lines.writes.closed)
