"""A connection of a reader process: reads are answered here, all else by its upstream connection at the server.

Invariant: while anything that was sent to the upstream connection is unanswered, everything that comes is sent there
too. So a reply from here never overtakes one from there, and a read sees what this connection wrote before it.

The proxy learns in one of two ways that everything is answered. The replies to most writes have one line each, so it
counts lines. Behind anything else it requests a fence (`router/endpoints/resp/wire/fence.py`), which also reports the
state of the connection. One that subscribes is handed over: from then on both directions are forwarded unread.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import Final, cast

from log_tier.model.errors import DuramenError
from router.endpoints.resp.command_spec import CommandSpec
from router.endpoints.resp.commands.command_table import COMMANDS, find_command
from router.endpoints.resp.connection.lingering_close import LingeringClose
from router.endpoints.resp.connection.socket_input import SocketInput
from router.endpoints.resp.connection.turns import TURN, TURN_SHARE_OF_BYTES
from router.endpoints.resp.readers.local_answers import LocalAnswers
from router.endpoints.resp.readers.reader_state import ReaderState
from router.endpoints.resp.readers.reader_table import ReaderTable
from router.endpoints.resp.readers.upstream import UpstreamConnection, connect_upstream, has_one_line, packed
from router.endpoints.resp.wire.error_replies import problem_of
from router.endpoints.resp.wire.fallback_parser import ProtocolError, RespCommand
from router.endpoints.resp.wire.fence import ConnectionState, Fences, first_question, new_secret, next_question
from router.endpoints.resp.wire.framing import RequestStream, lone_get
from router.endpoints.resp.wire.limits import OUTPUT_PAUSE_BYTES
from router.endpoints.resp.wire.replies import NULL, encode
from router.endpoints.resp.wire.reply_queue import ReplyQueue
from router.endpoints.turns.shared_turns import TURN_S

__all__ = ["ProxyConnection"]

logger = logging.getLogger(__name__)

_SUBSCRIBING: Final = frozenset({"subscribe", "psubscribe"})
_GET: Final = COMMANDS["get"]


class ProxyConnection(asyncio.Protocol):
    """The client's side. Everything here runs on the event loop."""

    def __init__(self, process: ReaderState) -> None:
        self._process = process
        self._loop = process.loop
        self._answers = LocalAnswers(process.reads, process.clock_ms)
        self._slow = process.slow
        self._now_s, self._turns = process.now_s, process.turns
        self._intake = RequestStream()
        self._turn_scheduled = False
        self._queue: deque[RespCommand] = deque()
        self._table: ReaderTable | None = None
        """What is read here; None: nothing is."""
        self._page = 0
        self._trust = 0
        """The changes of users and grants that the last fence took into account."""
        self._trust_now = process.trust.cells
        self._protocol = 2
        self._null = NULL[2]
        self._lines = 0
        """Lines that the upstream connection still owes; counted where no fence is pending."""
        self._asked = 0
        """Fences that it owes."""
        self._raw = False
        """The client was handed over to the server."""
        self._error: str | None = None
        self._ended = False
        """The client sends no more, and the upstream connection does not know yet."""
        self._client_ended = False
        self._closing = False
        """The client got its last reply."""
        self._secret = new_secret()
        self._question = next_question(self._secret)
        self._fences = Fences(self._secret)
        self._upstream: UpstreamConnection | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._transport: asyncio.Transport
        self._input: SocketInput
        self._replies: ReplyQueue

    # --- the client

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client has connected: open the upstream connection before anything is read."""
        self._transport = cast("asyncio.Transport", transport)
        self._replies = ReplyQueue(
            *(self._transport, self._loop),
            filled=lambda: None,  # nobody waits for a slot here: the upstream connection's replies come in order
            encode_error=self._encode_error,
            drop=self.evict,
            stall_s=self._process.stall_s,
        )
        self._input = SocketInput(self._transport, self._intake, self._queue, lambda: f"a client at {self._address()}")
        self._input.turn(False)
        self._process.connections.add(self)
        self._process.memory.joined()
        self._connecting = self._loop.create_task(self._connect_upstream())

    async def _connect_upstream(self) -> None:
        error = await connect_upstream(self, self._process.upstream_path)
        if error is not None:
            logger.warning("the server cannot be reached: %s", error)
            self._replies.push(b"-TRYAGAIN the server does not answer this reader process\r\n")
            self.close()

    def _address(self) -> str:
        peer = self._transport.get_extra_info("peername")
        return f"{peer[0]}:{peer[1]}" if isinstance(peer, tuple) else "?:0"

    def data_received(self, data: bytes) -> None:
        """Commands, or pieces of some."""
        if self._table is not None and not self._lines and not self._asked and not self._queue and self._intake.idle:
            key = lone_get(data)
            if key is not None:
                reply = self._value(key)
                if reply is not None:
                    self._replies.push(reply)
                    return
        if self._error is not None:
            return
        if self._turns.is_over(len(data), self):
            self._take_turns()
        if self._replies.stalled or self._turn_scheduled or self._intake.waiting_bytes or self._queue:
            self._intake.put(data)
            self._replies.heard()
            self.read()
        else:
            self._take(data)

    def _take(self, data: bytes) -> None:
        """Parse what came, as far as one turn goes, and begin with it."""
        intake = self._intake
        whole = not self._queue and not intake.held
        try:
            self._queue.extend(intake.take(data))
        except ProtocolError as error:
            self._queue.extend(error.commands)
            self._error = error.text
        self._run(intake.taken if whole and not intake.held and self._error is None else None)

    def _take_turns(self) -> None:
        if not self._turn_scheduled:
            self._turn_scheduled = True
            self._turns.wait(self._turn, self)

    def _turn(self) -> None:
        self._turn_scheduled = False
        if self._closing:
            return
        if not self._queue and self._intake.more and not self._replies.stalled:
            self._take(b"")
        else:
            self._run(None)

    def eof_received(self) -> bool:
        """The client sends no more; answers that are on their way still go out."""
        self._ended = self._client_ended = True
        self._run(None)
        return True

    def connection_lost(self, error: Exception | None) -> None:
        """The client is gone."""
        self._closing = True
        self._replies.resume()
        self._process.connections.discard(self)
        self._queue.clear()
        if self._connecting is not None:
            self._connecting.cancel()
        if self._upstream is not None:
            self._upstream.transport.close()  # what it has sent takes effect, though it does not wait for the replies

    def pause_writing(self) -> None:
        """The client does not read its replies: its commands wait, and go on being read until they are too many."""
        self._replies.stall()
        self.read()
        if self._upstream is not None:
            self._upstream.transport.pause_reading()

    def resume_writing(self) -> None:
        """The client has read most of its replies."""
        self._replies.resume()
        if self._upstream is not None and not self._closing:
            self._upstream.transport.resume_reading()
            self._run(None)
        self.read()

    def read(self) -> None:
        """Read on, or not: commands wait here as bytes while the client does not read, and not for anything else."""
        if self._closing:
            return
        if self._replies.stalled:
            on = self._input.has_room(stalled=True)
        else:
            on = self._upstream is not None and not self._upstream.full and not self._queue and not self._intake.more
        self._input.turn(on)

    def _encode_error(self, error: DuramenError) -> bytes:
        return encode(problem_of(error), self._protocol)

    def held_bytes(self) -> int:
        """See `BoundedConnection`; of its commands, one chunk at most was parsed."""
        return self._input.waiting_bytes_max + self._replies.held_bytes

    held_bytes_max = property(held_bytes)

    def evict(self, reason: str) -> None:
        """End the connection at once; what it has not read is lost."""
        logger.warning("a client at %s is dropped: %s", self._address(), reason)
        self._transport.abort()
        if self._upstream is not None:
            self._upstream.transport.abort()  # `close` would wait for the server to read, which waits for us to read

    def close(self) -> None:
        """Send what there is, then end the connection."""
        if not self._closing:
            self._replies.flush()
            self._replies.close()
            self._closing = True
            self._queue.clear()
            self._intake.clear()
            ended = self._client_ended or self._process.closing
            LingeringClose.begin(self._transport, self.connection_lost, self._process.lingering, ended=ended)

    # --- commands

    @property
    def _settled(self) -> bool:
        return not self._lines and not self._asked

    def _run(self, raw: bytes | None) -> None:
        """Work off what is queued. `raw`: the bytes of exactly that, where it came in one piece."""
        upstream = self._upstream
        if upstream is None or self._closing:
            return
        left = self._answer_reads() if self._settled and not self._raw else TURN
        commands, lines = self._take_for_upstream(left)
        self._replies.flush()
        if commands:
            as_it_came = raw if left == TURN and not self._queue else None
            self._send(upstream, as_it_came or b"".join(map(packed, commands)), len(commands), lines)
        if not self._queue:
            self._go_on_or_end(upstream)
        self.read()

    def _answer_reads(self) -> int:
        """Answer the reads with which the queue begins; what is left of the turn."""
        queue, reply_queue = self._queue, self._replies
        left, ends_s = TURN, self._now_s() + TURN_S
        while queue and left > 0 and not reply_queue.stalled:
            spec = find_command(queue[0][0])
            if spec is None or spec.kind != "read" or not self._answered(spec, queue[0]):
                break
            left -= 1
            if reply_queue.gathered_bytes > OUTPUT_PAUSE_BYTES:
                left -= reply_queue.gathered_bytes // TURN_SHARE_OF_BYTES
                reply_queue.flush()
            left = left if self._now_s() < ends_s else 0
        return left

    def _take_for_upstream(self, left: int) -> tuple[list[RespCommand], bool]:
        """The queued commands that the server gets now, and whether the reply to each has one line.

        A command that subscribes is taken when all before it is answered; then the client is handed over.
        """
        queue = self._queue
        taken: list[RespCommand] = []
        lines = True
        while queue and not self._replies.stalled:
            if left <= 0:
                self._take_turns()
                break
            left -= 1
            spec = find_command(queue[0][0])
            if spec is not None and spec.name in _SUBSCRIBING and not self._raw:
                if taken or not self._settled:
                    break
                self._raw, self._table = True, None
            lines = lines and spec is not None and has_one_line(spec, queue[0])
            taken.append(queue.popleft())
        return taken, lines

    def _go_on_or_end(self, upstream: UpstreamConnection) -> None:
        """The queue is empty: parse what else has come, or end what the client has ended."""
        if self._intake.more:
            if not self._replies.stalled:
                self._take_turns()
        elif self._error is not None and (self._raw or self._settled):
            self._replies.push(b"-ERR Protocol error: %b\r\n" % self._error.encode())
            self.close()
        elif self._ended:
            self._ended = False
            upstream.transport.write_eof()

    def _send(self, upstream: UpstreamConnection, data: bytes, commands: int, lines: bool) -> None:
        if not self._raw:
            if lines and not self._asked:
                self._lines += commands
            else:
                self._lines = 0  # the fence comes behind them
                self._asked += 1
                data += self._question
        upstream.transport.write(data)

    def upstream_received(self, data: bytes) -> None:
        """Replies, and fences between them."""
        if self._closing:
            return
        if self._asked:
            data, states = self._fences.take(data)
            if data:
                self._replies.push(data)
            if states:
                self._asked -= len(states)
                self._learn(states[-1])
        else:
            if self._lines:
                self._lines -= data.count(b"\n")
            self._replies.push(data)
        if not self._lines and not self._asked and (self._queue or self._intake.more or self._error is not None):
            self._run(None)

    def _learn(self, state: ConnectionState) -> None:
        self._page, self._trust = state.page if state.plain and not self._raw else 0, state.trust
        self._protocol, self._null = state.protocol, NULL[state.protocol]
        self._table = self._process.tables.at(self._page) if self._page else None
        if not self._asked:
            self.read()

    def upstream_connected(self, upstream: UpstreamConnection) -> None:
        """The upstream connection is there."""
        self._upstream = upstream
        self._asked = 1
        upstream.transport.write(first_question(self._secret, self._address()))

    # --- reads

    def _current(self) -> ReaderTable | None:
        table = self._table
        if self._trust_now[0] != self._trust:
            self._table, self._page = None, 0  # the next fence says what this caller may do now
            return None
        if table is not None and not table.is_current:
            table = self._table = self._process.tables.at(self._page)
            if table is None:
                self._page = 0  # the next fence says which one it is now
        return table

    def _value(self, key: bytes) -> bytes | None:
        """The reply to a GET; None where it is the server's to answer."""
        table = self._current()
        if table is None:
            return None
        began_s = self._now_s()
        reply = table.value(key, self._null, self._process.clock_ms)
        if reply is None or not table.is_current:
            return None
        self._process.answered(1)
        if self._now_s() - began_s >= self._slow.least_s:
            self._slow.took(_GET, [b"get", key], table, began_s, self._address())
        return reply

    def _answered(self, spec: CommandSpec, command: RespCommand) -> bool:
        """Answer the first command of the queue, and those like it behind it; False where it is the server's."""
        table = self._current()
        if table is None or spec.refusal(command) is not None:
            return False
        began_s = self._now_s()
        replies, commands = self._answers.first(table, spec, self._queue, self._protocol)
        if replies is None or not table.is_current:
            return False
        for _ in range(commands):
            self._queue.popleft()
        self._replies.emit(replies)
        self._process.answered(commands)
        if self._now_s() - began_s >= self._slow.least_s:
            self._slow.took(spec, command, table, began_s, self._address())
        return True
