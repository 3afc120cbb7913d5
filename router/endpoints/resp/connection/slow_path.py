"""The slow paths of commands on keys: those that have to wait, need another node, or read before they write."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from log_tier.concurrency.sized_work import gather_all
from log_tier.model.batch import Columns
from log_tier.model.errors import DuramenError
from log_tier.model.identifiers import NOTHING, Partition
from log_tier.model.record import EXPIRY_SHIFT, GROUPED, KEY_BYTES_MAX, PLAIN_PUT, Expiry
from router.endpoints.resp.command_spec import CommandSpec
from router.endpoints.resp.commands.transactions import wait_until_fresh
from router.endpoints.resp.connection.admission import is_judged_later
from router.endpoints.resp.connection.connection_context import ConnectionContext
from router.endpoints.resp.data.key_views import DataCommand, DraftRecord, ReadOnlyView
from router.endpoints.resp.data.reads import check_keys
from router.endpoints.resp.data.served_tables import ServedTable
from router.endpoints.resp.row_words import shown_replies, stored_commands
from router.endpoints.resp.wire.error_replies import CROSS_SLOT, wrong_arity
from router.endpoints.resp.wire.fallback_parser import RespCommand
from router.endpoints.resp.wire.limits import AT_ONCE_KEYS_MAX, AT_ONCE_WORDS_MAX
from router.endpoints.resp.wire.replies import encode, encode_large, encode_many, is_large
from router.endpoints.resp.wire.reply_queue import Slot
from serving_tier.fold.entry import LiveEntry

__all__ = [
    "AT_ONCE_PARTITIONS_MAX",
    "BegunCommand",
    "CommandWork",
    "Replies",
    "completed",
    "encoded",
    "looks",
    "perform",
    "shares_of",
    "sum_of",
    "write_blind",
    "write_plain",
]

AT_ONCE_PARTITIONS_MAX: Final = 128
"""Partitions that one command writes to in one turn of the event loop, each 20 µs. One of more has a task of its own,
which begins with some of them at a time."""


_KEEP: Final = int(Expiry.KEEP)

CommandWork = Callable[[], Awaitable[Any]]
"""What runs a command. The command's task calls it: one that is cancelled before its first step leaves no coroutine."""


class BegunCommand:
    """A command that runs by itself, and its reply when there is one."""

    __slots__ = ("command", "reply", "work")

    def __init__(self, work: CommandWork, command: RespCommand) -> None:
        self.work = work
        self.command = command
        self.reply: Any = None

    def let_go(self) -> None:
        """Forget it. A thread frees the words of a large command, and those of a long reply: 10 ms for 250,000."""
        is_long = type(self.reply) is list and len(self.reply) > AT_ONCE_KEYS_MAX
        if is_long or len(self.command) > AT_ONCE_WORDS_MAX:
            held = [self.work, self.command, self.reply]
            del self.work, self.command, self.reply
            asyncio.get_running_loop().run_in_executor(None, held.clear)


async def perform(client: ConnectionContext, spec: CommandSpec, command: RespCommand) -> Any:
    """A command on keys, however long it takes; its reply. Raises `Problem`, and what the data plane raises."""
    if is_judged_later(spec, command) and (denied := await client.denied_in_thread([(spec, command)])) is not None:
        raise denied
    judged_by = client.server.trust_changes
    table = await client.current_table()
    if table.form is None:
        return await _performed(client, table, spec, command, asked=command, judged_by=judged_by)
    if (denied := client.denied_by_form(spec, command)) is not None:
        raise denied
    tables = client.server.tables
    (stored,) = await stored_commands(tables, table, [(spec, command)])
    reply = await _performed(client, table, spec, stored, asked=command, judged_by=judged_by)
    (shown,) = await shown_replies(tables, table, [spec], [reply])
    return shown


async def _performed(
    client: ConnectionContext,
    table: ServedTable,
    spec: CommandSpec,
    command: RespCommand,
    *,
    asked: RespCommand,
    judged_by: int,
) -> Any:
    """A command on keys as they are stored; its reply. Raises `Problem`, and what the data plane raises.

    `asked`: the command as it came, and `judged_by` the changes of users by which it was let in. It is judged again
    before it writes, as it may have waited.
    """
    keys = spec.keys(command)
    if len(keys) > AT_ONCE_KEYS_MAX:
        await asyncio.to_thread(check_keys, keys)
    else:
        check_keys(keys)
    client.server.check_redirection(client, table, keys)
    args = command[1:]
    if spec.kind == "read":
        found = await client.server.reads.entries(table, keys, client.freshness(table))
        client.caught_up(table)
        view = ReadOnlyView(found, client.server.clock.wall_ms())
        if len(keys) <= AT_ONCE_KEYS_MAX:
            return spec.run(view, args)
        return await asyncio.to_thread(_run_large, spec, view, args, found)
    denied = await wait_until_fresh(client, table, keys, [(spec, asked)], judged_by=judged_by)
    if denied is not None:
        raise denied
    return await _change(client, table, spec, args, keys)


def _run_large(
    spec: CommandSpec, view: ReadOnlyView, args: Sequence[bytes], found: dict[bytes, LiveEntry | None]
) -> Any:
    """Run a read of many keys in a thread, which frees what they hold."""
    reply = spec.run(view, args)
    found.clear()
    return reply


async def completed(reply: Any) -> Any:
    """A reply that is there, for what expects one that has to be awaited."""
    return reply


class Replies(list[Any]):
    """The replies of several commands that ran together."""


async def encoded(reply: Any, protocol: int) -> list[bytes]:
    """The bytes of a reply, or of `Replies`, in pieces; a thread makes those of a large one. Raises `OverflowError`."""
    if type(reply) is Replies:
        return await _encoded_each(reply, protocol)
    return await asyncio.to_thread(encode_large, reply, protocol) if is_large(reply) else [encode(reply, protocol)]


async def _encoded_each(replies: Replies, protocol: int) -> list[bytes]:
    if is_large([*replies]):
        return await asyncio.to_thread(encode_many, replies, protocol)
    return [b"".join(encode_many(replies, protocol))]


async def _change(
    client: ConnectionContext, table: ServedTable, spec: CommandSpec, args: Sequence[bytes], keys: Sequence[bytes]
) -> Any:
    """A command that reads and writes; over several partitions where it can be cut in pieces."""
    many = len(keys) > AT_ONCE_KEYS_MAX
    shares = await asyncio.to_thread(shares_of, table, spec, args) if many else shares_of(table, spec, args)
    if len(shares) > 1 and not spec.divisible:
        raise CROSS_SLOT
    reads = looks(spec, args, client)
    step: DataCommand = spec.run
    changes = client.server.changes
    pieces = await gather_all(
        shares, lambda share: changes.run(client.reply_queue, table, *share[:2], step, share[2], reads=reads)
    )
    return sum_of(pieces)


def sum_of(pieces: Sequence[Any]) -> Any:
    """The reply to a command of which each partition did its part: a sum, or the status that all of them gave."""
    return sum(pieces) if isinstance(pieces[0], int) else pieces[0]


def looks(spec: CommandSpec, args: Sequence[bytes], client: ConnectionContext) -> bool:
    """Does a command look at what is there, by its options? Raises `Problem` where it cannot write.

    Commands behind one that does not look take its keys as written. So it must not fail when it runs.
    """
    if spec.blind is None:
        return True
    if spec.name == "mset" or (spec.name == "set" and len(args) == 2):
        return False  # `shares_of` has looked at the number of words
    records = spec.blind(args, client.server.clock.wall_ms())
    return records is None or any(record.attribute >> EXPIRY_SHIFT & 3 == _KEEP for record in records)


Share = tuple[Partition, Sequence[bytes], Sequence[bytes]]
"""A partition, its keys, and the arguments that belong to them."""


def shares_of(table: ServedTable, spec: CommandSpec, args: Sequence[bytes]) -> list[Share]:
    """What each partition has to do of a command. O(args).

    A command that deletes many keys is cut in pieces, which take effect one after the other. Raises `Problem`.
    """
    step, partition_of = spec.step, table.partition_of
    if len(args) % step:
        raise wrong_arity(spec.name)
    keys = spec.keys((b"", *args))
    if len(keys) == 1 or (table.partitions == 1 and not (spec.cut and len(keys) > spec.cut)):
        return [(partition_of(keys[0]), keys, args)]
    words: dict[Partition, list[bytes]] = {}
    if step == 1:
        for key in keys:
            words.setdefault(partition_of(key), []).append(key)
    else:
        for at, key in zip(range(0, len(args), step), keys, strict=False):
            words.setdefault(partition_of(key), []).extend(args[at : at + step])
    if len(words) == 1 and not spec.cut:
        return [(next(iter(words)), keys, args)]
    most = spec.cut * step or len(args)
    return [
        (partition, piece[::step], piece)
        for partition, mine in words.items()
        for piece in (mine[at : at + most] for at in range(0, len(mine), most))
    ]


def write_plain(client: ConnectionContext, table: ServedTable, keys: list[bytes], values: list[bytes]) -> bool:
    """Put values, whatever was there, on their way to the log; False where that is one for the slow path."""
    if not (min(map(len, keys)) > 0 and max(map(len, keys)) <= KEY_BYTES_MAX):
        return False
    groups: dict[Partition, tuple[list[bytes], list[bytes]]]
    if table.partitions == 1 or len(keys) == 1:
        groups = {table.partition_of(keys[0]): (keys, values)}
        places: Sequence[int] = (0,) * len(keys)
    else:
        groups, places = _grouped(table, keys, values)
    if client.cluster_aware and any(table.replicas[partition] is None for partition in groups):
        return False  # perhaps they belong to another node
    if any(not table.claims[partition].isdisjoint(mine) for partition, (mine, _) in groups.items()):
        return False  # a round of commands is between reading and writing some of them: this comes after it
    slot = Slot(client.reply_queue, places, len(groups))
    client.reply_queue.reserve(slot, len(keys), client.queue[0])
    for number, (partition, (mine, theirs)) in enumerate(groups.items()):
        waiter = slot if len(groups) == 1 else slot.part(number)
        try:
            client.server.writer.put(table, partition, mine, theirs, waiter)
        except DuramenError as error:
            waiter.settle(error, NOTHING)
    return True


def _grouped(
    table: ServedTable, keys: Sequence[bytes], values: Sequence[bytes]
) -> tuple[dict[Partition, tuple[list[bytes], list[bytes]]], list[int]]:
    """Keys and values by partition, and for each key the number of its group."""
    groups: dict[Partition, tuple[list[bytes], list[bytes]]] = {}
    numbers: dict[Partition, int] = {}
    places: list[int] = []
    for key, value in zip(keys, values, strict=True):
        partition = table.partition_of(key)
        group = groups.get(partition)
        if group is None:
            numbers[partition] = len(groups)
            group = groups[partition] = ([], [])
        group[0].append(key)
        group[1].append(value)
        places.append(numbers[partition])
    return groups, places


def write_blind(client: ConnectionContext, spec: CommandSpec, command: RespCommand, table: ServedTable) -> bool:
    """A write that does not ask what was there, on its way to the log; False where its options ask for the slow path.

    Raises `Problem`. What goes to one partition is one atomic group.
    """
    assert spec.blind is not None, spec.name
    keys = spec.keys(command)
    if len(keys) > AT_ONCE_KEYS_MAX:
        return False
    check_keys(keys)
    if client.server.redirection(client, table, keys) is not None:
        return False
    records = spec.blind(command[1:], client.server.clock.wall_ms())
    if records is None:
        return False
    if table.partitions == 1:
        groups = {table.partition_of(keys[0]): records}
    else:
        groups = {}
        for record in records:
            groups.setdefault(table.partition_of(record.key), []).append(record)
        if len(groups) > AT_ONCE_PARTITIONS_MAX:
            return False
    if any(
        not table.claims[partition].isdisjoint([record.key for record in group]) for partition, group in groups.items()
    ):
        return False
    # One reply for all parts: it reports the first error.
    slot = Slot(client.reply_queue, (0,), len(groups))
    client.reply_queue.reserve(slot, 1, command)
    for partition, group in groups.items():
        part = slot.part(0)
        try:
            client.server.writer.submit_columns(table, partition, _group_of(group), part, judged=False)
        except DuramenError as error:
            slot.settle_part(0, error)
    return True


def _group_of(records: Sequence[DraftRecord]) -> Columns:
    """Records that take effect together or not at all. Plain puts have no columns of versions and expiries."""
    keys, values, attributes, versions, expiries = map(list, zip(*records, strict=True))
    plain = attributes.count(PLAIN_PUT) == len(attributes)
    attributes[1:] = [attribute | GROUPED for attribute in attributes[1:]]
    return Columns(keys, values, attributes) if plain else Columns(keys, values, attributes, versions, expiries)
