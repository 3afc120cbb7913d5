"""The fast paths: GET, MGET and SET without options, on a connection about which nothing is unusual.

Nine of ten commands are these, so their cost is the endpoint's cost. A fast path serves a command where the answer is
at hand, or the write can gather with others. Where something has to wait or must be refused it returns False, having
done nothing, and the slow path (`client.py`) goes on.

    lone    one GET or one SET in a chunk of its own, with nothing else under way: not even a queue is touched
    runs    several GETs, or several SETs, in a row: one read transaction, one draft of the writer
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import Final

from log_tier.model.errors import DuramenError
from log_tier.model.identifiers import NOTHING, Offset, Partition
from log_tier.model.record import KEY_BYTES_MAX
from router.endpoints.resp.connection.command_runs import drop
from router.endpoints.resp.connection.connection_context import ConnectionContext
from router.endpoints.resp.connection.pipeline import runs_in_a_round
from router.endpoints.resp.connection.runs import GetRuns
from router.endpoints.resp.connection.slow_path import write_plain
from router.endpoints.resp.connection.turns import TURN
from router.endpoints.resp.data.served_tables import ServedTable
from router.endpoints.resp.wire.fallback_parser import RespCommand
from router.endpoints.resp.wire.limits import UNANSWERED_MAX
from router.endpoints.resp.wire.replies import OK
from router.endpoints.resp.wire.slow_replies import WaitedCommand

__all__ = ["GET_WORDS", "SET_WORDS", "FastPath"]

GET_WORDS: Final = frozenset({b"GET", b"get", b"Get"})
SET_WORDS: Final = frozenset({b"SET", b"set", b"Set"})

# So many in a row are worth a commit before what follows them, as they cost half of what they cost in a round.
_SETS_ALONE: Final = 256

# A queue that is no longer than this is looked at as a whole: usually it has nothing but GETs.
_GETS_ALL: Final = 64

_ZERO: Final = Partition(0)


class FastPath:
    """The fast paths of one connection. `Client.plain` says whether they may be used."""

    __slots__ = ("_client", "_lone", "_reads", "_runs")

    def __init__(self, client: ConnectionContext) -> None:
        self._client = client
        self._reads = client.server.reads
        self._runs = GetRuns(client.server.reads)
        self._lone = _LoneSet(client)

    def lone_get(self, key: bytes) -> bool:
        """A GET that came alone, where nothing is queued, under way or waited for."""
        client = self._client
        reply = None if client.table is None else self._reads.value(client.table, key, client.null)
        if reply is None:
            return False
        client.commands += 1
        self._reads.direct += 1
        client.reply_queue.push(reply)
        return True

    def lone_set(self, key: bytes, value: bytes) -> bool:
        """A SET that came alone, where nothing is queued, under way or waited for."""
        client = self._client
        table = client.table
        if table is None or not 0 < len(key) <= KEY_BYTES_MAX:
            return False
        if table.gone:
            return False
        partition = table.partition_of(key) if table.partitions > 1 else _ZERO
        if client.cluster_aware and table.replicas[partition] is None:
            return False  # perhaps it belongs to another node
        if key in table.claims[partition]:
            return False  # a round of commands is between reading and writing it: this comes after it
        waiter = self._lone
        try:
            client.server.writer.put_one(table, partition, key, value, waiter)
        except DuramenError:
            return False
        waiter.reply = None
        client.commands += 1
        client.reply_queue.reserve(waiter, 1, key)
        return True

    def get(self, command: RespCommand) -> bool:
        """The first command of the queue, and those like it behind it."""
        client = self._client
        table, queue = client.table, client.queue
        if table is None or len(command) != 2:
            return False
        if len(queue) > 1 and queue[1][0] in GET_WORDS:
            return self._get_run(table)
        if not 0 < len(command[1]) <= KEY_BYTES_MAX:
            return False
        reply = self._reads.value(table, command[1], client.null)
        if reply is None:
            return False
        queue.popleft()
        client.commands += 1
        self._reads.direct += 1
        client.reply_queue.emit(reply)
        return True

    def _get_run(self, table: ServedTable) -> bool:
        """Several GETs in a row: one read transaction for each partition."""
        client = self._client
        queue = client.queue
        keys = _got(queue, self._runs.keys_max)
        answered = self._runs.answer(table, keys, client.null)
        if answered is None:
            return False
        replies, count = answered
        drop(queue, count)
        client.commands += count
        self._reads.direct += 1
        client.reply_queue.emit(replies)
        return True

    def mget(self, command: RespCommand) -> bool:
        """The first command of the queue, from the replicas that are here."""
        client = self._client
        table = client.table
        if table is None or len(command) < 2:
            return False
        replies = self._reads.values(table, command[1:], client.null)
        if replies is None:
            return False
        client.queue.popleft()
        client.commands += 1
        self._reads.direct += 1
        client.reply_queue.emit(b"*%d\r\n%b" % (len(command) - 1, replies))
        return True

    def set(self, command: RespCommand) -> bool:
        """The first command of the queue, and those like it behind it, through the shared writer."""
        client = self._client
        table = client.table
        if len(command) != 3 or table is None or table.gone or client.reply_queue.unanswered >= UNANSWERED_MAX:
            return False
        keys, values = [command[1]], [command[2]]
        queue = client.queue
        if len(queue) > 1:
            for following in islice(queue, 1, TURN):
                if following[0] not in SET_WORDS or len(following) != 3:
                    break
                keys.append(following[1])
                values.append(following[2])
            if (
                len(keys) < min(_SETS_ALONE, len(queue))
                and not client.reply_queue.unanswered
                and runs_in_a_round(queue, len(keys))
            ):
                return False  # with what follows it is a program: see `pipeline.py`
        if not write_plain(client, table, keys, values):
            return False
        client.commands += len(keys)
        drop(queue, len(keys))
        return True


def _got(queue: deque[RespCommand], most: int) -> list[bytes]:
    """The keys of the GETs with which the queue begins, at most so many. 0.1 µs each."""
    if len(queue) <= _GETS_ALL:
        try:
            keys = [key for name, key in queue if name in GET_WORDS]
        except ValueError:
            pass  # a command has another number of words
        else:
            if len(keys) == len(queue) <= most:
                return keys
    keys = []
    for command in islice(queue, most):
        if command[0] not in GET_WORDS or len(command) != 2:
            break
        keys.append(command[1])
    return keys


class _LoneSet:
    """The place of the reply to a SET that was alone; the same one again and again, as there is but one at a time."""

    __slots__ = ("_client", "began_s", "command", "reply")

    began_s: float
    command: WaitedCommand

    def __init__(self, client: ConnectionContext) -> None:
        self._client = client
        self.reply: bytes | None = None

    def settle(self, error: DuramenError | None, offset: Offset = NOTHING) -> None:
        """See `WriteWaiter`. With nothing else on the connection the reply leaves from here."""
        client = self._client
        reply_queue = client.reply_queue
        reply_queue.unanswered -= 1
        reply = self.reply = OK if error is None else reply_queue.encode_error(error)
        if len(reply_queue.waits) == 1 and client.idle:
            reply_queue.waits.clear()
            reply_queue.push(reply)
            slow = reply_queue.slow
            if slow.now_s() - self.began_s >= slow.least_s:
                slow.ran(self.command, self.began_s, error is not None)
        else:
            reply_queue.filled()
