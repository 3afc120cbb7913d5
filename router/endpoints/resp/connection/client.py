"""One connection: commands in, replies out, in order.

Commands that arrive together are worked off together:

- **Reads** whose replica is here and fresh enough are answered on the spot: no task, no future, and one read
  transaction for a run of them.
- **Plain writes** (`SET key value` and what else does not ask what was there) go to the shared writer and leave a
  `Slot` where their replies will be; the next write does not wait for it. A read does: it must see them.
- **A pipeline** of commands that read and write runs in rounds (`pipeline.py`, `router/endpoints/resp/data/rounds/`).
  Each command leaves a `Slot`, too, and the next one does not wait for it.
- **Everything else** runs by itself, in a task, when all before it has been answered. Reads that are not at hand share
  one with those behind them (`read_runs.py`).

Invariant: nothing is answered before everything that came earlier on this connection has taken effect.
"""

from __future__ import annotations

import asyncio
import logging
import math
from functools import partial
from itertools import islice
from typing import Any, cast

from log_tier.model.errors import DuramenError
from router.endpoints.resp.command_spec import DATA_KINDS, CommandSpec
from router.endpoints.resp.commands.command_table import BY_WORD, find_command
from router.endpoints.resp.commands.slowlog import note_slow
from router.endpoints.resp.commands.transactions import begin, enqueue
from router.endpoints.resp.connection.admission import GuardedLone, LonePath
from router.endpoints.resp.connection.command_runs import drop
from router.endpoints.resp.connection.connection_context import ConnectionOwner
from router.endpoints.resp.connection.fast_path import GET_WORDS, SET_WORDS, FastPath
from router.endpoints.resp.connection.guarded_session import GuardedSession
from router.endpoints.resp.connection.lingering_close import LingeringClose
from router.endpoints.resp.connection.pipeline import Pipeline
from router.endpoints.resp.connection.read_runs import ReadRuns
from router.endpoints.resp.connection.slow_path import BegunCommand, CommandWork, completed, encoded, perform
from router.endpoints.resp.connection.socket_input import SocketInput
from router.endpoints.resp.connection.turns import SHORT_TURN, TURN, TURN_SHARE_OF_BYTES, TURN_SHARE_OF_RUNS
from router.endpoints.resp.data.key_views import ReadOnlyView
from router.endpoints.resp.data.reads import check_keys
from router.endpoints.resp.wire.arguments import text_of
from router.endpoints.resp.wire.fallback_parser import ProtocolError, RespCommand
from router.endpoints.resp.wire.fence import STATE_COMMAND, encode_state
from router.endpoints.resp.wire.framing import RequestStream, lone_command, lone_get, lone_set
from router.endpoints.resp.wire.limits import AT_ONCE_WORDS_MAX, OUTPUT_BYTES_MAX, OUTPUT_PAUSE_BYTES, UNANSWERED_MAX
from router.endpoints.resp.wire.replies import Problem, encode, is_large
from router.endpoints.resp.wire.reply_queue import ReplyQueue
from router.endpoints.resp.wire.slow_replies import SlowReplies

__all__ = ["Client"]

logger = logging.getLogger(__name__)


class Client(GuardedSession, asyncio.Protocol):
    """A connection. Made by the endpoint for each; everything here runs on the event loop."""

    def __init__(self, server: ConnectionOwner, *, upstream: bool = False) -> None:
        """`upstream`: a reader process connects, for one of its clients."""
        super().__init__(server)
        self._is_upstream = upstream
        self._now_s, self._turns = server.clock.monotonic_s, server.turns
        self._fence_secret = STATE_COMMAND
        """The command by which a reader process asks for a fence: see `router/endpoints/resp/wire/fence.py`."""
        self.touched = False
        self._intake = RequestStream()
        self._error: str | None = None
        """A protocol error; the reply is sent when all commands before it are answered."""
        self._ended = False
        """The client sends no more."""
        self._turn_scheduled = False
        self._fast_path = FastPath(self)
        self._lone: LonePath = self._fast_path
        self._read_runs = ReadRuns(self)
        self.pipeline: Pipeline
        """Commands that run in rounds."""
        if server.is_guarded:
            self.guard()

    # --- the transport's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client has connected."""
        self.transport = cast("asyncio.Transport", transport)
        self.input = SocketInput(
            self.transport, self._intake, self.waiting, lambda: f"client {self.id} at {self.address}"
        )
        self.reply_queue = ReplyQueue(
            self.transport,
            self.server.loop,
            filled=partial(self.server.touch, self),
            encode_error=lambda error: encode(self.report(error), self.protocol),
            drop=self.drop,
            stall_s=math.inf if self._is_upstream else self.server.stall_s,
            slow=SlowReplies(self.server.slow.now_s, self.server.slow.least_s, partial(note_slow, self)),
        )
        self.pipeline = Pipeline(self)
        if not self.server.admit(self):
            self.transport.write(b"-ERR max number of clients reached\r\n")
            self.close("the endpoint has as many connections as it takes")

    def connection_lost(self, error: Exception | None) -> None:
        """The client is gone; what it wrote is written."""
        self.closing = True
        self.reply_queue.resume()
        self.server.changes.resume()
        self.forget_queued()
        if self.admission is not None:
            self.admission.end()
        self.server.leave(self)

    def data_received(self, data: bytes) -> None:
        """Commands, or pieces of some."""
        command: RespCommand | None = None
        is_free = not (self.queue or self.task or self.reply_queue.waits or self.closing)
        if is_free and self.plain and self._intake.idle:
            key = lone_get(data)
            if key is not None and self._lone.lone_get(key):
                return
            if (pair := lone_set(data)) is not None and self._lone.lone_set(*pair):
                return
            command = lone_command(data)
        if self.closing or self._error is not None:
            return
        self.input.queued_bytes += len(data)
        if self._turns.is_over(len(data), self.line):
            self._take_turns()
        if self.reply_queue.stalled or self._turn_scheduled or self._intake.more:
            self._intake.put(data)
            self.reply_queue.heard()
        else:
            self._take(data, command)
        if command is not None and not self.queue and not self._intake.more:
            self.input.queued_bytes = 0  # it was short, and has begun
        elif not self.closing and self.input.took(len(data), stalled=self.reply_queue.stalled):
            self._take_turns()

    def _take(self, data: bytes, command: RespCommand | None = None) -> None:
        """Parse what came, as far as one turn goes, and begin with it. `command`: what `data` is, where it is one."""
        try:
            self.inbox.extend((command,) if command else self._intake.take(data))
        except ProtocolError as error:
            self.inbox.extend(error.commands)
            self._error = error.text
        self._run()

    def eof_received(self) -> bool:
        """The client sends no more; answers that are on their way still go out."""
        self._ended = True
        if self.queue or self.reply_queue.waits or self.task is not None or self._intake.more:
            self._error = self._error or ""
            return True
        return False

    def pause_writing(self) -> None:
        """The client does not read its replies: its commands wait, and go on being read until they are too many."""
        self.reply_queue.stall()
        if not self.closing:
            self.input.turn(self.input.has_room(stalled=True))

    def resume_writing(self) -> None:
        """The client has read most of its replies."""
        self.reply_queue.resume()
        self.server.changes.resume()
        self._run()

    def close(self, reason: str) -> None:
        """Send what there is, then end the connection."""
        if not self.closing:
            logger.debug("client %s: closed: %s", self.id, reason)
            self.reply_queue.flush()
            self.closing = True
            self.reply_queue.close()
            self._intake.clear()
            ended = self._ended or self.server.closing
            LingeringClose.begin(self.transport, self.connection_lost, self.server.lingering, ended=ended)

    def finish(self, reason: str) -> None:
        """The command that runs now is the last one: send its reply, and end."""
        logger.debug("client %s ends: %s", self.id, reason)
        current = self.queue[0]
        self.forget_queued()
        self.queue.append(current)
        self._intake.clear()
        self._error = ""

    def drop(self, reason: str) -> None:
        """End the connection at once; what it has not read is lost."""
        if not self.closing:
            logger.warning("client %s at %s is dropped: %s", self.id, self.address, reason)
            self.server.connections_dropped += 1
            self.closing = True
        self.transport.abort()

    def guard(self) -> None:
        super().guard()
        assert self.admission is not None, "it was just made"
        self._lone = GuardedLone(self.admission, self._fast_path, self._turns)

    @property
    def idle(self) -> bool:
        """Is there nothing to do for this connection when a reply has left?"""
        return not self.queue and not self._intake.more and self._error is None and self.input.on and not self.closing

    # --- the loop

    def _run(self) -> None:
        """Work off what is queued, as far as nothing has to wait."""
        if self.task is None and not self.closing and not self._turn_scheduled:
            self._work_off()
            if self.admission is not None and self.admission.notes is not None:
                self.admission.notes.begun()
            if not self.queue and (self._intake.more or self._error is not None):
                self._go_on_or_end()
        if not self.closing:
            if self.reply_queue.gathered_bytes:
                self.reply_queue.flush()
            if not self.input.on:
                self.input.turn_on_again(stalled=self.reply_queue.stalled)

    def _work_off(self) -> None:
        """Begin with queued commands until the queue is empty, a command has to wait, or the turn is over."""
        queue, reply_queue, admission = self.queue, self.reply_queue, self.admission
        left, ends_s = SHORT_TURN if self._turns.is_short else TURN, 0.0
        if admission is not None:
            admission.renew()
            self._turns.passes(self.line)
        while queue or (admission is not None and admission.admit()):
            if left <= 0 or (admission is not None and admission.unheard_s):
                self._take_turns()
                return
            command, done = queue[0], self.commands
            if not (self.plain and self._take_fast_path(command)):
                ends_s = ends_s or self._now_s() + self._turns.turn_s
                if not self._has_room() or not self._start(command[0], command):
                    return
                if self._now_s() >= ends_s:
                    left = 0
            left -= 1 + (self.commands - done) // TURN_SHARE_OF_RUNS
            if reply_queue.gathered_bytes > OUTPUT_PAUSE_BYTES:
                left -= reply_queue.gathered_bytes // TURN_SHARE_OF_BYTES
                reply_queue.flush()

    def _take_fast_path(self, command: RespCommand) -> bool:
        """Work off a GET or a SET, and those like it behind it; False where the slow path has to."""
        name = command[0]
        if name in GET_WORDS:
            reply_queue = self.reply_queue
            return not reply_queue.unanswered and not reply_queue.stalled and self._fast_path.get(command)
        return name in SET_WORDS and not self.pipeline.running and self._fast_path.set(command)

    def _has_room(self) -> bool:
        """May another reply be gathered? If those that are there wait for a write, so do the commands."""
        reply_queue = self.reply_queue
        if reply_queue.gathered_bytes > OUTPUT_PAUSE_BYTES:
            reply_queue.flush()
        return reply_queue.gathered_bytes <= OUTPUT_PAUSE_BYTES and not reply_queue.stalled

    def _go_on_or_end(self) -> None:
        """All queued commands have begun: parse what else has come, or end the connection where nothing can follow."""
        if self._intake.more and not self.reply_queue.stalled and not self.closing:
            self._take_turns()
        elif self._error is not None and self.task is None and not self.reply_queue.waits:
            if self._error:
                self.reply_queue.emit(b"-ERR Protocol error: %b\r\n" % self._error.encode())
            self.close(self._error or "it has sent all that it wanted")

    def _take_turns(self) -> None:
        if not self._turn_scheduled:
            self._turn_scheduled = True
            self._turns.wait(self._turn, self.line, 0.0 if self.admission is None else self.admission.take_unheard_s())

    def _turn(self) -> None:
        self._turn_scheduled = False
        if not self.queue and self._intake.more and not self.reply_queue.stalled and not self.closing:
            self._take(b"")
        else:
            self._run()

    def answered(self) -> None:
        """Some slots were filled: send what is complete, and go on."""
        if not self.closing:
            idle = self.idle
            self.reply_queue.flush()
            if not idle:
                self._run()

    def _start(self, name: bytes, command: RespCommand) -> bool:
        """Begin with the first command of the queue; False where it has to wait for those before it."""
        if self._is_upstream and name == self._fence_secret:
            return self._report_state(command)
        if (spec := BY_WORD.get(name) or find_command(name)) is None:
            return self._refuse(self.no_command(command))
        unusual = not self.plain or spec.subcommands is not None
        if unusual or (len(command) != spec.arity and not spec.fits(len(command))):
            refusal = self.refusal(spec, command)
            if refusal is not None:
                return self._refuse(refusal)
        if self.transaction is not None and "no_multi" not in spec.flags:
            return self._answer(enqueue(self, spec, command))
        self.last_command = spec.name
        try:
            if spec.kind == "sync" and not spec.is_async(command):
                reply = spec.run(self, command[1:])
                return self._begin(partial(completed, reply)) if is_large(reply) else self._answer(reply)
            done = self._at_once(spec, command)
            if done is not None:
                return done
        except Problem as problem:
            return self._answer(problem)
        if spec.kind == "read" and len(self.queue) > 1 and (run := self._read_runs.gather()):
            return self._begin(partial(self._read_runs.perform, run), len(run))
        by_keys = spec.kind in DATA_KINDS
        return self._begin(partial(perform, self, spec, command) if by_keys else partial(spec.run, self, command[1:]))

    def _begin(self, work: CommandWork, count: int = 1) -> bool:
        """Run the first commands of the queue in a task of their own; those behind them wait: False."""
        self.under_way = [*islice(self.queue, count)]
        drop(self.queue, count)
        self.commands += count
        self.reply_queue.flush()
        self.task = self.server.start(self._perform(BegunCommand(work, self.under_way[0])))
        return False

    def _at_once(self, spec: CommandSpec, command: RespCommand) -> bool | None:
        """Begin with a command without a task of its own, or let it wait: False. None where it needs a task."""
        reply_queue, table = self.reply_queue, self.table
        if reply_queue.unanswered >= UNANSWERED_MAX:
            return False
        if len(command) > AT_ONCE_WORDS_MAX:
            return False if reply_queue.waits else None
        begun = 0
        if spec.name == "exec":
            begun = int(begin(self))
        elif self.plain and table is not None and not table.gone and spec.kind in DATA_KINDS:
            if spec.kind == "read" and not reply_queue.unanswered:
                if spec.name == "mget" and self._fast_path.mget(command):
                    return True
                keys = spec.keys(command)
                check_keys(keys)
                found = self.server.reads.at_once(table, keys)
                if found is not None:
                    return self._answer(spec.run(ReadOnlyView(found, self.server.clock.wall_ms()), command[1:]))
            begun = self.pipeline.hand_over(spec, command, table)
        if begun:
            self.commands += begun
            if begun > 1:
                drop(self.queue, begun - 1)
            self.queue.popleft()
            return True
        return False if reply_queue.waits else None  # it has to see what they do

    def _answer(self, reply: Any) -> bool:
        self.queue.popleft()
        self.commands += 1
        self.reply_queue.emit(encode(reply, self.protocol))
        return not self.closing

    def _report_state(self, command: RespCommand) -> bool:
        """Send the reader process a fence: all commands before it are answered, and this is the connection's state."""
        if len(command) > 1:
            self._fence_secret, self.origin = command[1], text_of(command[2])
        self.queue.popleft()
        self.reply_queue.emit(fence := encode_state(self._fence_secret, self.state()))
        self.leaves_free(fence)
        return not self.closing

    def _refuse(self, problem: Problem) -> bool:
        if self.transaction is not None:
            self.aborted = True
        return self._answer(problem)

    async def _perform(self, begun: BegunCommand) -> None:
        """Run a command by itself, and go on with the next."""
        slow, began_s = self.reply_queue.slow, self._now_s()
        try:
            begun.reply = await begun.work()
        except (Problem, DuramenError) as error:
            begun.reply = error if isinstance(error, Problem) else self.report(error)
        except Exception:
            # A bug of ours, of whatever type: it is raised on. The client must not wait for a reply that never comes.
            logger.exception("client %s: %s failed", self.id, self.last_command)
            self.task = None
            self.reply_queue.emit(b"-ERR internal error\r\n")
            self.close("a bug")
            raise
        pieces: list[bytes] = []
        try:
            pieces = await encoded(begun.reply, self.protocol)
        except OverflowError as error:
            self.drop(f"the reply to {self.last_command} has {error} bytes, more than {OUTPUT_BYTES_MAX}")
        self.task = None
        if self._now_s() - began_s >= slow.least_s:
            slow.ran(begun.command, began_s, isinstance(begun.reply, Problem))
        self.reply_queue.emit_pieces(pieces)
        self._run()
        begun.let_go()
