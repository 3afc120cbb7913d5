"""MULTI, EXEC, DISCARD, WATCH: an atomic conditional batch.

Commands are kept until EXEC and then run as one job of a round (`router/endpoints/resp/data/rounds/`): their keys are
read at one offset, and they are written as one atomic group. So they take effect together or not at all, nothing comes
between them, and a command that fails by itself (an INCR of a word) does not undo the others, all as in Redis. Their
keys lie in one partition; `{tags}` see to that.

WATCH remembers versions. EXEC runs only if every watched key still has its version when the log decides.

What only begins or ends a transaction takes nothing of a quota: MULTI, DISCARD, UNWATCH, and an EXEC that is aborted.
Else each try that a quota refuses would take what the next one needs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from log_tier.concurrency.sized_work import Turn
from log_tier.model.errors import DuramenError
from log_tier.model.identifiers import Offset, Partition
from router.data.freshness import Freshness
from router.endpoints.resp.command_spec import DATA_KINDS, CommandSpec, async_command, sync_command
from router.endpoints.resp.context import CommandContext
from router.endpoints.resp.data.key_views import Overlay, View
from router.endpoints.resp.data.reads import check_keys
from router.endpoints.resp.data.rounds.queued_commands import EXECUTION_S
from router.endpoints.resp.data.served_tables import ServedTable
from router.endpoints.resp.row_words import shown_replies, stored_commands
from router.endpoints.resp.wire.arguments import text_of
from router.endpoints.resp.wire.error_replies import CROSS_SLOT
from router.endpoints.resp.wire.fallback_parser import RespCommand
from router.endpoints.resp.wire.limits import (
    AT_ONCE_KEYS_MAX,
    TRANSACTION_BYTES_MAX,
    TRANSACTION_COMMANDS_MAX,
    TRANSACTION_KEYS_MAX,
    WATCHED_KEYS_MAX,
)
from router.endpoints.resp.wire.replies import Problem, Simple, encode

__all__ = [
    "SPECS",
    "ExecStep",
    "aborted_for",
    "begin",
    "discard",
    "enqueue",
    "execute",
    "multi",
    "unwatch",
    "wait_until_fresh",
    "watch",
]

_OK: Final = Simple("OK")
_OK_BYTES: Final = encode(_OK, 2)
_QUEUED: Final = Simple("QUEUED")


def multi(client: CommandContext, args: Sequence[bytes]) -> Simple:
    """MULTI"""
    if client.transaction is not None:
        raise Problem("ERR MULTI calls can not be nested")
    client.transaction, client.transaction_keys, client.transaction_bytes, client.aborted = [], 0, 0, False
    client.changed()
    return _free(client)


def discard(client: CommandContext, args: Sequence[bytes]) -> Simple:
    """DISCARD"""
    if client.transaction is None:
        raise Problem("ERR DISCARD without MULTI")
    _end(client)
    return _free(client)


def enqueue(client: CommandContext, spec: CommandSpec, command: RespCommand) -> Simple | Problem:
    """A command between MULTI and EXEC."""
    assert client.transaction is not None, "not between MULTI and EXEC"
    problem: Problem | None = None
    if spec.is_async(command) or "alone" in spec.flags:
        words = command[:2] if spec.async_words else command[:1]
        name = text_of(b" ".join(words)).lower()
        problem = Problem(f"ERR {name} cannot be used in a transaction here")
    elif len(client.transaction) >= TRANSACTION_COMMANDS_MAX:
        problem = Problem(f"ERR a transaction has at most {TRANSACTION_COMMANDS_MAX} commands")
    else:
        keys = spec.keys(command)
        client.transaction_keys += len(keys)
        try:
            if client.table is None or client.table.form is None:
                check_keys(keys)
        except Problem as bad_key:
            problem = bad_key
        if client.transaction_keys > TRANSACTION_KEYS_MAX:
            problem = Problem(
                f"ERR a transaction names at most {TRANSACTION_KEYS_MAX} keys, these are {client.transaction_keys}"
            )
        client.transaction_bytes += sum(map(len, command))
        if client.transaction_bytes > TRANSACTION_BYTES_MAX:
            problem = Problem(
                f"ERR the commands of a transaction have at most {TRANSACTION_BYTES_MAX} bytes together, these have "
                f"{client.transaction_bytes}: send fewer, or shorter values"
            )
    if problem is not None:
        client.aborted = True
        return problem
    client.transaction.append((spec, command))
    return _QUEUED


def _free(client: CommandContext) -> Simple:
    """A reply that takes nothing of a quota."""
    client.leaves_free(_OK_BYTES)
    return _OK


def _end(client: CommandContext) -> None:
    client.transaction, client.aborted, client.watched = None, False, {}
    client.changed()


class _Transaction(NamedTuple):
    """What EXEC has to run."""

    queued: Sequence[tuple[CommandSpec, RespCommand]]
    keys: Sequence[bytes]
    guards: Mapping[bytes, Offset]
    """The watched keys with the versions that they had."""

    def place(self, table: ServedTable) -> Partition:
        """The partition of all its keys. Raises `Problem` where there is none. O(keys)."""
        places = {table.partition_of(key) for key in (*self.keys, *self.guards)}
        if len(places) > 1:
            raise CROSS_SLOT
        return next(iter(places))

    def demanding(self, client: CommandContext) -> Sequence[tuple[CommandSpec, RespCommand]]:
        """What its caller must still be allowed to do: its commands, and to watch what it watches."""
        if not self.guards:
            return self.queued
        form = None if client.table is None else client.table.form
        watched = self.guards if form is None else map(form.key_text, self.guards)
        return [*self.queued, (client.server.commands["watch"], [b"WATCH", *watched])]

    def step(self, client: CommandContext, demanding: Sequence[tuple[CommandSpec, RespCommand]]) -> ExecStep:
        """All its commands, one after the other, as one."""
        return ExecStep(client, self.queued, demanding)


class ExecStep:
    """The commands of a transaction as one. `demanding`: what its caller must be allowed to do, as it was sent."""

    __slots__ = ("_client", "_queued", "demanding")

    def __init__(
        self,
        client: CommandContext,
        queued: Sequence[tuple[CommandSpec, RespCommand]],
        demanding: Sequence[tuple[CommandSpec, RespCommand]],
    ) -> None:
        self._client, self._queued, self.demanding = client, queued, demanding

    def __call__(self, view: View, _: Sequence[bytes]) -> list[Any]:
        replies: list[Any] = []
        for spec, command in self._queued:
            if replies:
                view.go_on()
            replies.append(_run(self._client, spec, command, view))
        return replies


def _take(client: CommandContext) -> _Transaction:
    """End the transaction: what there is to run. Raises `Problem` where it is not to be run."""
    queued = client.transaction
    if queued is None:
        raise Problem("ERR EXEC without MULTI")
    aborted, watched = client.aborted, client.watched
    _end(client)
    if aborted:
        aborted_by = Problem("EXECABORT Transaction discarded because of previous errors.")
        client.leaves_free(encode(aborted_by, client.protocol))
        raise aborted_by
    if any(name != client.table_name for name, _ in watched):
        raise Problem("ERR the watched keys are in another table: WATCH and EXEC go with one SELECT")
    keys = [key for spec, command in queued if spec.kind in DATA_KINDS for key in spec.keys(command)]
    return _Transaction(queued, keys, {key: version for (_, key), version in watched.items()})


def _check_rights(denied: Problem | None) -> None:
    """Raises `Problem` for a command that was queued, and that its caller may not run any more."""
    if denied is not None:
        raise aborted_for(denied)


def aborted_for(denied: Problem) -> Problem:
    """The reply of an EXEC whose caller may not run it."""
    return Problem(f"EXECABORT Transaction discarded, nothing was done: {denied.text}")


def begin(client: CommandContext) -> bool:
    """EXEC in a pipeline: hand the transaction to its round; False where it has to wait, or is one for `execute`.

    Raises `Problem`.
    """
    table, queued = client.table, client.transaction
    if table is None or table.gone or table.form is not None or client.level != "session" or client.token.tables:
        return False
    if queued is None or all(spec.kind not in DATA_KINDS for spec, _ in queued) or not client.pipeline.takes:
        return False
    if client.transaction_keys > AT_ONCE_KEYS_MAX:
        return False
    transaction = _take(client)
    demanding = transaction.demanding(client)
    _check_rights(client.denied(demanding, action="exec"))
    client.server.check_redirection(client, table, [*transaction.keys, *transaction.guards])
    partition = transaction.place(table)
    client.pipeline.queue(
        table,
        partition,
        transaction.keys,
        transaction.step(client, demanding),
        (),
        watched=transaction.guards,
        size=sum(len(word) for _, command in queued for word in command),
    )
    return True


async def execute(client: CommandContext, args: Sequence[bytes]) -> Any:
    """EXEC"""
    transaction = _take(client)
    demanding, judged_by = transaction.demanding(client), client.server.trust_changes
    _check_rights(await client.denied_in_thread(demanding, action="exec"))
    if not transaction.keys and not transaction.guards:
        return await _run_keyless(client, transaction.queued)
    table = await client.current_table()
    if table.form is not None:
        transaction = await _stored(client, table, transaction)
    client.server.check_redirection(client, table, [*transaction.keys, *transaction.guards])
    many = len(transaction.keys) > AT_ONCE_KEYS_MAX
    partition = await asyncio.to_thread(transaction.place, table) if many else transaction.place(table)
    _check_rights(
        await wait_until_fresh(client, table, transaction.keys, demanding, judged_by=judged_by, action="exec")
    )
    replies = await client.server.changes.run(
        client.reply_queue,
        table,
        partition,
        transaction.keys,
        transaction.step(client, demanding),
        watched=transaction.guards,
    )
    if table.form is None or not isinstance(replies, list):  # a watched key has changed
        return replies
    specs = [spec for spec, _ in transaction.queued]
    return await shown_replies(client.server.tables, table, specs, replies)


async def wait_until_fresh(
    client: CommandContext,
    table: ServedTable,
    keys: Sequence[bytes],
    commands: Sequence[tuple[CommandSpec, RespCommand]],
    *,
    judged_by: int,
    action: str = "",
) -> Problem | None:
    """Wait before a change until what it looks at is as new as the connection asks. Why its caller may not make it any
    more, which ends the wait when users or grants change; None: it may. `judged_by`, `action`: as of `denied_since`.
    """
    freshness = client.freshness(table)
    is_fresh = not (freshness.strong or freshness.offsets)
    while True:
        judged_now = client.server.trust_changes
        if (denied := await client.denied_since(judged_by, commands, action=action)) is not None:
            return denied
        judged_by = judged_now
        if client.server.trust_changes != judged_by:
            continue  # they changed again while a thread judged
        if is_fresh:
            return None
        is_fresh = await _is_fresh(client, table, keys, freshness)


async def _is_fresh(client: CommandContext, table: ServedTable, keys: Sequence[bytes], freshness: Freshness) -> bool:
    """Wait until what is there is as new as this; False: the wait was broken off, to be judged again."""
    client.only_waits, client.judges_wait = True, False
    try:
        await client.server.reads.entries(table, keys, freshness)
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if not client.judges_wait or task is None or task.uncancel():
            raise  # the connection has ended
        return False
    finally:
        client.only_waits = False
    client.caught_up(table)
    return True


async def _stored(client: CommandContext, table: ServedTable, transaction: _Transaction) -> _Transaction:
    """The same on keys and values as they are stored. Raises `Problem` for what is none: nothing is done then."""
    commands = [each for each in transaction.queued if each[0].kind in DATA_KINDS]
    for each in commands:
        _check_rights(client.denied_by_form(*each))
    try:
        stored = iter(await stored_commands(client.server.tables, table, commands))
    except (Problem, DuramenError) as error:
        why = error.text if isinstance(error, Problem) else error.message
        raise Problem(f"EXECABORT Transaction discarded, nothing was done: {why}") from error
    queued = [(spec, next(stored) if spec.kind in DATA_KINDS else command) for spec, command in transaction.queued]
    keys = [key for spec, command in queued if spec.kind in DATA_KINDS for key in spec.keys(command)]
    return _Transaction(queued, keys, transaction.guards)


async def _run_keyless(client: CommandContext, queued: Sequence[tuple[CommandSpec, RespCommand]]) -> list[Any]:
    """Commands without keys change nothing but this connection: others may have their turn between two of them."""
    replies: list[Any] = []
    now_s = client.server.clock.monotonic_s
    ends_s = now_s() + EXECUTION_S
    for spec, command in queued:
        replies.append(_run(client, spec, command, None))
        if now_s() > ends_s:
            await asyncio.sleep(0)
            ends_s = now_s() + EXECUTION_S
    return replies


def _run(client: CommandContext, spec: CommandSpec, command: RespCommand, view: View | None) -> Any:
    try:
        if spec.kind in DATA_KINDS:
            return spec.run(view, command[1:])
        # A tuple: nothing in it waits for an offset of the log, and nobody looks for that.
        return tuple(reply) if type(reply := spec.run(client, command[1:])) is list else reply
    except Problem as problem:
        return problem


async def watch(client: CommandContext, args: Sequence[bytes]) -> Simple:
    """WATCH key [key …]"""
    if client.transaction is not None:
        raise Problem("ERR WATCH inside MULTI is not allowed")
    if len(client.watched) + len(args) > WATCHED_KEYS_MAX:
        raise Problem(f"ERR a connection watches at most {WATCHED_KEYS_MAX} keys")
    table = await client.current_table()
    if table.form is not None:
        if (denied := client.denied_by_form(client.server.commands["watch"], [b"WATCH", *args])) is not None:
            raise denied
        args = list(map(table.form.key, args))
    check_keys(args)
    client.server.check_redirection(client, table, args)
    found = await client.server.reads.entries(table, args, client.freshness(table))
    client.caught_up(table)
    view = Overlay(found, client.server.clock.wall_ms())
    turn = Turn()
    for key in args:
        # What was watched first counts.
        client.watched.setdefault((client.table_name, key), view.version(key))
        if turn.is_full():
            await turn.end()
    return _OK


def unwatch(client: CommandContext, args: Sequence[bytes]) -> Simple:
    """UNWATCH"""
    client.watched = {}
    return _free(client)


SPECS: Final = (
    sync_command("multi", 1, multi, "no_multi", summary="Begins a transaction."),
    async_command("exec", 1, execute, "no_multi", summary="Runs the transaction."),
    sync_command("discard", 1, discard, "no_multi", summary="Forgets the transaction."),
    async_command("watch", -2, watch, "no_multi", summary="Lets EXEC fail if keys change.", keys=(1, -1, 1)),
    sync_command("unwatch", 1, unwatch, summary="Forgets the watched keys."),
)
"""The commands of this module."""
