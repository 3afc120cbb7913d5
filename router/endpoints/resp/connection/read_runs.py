"""Reads that follow each other and are not at hand: one call to the data plane asks for all of them.

A read whose keys are at other nodes, or whose replica must catch up first, takes a call and a wait. One such read
after the other, a pipeline at a router would run as fast as calls return. So the reads behind it are asked for
together with it, whatever commands they are, and each gets its own reply: one that is wrong, or belongs to another
node, or to a partition that cannot answer, fails alone.

How many keys the next run may have follows from how large the values of the last one were, as in `runs.py`. What turns
out to be too large for one reply is asked for again in smaller runs: the reads that a run did not come to go back to
the head of the queue.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any, Final

from log_tier.model.errors import DuramenError, LimitExceeded
from router.endpoints.resp.command_spec import CommandSpec
from router.endpoints.resp.commands.command_table import find_command
from router.endpoints.resp.connection.connection_context import ConnectionContext
from router.endpoints.resp.connection.slow_path import Replies, perform
from router.endpoints.resp.data.key_views import ReadOnlyView
from router.endpoints.resp.data.reads import Answers, check_keys
from router.endpoints.resp.data.served_tables import ServedTable
from router.endpoints.resp.wire.fallback_parser import RespCommand
from router.endpoints.resp.wire.replies import Problem, size_of

__all__ = ["Read", "ReadRuns"]

Read = tuple[CommandSpec, RespCommand]

# Their replies are made in one turn of the event loop, some 2 µs each.
_KEYS_MAX: Final = 512

# Values may have 4 MiB each, and nothing is known of the first ones.
_KEYS_AT_FIRST: Final = 32

# What the replies to a run are planned to have: a millisecond of copying.
_BYTES: Final = 1024 * 1024

_BYTES_MAX: Final = 2 * _BYTES


class ReadRuns:
    """The runs of one connection."""

    __slots__ = ("_client", "_keys_max")

    def __init__(self, client: ConnectionContext) -> None:
        self._client = client
        self._keys_max = _KEYS_AT_FIRST

    def gather(self) -> list[Read]:
        """The reads with which the queue begins, as many as a run may have; empty where those are fewer than two."""
        known: dict[tuple[bytes, int], CommandSpec | None] = {}
        room = self._keys_max
        run: list[Read] = []
        for command in islice(self._client.queue, room):
            shape = (command[0], len(command))
            if shape not in known:
                known[shape] = _spec_of(command)
            spec = known[shape]
            room -= len(command) - 1
            if spec is None or room < 0:
                break
            run.append((spec, command))
        return run if len(run) > 1 else []

    async def perform(self, run: Sequence[Read]) -> Replies:
        """The replies to the first reads of a run, which have left the queue; the others go back there."""
        client = self._client
        try:
            table = await client.current_table()
            freshness = client.freshness(table)
        except Problem as problem:
            return Replies([problem] * len(run))
        except DuramenError as error:
            return Replies([client.report(error)] * len(run))
        if table.form is not None:
            (first,) = self._cut(run, 1)
            return Replies([await self._of_rows(*first)])
        while True:
            wanted, refused = self._wanted(table, run)
            answers = await client.server.reads.answers(table, wanted, freshness)
            if len(run) == 1 or not any(isinstance(error, LimitExceeded) for error in answers.failed.values()):
                break
            run = self._cut(run, max(1, len(run) // 8))
        client.caught_up(table)
        return self._replies(table, run, answers, refused)

    async def _of_rows(self, spec: CommandSpec, command: RespCommand) -> Any:
        """The reply to one read of a table with a definition."""
        try:
            return await perform(self._client, spec, command)
        except Problem as problem:
            return problem
        except DuramenError as error:
            return self._client.report(error)

    def _wanted(self, table: ServedTable, run: Sequence[Read]) -> tuple[list[bytes], dict[int, Problem]]:
        """The keys of a run, and the reads of it that are refused, by their places."""
        client = self._client
        wanted: dict[bytes, None] = {}
        refused: dict[int, Problem] = {}
        for place, (spec, command) in enumerate(run):
            keys = spec.keys(command)
            try:
                check_keys(keys)
                client.server.check_redirection(client, table, keys)
            except Problem as problem:
                refused[place] = problem
            else:
                wanted.update(dict.fromkeys(keys))
        return list(wanted), refused

    def _cut(self, run: Sequence[Read], count: int) -> Sequence[Read]:
        """The first reads of a run; the others wait in the queue again."""
        client = self._client
        client.queue.extendleft(command for _, command in reversed(run[count:]))
        client.commands -= len(run) - count
        client.under_way = client.under_way[:count]
        return run[:count]

    def _replies(
        self, table: ServedTable, run: Sequence[Read], answers: Answers, refused: dict[int, Problem]
    ) -> Replies:
        client = self._client
        view = ReadOnlyView(answers.found, client.server.clock.wall_ms())
        replies = Replies()
        size = named = 0
        for place, (spec, command) in enumerate(run):
            reply: Any = refused.get(place)
            if reply is None and answers.failed:
                error = answers.failure(table, spec.keys(command))
                reply = error and client.report(error)
            if reply is None:
                try:
                    reply = spec.run(view, command[1:])
                except Problem as problem:
                    reply = problem
            replies.append(reply)
            size += size_of(reply)
            named += len(command) - 1
            if size > _BYTES_MAX and len(replies) < len(run):
                self._cut(run, len(replies))  # a value of which many commands ask a piece, or all of it
                break
        self._keys_max = max(1, min(4 * named, _KEYS_MAX, _BYTES * named // max(1, size)))
        return replies


def _spec_of(command: RespCommand) -> CommandSpec | None:
    """The kind of a command that only reads keys; None for every other command, and for what is wrong with it."""
    spec = find_command(command[0])
    return spec if spec is not None and spec.kind == "read" and spec.refusal(command) is None else None
