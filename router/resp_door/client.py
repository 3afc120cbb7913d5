"""One connection: commands in, replies out, in order.

Commands that arrive together are worked off together:

- **Reads** whose replica is here and fresh enough are answered on the spot: no task, no future, and one read
  transaction for a run of them.
- **Plain writes** (`SET key value` and what else does not ask what was there) go to the shared writer and leave a
  `Slot` where their reply will be; the next write does not wait for it. A read does: it must see them.
- **Everything else** runs by itself, in a task, when all before it has been answered.

Replies leave in the order of their commands, with one write for all that are ready. A client that does not read its
replies is not read either, and dropped when it takes nothing for a minute or its replies pass their limit.

Invariant: nothing is answered before everything that came earlier on this connection has taken effect.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from log_tier.errors import DuramenError, TableNotFound
from log_tier.identifiers import Offset, Partition
from log_tier.record import GROUPED, KEY_BYTES_MAX
from log_tier.tokens import Token
from router.resp_door.catalogue import CommandSpec, find_command, unknown_command
from router.resp_door.framing import Command, Framer, ProtocolError
from router.resp_door.limits import (
    OUTPUT_BYTES_MAX,
    OUTPUT_PAUSE_BYTES,
    OUTPUT_STALL_S,
    QUEUED_COMMANDS_MAX,
    UNANSWERED_MAX,
)
from router.resp_door.problems import CROSS_SLOT, problem_of, wrong_arity
from router.resp_door.reading import Freshness, check_keys
from router.resp_door.replies import NULL, OK, Problem, encode
from router.resp_door.tables import DEFAULT_TABLE, ServedTable
from router.resp_door.transactions import enqueue
from router.resp_door.views import Overlay, ReadOnlyView, Step
from router.resp_door.writer import Record

if TYPE_CHECKING:
    from router.resp_door.door import RespDoor

__all__ = ["Client", "Slot"]

logger = logging.getLogger(__name__)

# Commands that are worked off before others get their turn at the event loop; some 5 ms.
_TURN: Final = 1024

_GET: Final = frozenset({b"GET", b"get", b"Get"})
_SET: Final = frozenset({b"SET", b"set", b"Set"})


class Slot:
    """The place of a reply that a write will give. `parts`: how many batches have to arrive first."""

    __slots__ = ("_client", "_error", "_left", "reply")

    def __init__(self, client: Client, parts: int = 1) -> None:
        self.reply: bytes | None = None
        self._client = client
        self._left = parts
        self._error: DuramenError | None = None

    def settle(self, error: DuramenError | None, offset: Offset) -> None:
        """See `Waiter`."""
        self._left -= 1
        self._error = error or self._error
        if self._left == 0:
            client = self._client
            self.reply = OK if self._error is None else encode(client.told(self._error), client.protocol)
            client.unanswered -= 1
            client.door.touch(client)


class Client(asyncio.Protocol):
    """A connection. Made by the door for each; everything here runs on the event loop."""

    def __init__(self, door: RespDoor) -> None:
        self.door = door
        self.id = door.next_id()
        self.name = b""
        self.library: dict[str, bytes] = {}
        """What CLIENT SETINFO was told."""
        self.protocol = 2
        self.authenticated = not door.secret
        self.number = 0
        """Of the database that was selected, for CLIENT INFO."""
        self.table_name = DEFAULT_TABLE
        self.table: ServedTable | None = None
        self.level = "session"
        self.token = Token()
        """What reads of this connection must still wait for."""
        self.transaction: list[tuple[CommandSpec, Command]] | None = None
        """The commands after MULTI."""
        self.aborted = False
        """One of them could not be queued."""
        self.watched: dict[tuple[str, bytes], Offset] = {}
        self.channels: set[bytes] = set()
        self.patterns: set[bytes] = set()
        self.asked_for_map = False
        """It knows about clusters: it may be sent elsewhere."""
        self.commands = 0
        self.last_command = "NULL"
        self.connected_s = door.loop.time()
        self.active_s = self.connected_s
        self.unanswered = 0
        """Slots that have no reply yet."""
        self.closing = False
        self.touched = False
        self._framer = Framer()
        self._queue: deque[Command] = deque()
        self._replies: list[bytes] = []
        self._slots: deque[Slot | bytes] = deque()
        """Replies in order, from the first one that is not there yet."""
        self._task: asyncio.Task[None] | None = None
        """The command that runs by itself."""
        self._poison: str | None = None
        """A protocol error, told when all before it is answered."""
        self._transport: asyncio.Transport = cast("asyncio.Transport", None)
        self._reading = True
        self._stall: asyncio.TimerHandle | None = None
        self._turn_scheduled = False
        self._plain = False
        self._null = NULL[2]
        self.changed()

    # --- the transport's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Somebody is there."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=OUTPUT_PAUSE_BYTES)
        if not self.door.admit(self):
            self._transport.write(b"-ERR max number of clients reached\r\n")
            self.close("the door has as many connections as it takes")

    def connection_lost(self, error: Exception | None) -> None:
        """It is gone; what it wrote is written."""
        self.closing = True
        if self._stall is not None:
            self._stall.cancel()
        self._queue.clear()
        self.door.leave(self)

    def data_received(self, data: bytes) -> None:
        """Commands, or pieces of some."""
        if self.closing or self._poison is not None:
            return
        try:
            commands: Sequence[Command] = self._framer.take(data)
        except ProtocolError as error:
            commands, self._poison = error.commands, error.text
        self._queue.extend(commands)
        self._run()
        if self._reading and len(self._queue) > QUEUED_COMMANDS_MAX:
            self._read(False)

    def eof_received(self) -> bool:
        """It sends no more; answers that are on their way still go out."""
        if self._queue or self._slots or self._task is not None:
            self._poison = self._poison or ""
            return True
        return False

    def pause_writing(self) -> None:
        """It does not read its replies."""
        if self._stall is None:
            self._stall = self.door.loop.call_later(OUTPUT_STALL_S, self._stalled)
        self._read(False)

    def resume_writing(self) -> None:
        """It has read most of them."""
        if self._stall is not None:
            self._stall.cancel()
            self._stall = None
        if not self.closing:
            self._run()
            self._read_again()

    def _stalled(self) -> None:
        self.drop(f"it has not read its replies for {OUTPUT_STALL_S:g} s")

    def _read(self, reading: bool) -> None:
        if self.closing or reading is self._reading:
            return
        self._reading = reading
        if reading:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    def _read_again(self) -> None:
        if not self._reading and self._stall is None and len(self._queue) <= QUEUED_COMMANDS_MAX // 2:
            self._read(True)

    @property
    def address(self) -> str:
        """Of the other end."""
        peer = self._transport.get_extra_info("peername")
        return f"{peer[0]}:{peer[1]}" if isinstance(peer, tuple) else f"{self.door.socket_path}:0"

    @property
    def local_address(self) -> tuple[str, int]:
        """Host and port at which it reached this server."""
        name = self._transport.get_extra_info("sockname")
        return (name[0], name[1]) if isinstance(name, tuple) else ("127.0.0.1", self.door.port)

    @property
    def output_bytes(self) -> int:
        """Replies that it has not read."""
        return self._transport.get_write_buffer_size()

    def close(self, reason: str) -> None:
        """Send what there is, then end the connection."""
        if not self.closing:
            logger.debug("client %s: closed: %s", self.id, reason)
            self._flush()
            self.closing = True
            self._transport.close()

    def finish(self, reason: str) -> None:
        """The command that runs now is the last one: send its reply, and end."""
        logger.debug("client %s ends: %s", self.id, reason)
        current = self._queue[0]
        self._queue.clear()
        self._queue.append(current)
        self._poison = ""

    def drop(self, reason: str) -> None:
        """End the connection at once; what it has not read is lost."""
        if not self.closing:
            logger.warning("client %s at %s is dropped: %s", self.id, self.address, reason)
            self.closing = True
            self._transport.abort()

    # --- what a connection carries

    def changed(self) -> None:
        """Something that decides about the short ways has changed."""
        self._null = NULL[self.protocol]
        self._plain = (
            self.authenticated
            and self.transaction is None
            and not self.subscribed
            and self.level == "session"
            and not self.token.tables
        )

    @property
    def subscribed(self) -> bool:
        """It listens, and by RESP2 that is all it may do."""
        return self.protocol == 2 and bool(self.channels or self.patterns)

    def select(self, name: str, table: ServedTable | None, number: int) -> None:
        """Go to another table."""
        self.table_name, self.table, self.number = name, table, number

    def freshness(self, table: ServedTable) -> Freshness:
        """How new this connection's answers must be. Raises `InvalidToken`."""
        return Freshness(self.level, self.token.offsets(table.ref.id, table_name=table.ref.name))

    def caught_up(self, table: ServedTable) -> None:
        """A read was answered: what its token asked for and was seen is not asked for any more."""
        offsets = self.token.tables.get(table.ref.id)
        if offsets is None:
            return
        left = {partition: offset for partition, offset in offsets.items() if offset > table.seen[partition]}
        tables = {table_id: asked for table_id, asked in self.token.tables.items() if table_id != table.ref.id}
        self.token = Token({**tables, table.ref.id: left} if left else tables, session=self.token.session)
        self.changed()

    def told(self, error: DuramenError) -> Problem:
        """An error of the database, as this connection is told of it."""
        if isinstance(error, TableNotFound) and self.table is not None:
            self.table.gone = True
        return problem_of(error)

    # --- the loop

    def _run(self) -> None:
        """Work off what is queued, as far as nothing has to wait."""
        queue = self._queue
        if self._task is None and not self.closing:
            left = _TURN
            while queue:
                command = queue[0]
                name = command[0]
                if self._plain:
                    if name in _GET:
                        if not self.unanswered and self._get(command):
                            left -= 1
                            continue
                    elif name in _SET and len(command) == 3 and self._set(command):
                        left -= 1
                        continue
                left -= 1
                if left < 0:
                    self._take_turns()
                    break
                if self._stall is not None or not self._start(name, command):
                    break
            if self._poison is not None and not queue and self._task is None and not self._slots:
                if self._poison:
                    self._replies.append(b"-ERR Protocol error: %b\r\n" % self._poison.encode())
                self.close(self._poison or "it has sent all that it wanted")
        if self._replies:
            self._flush()
        if not self._reading:
            self._read_again()

    def _take_turns(self) -> None:
        if not self._turn_scheduled:
            self._turn_scheduled = True
            self.door.loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._turn_scheduled = False
        self._run()

    def _flush(self) -> None:
        replies = self._replies
        if replies and not self.closing:
            self._transport.write(replies[0] if len(replies) == 1 else b"".join(replies))
            self._replies = []
            if self._stall is not None and self._transport.get_write_buffer_size() > OUTPUT_BYTES_MAX:
                self.drop(f"its replies have passed {OUTPUT_BYTES_MAX} bytes, and it does not read them")

    def emit(self, reply: bytes) -> None:
        """The next reply, in its bytes."""
        if self._slots:
            self._slots.append(reply)
        else:
            self._replies.append(reply)

    def push(self, message: bytes) -> None:
        """A message that answers nothing."""
        if not self.closing:
            self._transport.write(message)
            if self._stall is not None and self._transport.get_write_buffer_size() > OUTPUT_BYTES_MAX:
                self.drop(f"its messages have passed {OUTPUT_BYTES_MAX} bytes, and it does not read them")

    def answered(self) -> None:
        """Some slots were filled: send what is complete, and go on."""
        slots, replies = self._slots, self._replies
        while slots:
            head = slots[0]
            reply = head if isinstance(head, bytes) else head.reply
            if reply is None:
                break
            replies.append(reply)
            slots.popleft()
        self._run()

    # --- the short ways

    def _get(self, command: Command) -> bool:
        """GET, from the replica that is here; False where that cannot be."""
        table = self.table
        if table is None or len(command) != 2:
            return False
        queue = self._queue
        if len(queue) > 1 and queue[1][0] in _GET:
            return self._get_run(table)
        key = command[1]
        if not 0 < len(key) <= KEY_BYTES_MAX:
            return False
        partition = table.partition_of(key)
        replica = table.replicas[partition]
        if replica is None or replica.failure is not None:
            return False
        index = replica.index
        if index.applied < table.seen[partition]:
            return False
        try:
            entry = index.get(key)
        except DuramenError:
            return False
        queue.popleft()
        self.commands += 1
        if entry is None or 0 < entry[2] <= self.door.clock_ms():
            self.emit(self._null)
        else:
            value = entry[0]
            self.emit(b"$%d\r\n%b\r\n" % (len(value), value))
        return True

    def _get_run(self, table: ServedTable) -> bool:
        """Several GETs in a row: one read transaction for each partition."""
        keys: list[bytes] = []
        for command in self._queue:
            if command[0] not in _GET or len(command) != 2 or len(keys) == _TURN:
                break
            key = command[1]
            if not 0 < len(key) <= KEY_BYTES_MAX:
                break
            keys.append(key)
        found = self.door.reads.at_once(table, keys) if keys else None
        if found is None:
            return False
        null, now_ms = self._null, 0
        replies: list[bytes] = []
        for key in keys:
            entry = found[key]
            if entry is None:
                replies.append(null)
                continue
            value, _, expires_at_ms = entry
            if expires_at_ms:
                now_ms = now_ms or self.door.clock_ms()
                if expires_at_ms <= now_ms:
                    replies.append(null)
                    continue
            replies.append(b"$%d\r\n%b\r\n" % (len(value), value))
        queue = self._queue
        for _ in keys:
            queue.popleft()
        self.commands += len(keys)
        self.emit(b"".join(replies))
        return True

    def _set(self, command: Command) -> bool:
        """SET without options, through the shared writer."""
        table = self.table
        if table is None or table.gone or self.unanswered >= UNANSWERED_MAX:
            return False
        _, key, value = command
        if not 0 < len(key) <= KEY_BYTES_MAX:
            return False
        partition = table.partition_of(key)
        if self.asked_for_map and table.replicas[partition] is None:
            return False  # perhaps it belongs to another node
        slot = Slot(self)
        try:
            self.door.writer.put(table, partition, key, value, slot)
        except DuramenError:
            return False
        self._queue.popleft()
        self.commands += 1
        self.unanswered += 1
        self._slots.append(slot)
        return True

    # --- the long way

    def _start(self, name: bytes, command: Command) -> bool:
        """Begin with the first command of the queue; False where it has to wait for those before it."""
        spec = find_command(name)
        if spec is None:
            return self._refuse(unknown_command(command))
        if not self.authenticated and "no_auth" not in spec.flags:
            return self._refuse(Problem("NOAUTH Authentication required."))
        if not spec.fits(len(command)):
            return self._refuse(wrong_arity(spec.name))
        if self.subscribed and "pubsub" not in spec.flags:
            return self._refuse(
                Problem(
                    f"ERR Can't execute '{spec.name}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET "
                    "are allowed in this context"
                )
            )
        if self.transaction is not None and "no_multi" not in spec.flags:
            return self._enqueue(spec, command)
        self.last_command = spec.name
        if spec.kind == "talk":
            try:
                reply = spec.run(self, command[1:])
            except Problem as problem:
                reply = problem
            return self._answer(reply)
        if self.unanswered >= UNANSWERED_MAX:
            return False
        if spec.kind == "blind" and self._plain and self.table is not None and not self.table.gone:
            written = self._write_blind(spec, command[1:], self.table)
            if written is not None:
                return written
        if self._slots:
            return False  # it has to see what they wrote
        if spec.kind == "read" and self._plain and self.table is not None and not self.table.gone:
            keys = spec.keys(command)
            try:
                check_keys(keys)
                found = self.door.reads.at_once(self.table, keys)
                if found is not None:
                    return self._answer(spec.run(ReadOnlyView(found, self.door.clock_ms()), command[1:]))
            except Problem as problem:
                return self._answer(problem)
        self._queue.popleft()
        self.commands += 1
        self._flush()
        work = spec.run(self, command[1:]) if spec.kind == "ask" else self._data(spec, command)
        self._task = self.door.start(self._perform(work))
        return False

    def _answer(self, reply: Any) -> bool:
        self._queue.popleft()
        self.commands += 1
        self.emit(encode(reply, self.protocol))
        return not self.closing

    def _refuse(self, problem: Problem) -> bool:
        if self.transaction is not None:
            self.aborted = True
        return self._answer(problem)

    def _enqueue(self, spec: CommandSpec, command: Command) -> bool:
        """After MULTI: keep it for EXEC."""
        assert self.transaction is not None
        return self._answer(enqueue(self, spec, command))

    async def _perform(self, work: Awaitable[Any]) -> None:
        """Run a command by itself, and go on with the next."""
        try:
            reply = await work
        except Problem as problem:
            reply = problem
        except DuramenError as error:
            reply = self.told(error)
        except Exception:
            logger.exception("client %s: %s failed", self.id, self.last_command)
            self._task = None
            self.emit(b"-ERR internal error\r\n")
            self.close("a bug")
            raise
        self._task = None
        self.emit(encode(reply, self.protocol))
        self._run()

    # --- data

    async def current_table(self) -> ServedTable:
        """The selected table; made where it is one that is made at first use."""
        table = self.table
        if table is None or table.gone:
            table = self.table = await self.door.tables.open(self.table_name)
        return table

    async def _data(self, spec: CommandSpec, command: Command) -> Any:
        """A command on keys, however long it takes."""
        keys = spec.keys(command)
        check_keys(keys)
        table = await self.current_table()
        self.door.check_place(self, table, keys)
        args = command[1:]
        freshness = self.freshness(table)
        if spec.kind == "read":
            found = await self.door.reads.entries(table, keys, freshness)
            self.caught_up(table)
            return spec.run(ReadOnlyView(found, self.door.clock_ms()), args)
        if freshness.level == "strong" or freshness.after:
            await self.door.reads.entries(table, keys, freshness)
            self.caught_up(table)
        return await self.change(table, spec, args, keys)

    async def change(self, table: ServedTable, spec: CommandSpec, args: Sequence[bytes], keys: Sequence[bytes]) -> Any:
        """A command that reads and writes; over several partitions where it can be cut in pieces."""
        step: Step = spec.run
        places = dict.fromkeys(map(table.partition_of, keys))
        changes = self.door.changes
        if len(places) == 1:
            (partition,) = places
            return await changes.run(table, partition, keys, lambda view: step(view, args))
        if not spec.divisible:
            raise CROSS_SLOT
        pieces = await asyncio.gather(
            *(
                changes.run(table, partition, mine, _piece(step, pieced))
                for partition in places
                for mine, pieced in [_share(table, partition, args, spec)]
            )
        )
        for piece in pieces:
            if isinstance(piece, Problem):
                return piece
        return sum(pieces) if isinstance(pieces[0], int) else pieces[0]

    def _write_blind(self, spec: CommandSpec, args: Command, table: ServedTable) -> bool | None:
        """A write that does not ask what was there; None where it has to go the long way."""
        keys = spec.keys([b"", *args])
        try:
            check_keys(keys)
            if self.door.misplaced(self, table, keys):
                return None
            records = spec.blind(args, self.door.clock_ms()) if spec.blind is not None else None
        except Problem as problem:
            return self._answer(problem)
        if records is None:
            return None
        groups: dict[Partition, list[Record]] = {}
        for record in records:
            groups.setdefault(table.partition_of(record.key), []).append(record)
        slot = Slot(self, len(groups))
        self._queue.popleft()
        self.commands += 1
        self.unanswered += 1
        self._slots.append(slot)
        for partition, group in groups.items():
            group[1:] = [record._replace(attribute=record.attribute | GROUPED) for record in group[1:]]
            try:
                self.door.writer.submit(table, partition, group, slot, judged=False)
            except DuramenError as error:
                slot.settle(error, Offset(-1))
        return True


def _piece(step: Step, args: Sequence[bytes]) -> Callable[[Overlay], Any]:
    return lambda view: step(view, args)


def _share(
    table: ServedTable, partition: Partition, args: Sequence[bytes], spec: CommandSpec
) -> tuple[list[bytes], list[bytes]]:
    """The keys of one partition, and the arguments that belong to them."""
    keys: list[bytes] = []
    mine: list[bytes] = []
    for at in range(0, len(args), spec.step):
        if table.partition_of(args[at]) == partition:
            keys.append(args[at])
            mine.extend(args[at : at + spec.step])
    return keys, mine
