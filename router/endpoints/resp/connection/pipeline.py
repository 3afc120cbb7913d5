"""A connection's commands that run in rounds, and the places of their replies.

The first command of a pipeline goes the fast path where it can: a run of SETs, a run of GETs. As soon as reads and
writes mix, the commands are handed to the rounds of `router/endpoints/resp/data/rounds/`, as runs where they are on one
key each (`command_runs.py`), without waiting for any of them; and while some of them are unanswered, every other
command on keys is handed there too, so that they stay in order.

What is not handed over waits until all before it is answered: a command over several partitions that cannot be cut into
pieces, a long run of reads (they are cheaper the fast path, after the commit, and in a round each of them would guard
its key with a record), and everything that is not about keys.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, Final

from log_tier.model.errors import DuramenError
from log_tier.model.identifiers import Offset, Partition
from log_tier.model.record import KEY_BYTES_MAX
from router.endpoints.resp.command_spec import DATA_KINDS, CommandSpec
from router.endpoints.resp.commands.command_table import find_command
from router.endpoints.resp.connection.command_runs import READS_ALONE, RunReplies, gather
from router.endpoints.resp.connection.connection_context import ConnectionContext
from router.endpoints.resp.connection.slow_path import AT_ONCE_PARTITIONS_MAX, looks, shares_of, sum_of, write_blind
from router.endpoints.resp.data.key_views import DataCommand
from router.endpoints.resp.data.reads import check_keys
from router.endpoints.resp.data.rounds.command_run import CommandRun
from router.endpoints.resp.data.rounds.queued_commands import QueuedCommand, Receiver
from router.endpoints.resp.data.served_tables import ServedTable
from router.endpoints.resp.wire.error_replies import BAD_KEY, CROSS_SLOT
from router.endpoints.resp.wire.fallback_parser import RespCommand
from router.endpoints.resp.wire.limits import AT_ONCE_KEYS_MAX, OUTPUT_BYTES_MAX, RUNNING_BYTES_MAX, RUNNING_MAX
from router.endpoints.resp.wire.replies import encode, encode_large, is_large
from router.endpoints.resp.wire.reply_queue import PendingReply
from router.endpoints.resp.wire.slow_replies import WaitedCommand

__all__ = ["Pipeline", "runs_in_a_round"]

_ZERO: Final = Partition(0)


class _Place:
    """The place of one command's reply. A `Receiver`, and `PendingReply`."""

    __slots__ = ("_encoding", "_pipeline", "_protocol", "_size", "began_s", "command", "reply")

    began_s: float
    command: WaitedCommand

    def __init__(self, pipeline: Pipeline, protocol: int, size: int) -> None:
        self.reply: bytes | None = None
        self._pipeline = pipeline
        self._protocol = protocol
        """The connection's when the command came: HELLO may come before the reply."""
        self._size = size
        self._encoding = False
        """A thread makes the bytes of a large reply."""

    def finish(self, reply: Any) -> None:
        if self.reply is None and not self._encoding:
            if type(reply) is int:  # the most frequent one, and the shortest way
                self.reply = b":%d\r\n" % reply
                self._pipeline.answered_in_bytes(self._size)
            elif is_large(reply):
                self._encoding = True
                self._pipeline.in_thread(self._encode(reply))
            else:
                self.reply = self._pipeline.answered(reply, self._protocol, self._size)

    async def _encode(self, reply: Any) -> None:
        try:
            self.reply = b"".join(await asyncio.to_thread(encode_large, reply, self._protocol))
        except OverflowError as error:
            self.reply = self._pipeline.dropped(error)
        self._pipeline.answered_in_bytes(self._size)


class _Pieces:
    """Receives the replies of a command's pieces, one of each partition."""

    __slots__ = ("_left", "_place", "_replies")

    def __init__(self, place: Receiver, pieces: int) -> None:
        self._place = place
        self._left = pieces
        self._replies: list[Any] = []

    def finish(self, reply: Any) -> None:
        self._replies.append(reply)
        self._left -= 1
        if not self._left:
            error = next((each for each in self._replies if isinstance(each, Exception)), None)
            self._place.finish(sum_of(self._replies) if error is None else error)


class Pipeline:
    """The commands of one connection that run in rounds."""

    __slots__ = ("_client", "_reply_queue", "_size", "running")

    def __init__(self, client: ConnectionContext) -> None:
        self._client = client
        self._reply_queue = client.reply_queue
        self.running = 0
        """Commands whose replies are not there yet. While there are any, no command on keys goes another way."""
        self._size = 0
        """The bytes of their arguments."""

    @property
    def takes(self) -> bool:
        """May a command be handed over? Not behind writes that went another way, nor beyond the limits."""
        if not self.running:
            return not self._reply_queue.unanswered
        return self.running < RUNNING_MAX and self._size < RUNNING_BYTES_MAX

    def hand_over(self, spec: CommandSpec, command: RespCommand, table: ServedTable) -> int:
        """`begin`, or for a write that does not ask what was there and stands alone, its way to the log."""
        alone = spec.kind == "blind" and not self.running
        alone = alone and not (self.takes and runs_in_a_round(self._client.queue, 1))
        if alone and write_blind(self._client, spec, command, table):
            return 1
        return self.begin(spec, command, table)

    def begin(self, spec: CommandSpec, command: RespCommand, table: ServedTable) -> int:
        """Hand over the first command of the queue, and those behind it that can be a run with it; how many. 0 where it
        has to wait for those before it, or needs a task of its own.

        Raises `Problem`, without having done anything.
        """
        if not self.takes or (spec.kind == "read" and not self.running):
            return 0
        begun = self._begin_run(table) if len(self._client.queue) > 1 else 0
        return begun or int(self._begin_one(spec, command, table))

    def _begin_run(self, table: ServedTable) -> int:
        client = self._client
        run = gather(client.queue)
        if run is None:
            return 0
        commands, count = run.commands, len(run.commands.keys)
        places = _by_partition(table, commands.keys)
        if client.cluster_aware and any(table.replicas[partition] is None for partition in places):
            return 0  # perhaps some belong to another node
        answered = partial(self.answered_in_bytes, run.size, count)
        replies = RunReplies(count, client.protocol, answered=answered, encode_error=self._reply_queue.encode_error)
        self._reserve(replies, run.size, count)
        for partition, mine in places.items():
            share = commands if len(mine) == count else commands.at(mine)
            client.server.changes.begin(table, partition, CommandRun(self._reply_queue, share, replies, mine))
        client.last_command = run.last.name
        return count

    def _begin_one(self, spec: CommandSpec, command: RespCommand, table: ServedTable) -> bool:
        client, kind = self._client, spec.kind
        if kind == "change" and (len(command) == 2 or (len(command) == 3 and spec.last == 1)):
            return self._begin_on_one(spec, command, table)
        if kind == "read" and _reads(client.queue):
            return False
        keys = spec.keys(command)
        if len(keys) > AT_ONCE_KEYS_MAX:
            return False
        check_keys(keys)
        client.server.check_redirection(client, table, keys)
        args = command[1:]
        reads = looks(spec, args, client)
        size = sum(map(len, args))
        if len(keys) == 1:
            self.queue(table, table.partition_of(keys[0]), keys, spec.run, args, size=size, reads=reads)
            return True
        shares = shares_of(table, spec, args)
        if len(shares) == 1:
            self.queue(table, shares[0][0], keys, spec.run, args, size=size, reads=reads)
            return True
        if not spec.divisible:
            if kind != "read":
                raise CROSS_SLOT
            return False
        if len(shares) > AT_ONCE_PARTITIONS_MAX:
            return False
        pieces = _Pieces(self._place(size), len(shares))
        for partition, mine, words in shares:
            client.server.changes.begin(
                table, partition, QueuedCommand(self._reply_queue, mine, spec.run, words, pieces, reads=reads)
            )
        return True

    def _begin_on_one(self, spec: CommandSpec, command: RespCommand, table: ServedTable) -> bool:
        """`begin` for the most frequent commands: INCR, DEL and APPEND of one key. Half as many calls as `begin`."""
        client, keys, args = self._client, command[1:2], command[1:]
        (key,) = keys
        if not 0 < len(key) <= KEY_BYTES_MAX:
            raise BAD_KEY
        if client.cluster_aware:
            client.server.check_redirection(client, table, keys)
        partition = table.partition_of(key) if table.partitions > 1 else _ZERO
        size = len(key) if len(args) == 1 else len(key) + len(args[1])
        place = _Place(self, client.protocol, size)
        self._reserve(place, size, 1)
        client.server.changes.begin(table, partition, QueuedCommand(self._reply_queue, keys, spec.run, args, place))
        return True

    def queue(
        self,
        table: ServedTable,
        partition: Partition,
        keys: Sequence[bytes],
        step: DataCommand,
        args: Sequence[bytes],
        *,
        size: int,
        reads: bool = True,
        watched: Mapping[bytes, Offset] | None = None,
    ) -> None:
        """Queue one command, or one EXEC, of one partition. See `QueuedCommand`."""
        job = QueuedCommand(self._reply_queue, keys, step, args, self._place(size), reads=reads, watched=watched)
        self._client.server.changes.begin(table, partition, job)

    def _place(self, size: int) -> _Place:
        place = _Place(self, self._client.protocol, size)
        self._reserve(place, size, 1)
        return place

    def _reserve(self, place: PendingReply, size: int, commands: int) -> None:
        self.running += commands
        self._size += size
        queue = self._reply_queue
        place.began_s, place.command = queue.slow.now_s(), self._client.queue[0]
        queue.waits.append(place)
        queue.unanswered += commands

    def answered(self, reply: Any, protocol: int, size: int) -> bytes:
        """A command was answered: the bytes of its reply."""
        self.answered_in_bytes(size)
        return self._reply_queue.encode_error(reply) if isinstance(reply, DuramenError) else encode(reply, protocol)

    def answered_in_bytes(self, size: int, commands: int = 1) -> None:
        """A command was answered, or all of a run, and its place has the bytes, or gets them at once."""
        self.running -= commands
        self._size -= size
        self._reply_queue.unanswered -= commands
        self._reply_queue.filled()

    def in_thread(self, work: Coroutine[Any, Any, None]) -> None:
        """Run what waits for a thread."""
        self._client.server.start(work)

    def dropped(self, size: object) -> bytes:
        """The reply to a transaction is too large: what it did is done, and the connection ends."""
        self._client.drop(f"the reply to a transaction has {size} bytes, more than {OUTPUT_BYTES_MAX}")
        return b""


def _by_partition(table: ServedTable, keys: Sequence[bytes]) -> Mapping[Partition, Sequence[int]]:
    """The places of a run's commands by the partition of their keys."""
    if table.partitions == 1:
        return {_ZERO: range(len(keys))}
    places: dict[Partition, list[int]] = {}
    partition_of = table.partition_of
    for place, key in enumerate(keys):
        places.setdefault(partition_of(key), []).append(place)
    return places


def _reads(queue: deque[RespCommand]) -> bool:
    """Do many reads come in a row?"""
    if len(queue) <= READS_ALONE:
        return False
    for command in islice(queue, READS_ALONE):
        spec = find_command(command[0])
        if spec is None or spec.kind != "read":
            return False
    return True


def runs_in_a_round(queue: deque[RespCommand], at: int) -> bool:
    """Is the command at this place of the queue one that a write before it should share a commit with?"""
    spec = find_command(queue[at][0]) if at < len(queue) else None
    return spec is not None and (spec.kind in DATA_KINDS or spec.name == "multi")
