"""SLOWLOG: the last calls of this server that took long, of both protocols, in the words of Redis.

It is the ring that `duramen slow` shows, with the same rules: a connection sees calls on tables that are shown to its
caller, no values, and a key where it may be read. Of the arguments of a call there is its name, its first key, and how
many others it had.

Redis measures how long a command runs. Here the time counts until its reply can leave, the wait for stable storage
included.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any, Final

from log_tier.access.shown_tables import shown_rights
from log_tier.model.errors import DuramenError
from log_tier.model.identifiers import Partition, PartitionId, TableId
from log_tier.slow_calls.call_subject import first_key_of, stored_keys
from log_tier.slow_calls.slow_call import KEY_BYTES_MAX, CallKind, CallSubject, SlowCall
from log_tier.slow_calls.slow_document import is_own_call, may_read_key, shown_calls
from log_tier.trust.rights import Rights
from router.endpoints.resp.command_spec import DATA_KINDS, CommandSpec, sync_command
from router.endpoints.resp.context import CommandContext
from router.endpoints.resp.wire.arguments import integer, text_of
from router.endpoints.resp.wire.fallback_parser import RespCommand
from router.endpoints.resp.wire.replies import Problem, Simple
from router.endpoints.resp.wire.slow_replies import WaitedCommand

__all__ = ["SPECS", "note_slow", "slowlog"]

_WORDS: Final = {"GET": -2, "LEN": 2, "RESET": 2, "HELP": 2}
"""What may follow SLOWLOG, with its arity."""

_COUNT: Final = 10
"""Entries of a GET without a number, as in Redis."""

_WAITING: Final = frozenset({"wait"})
"""Who waits for as long as it was asked to is not slow."""

_NATIVE_READS: Final = frozenset({"duramen.read", "duramen.fetch"})

_KEYS_MAX: Final = 16
"""Keys of a command whose partitions are looked at."""

_CLIENT_BYTES_MAX: Final = 64
"""Of the name that a client gave itself."""

_HELP: Final = (
    "SLOWLOG <subcommand> [<argument>]. Subcommands are:",
    "GET [<count>]",
    "    The newest calls that took long, of every protocol (default: 10, -1: all).",
    "    Each is: id, unix time, microseconds, arguments, client address, client name.",
    "LEN",
    "    How many there are.",
    "RESET",
    "    Forget them. Needs 'admin *'.",
    "HELP",
    "    This text.",
    "'duramen slow' shows where their time went.",
)


def slowlog(client: CommandContext, args: Sequence[bytes]) -> Any:
    """SLOWLOG GET [count] | LEN | RESET | HELP"""
    name, ring = text_of(args[0]).upper(), client.server.slow.ring
    if name == "HELP":
        return [Simple(line) for line in _HELP]
    if name == "RESET":
        ring.clear()
        return Simple("OK")
    guarded = client.server.is_guarded
    rights = shown_rights(client.server.gate.trust, client.caller) if guarded else None
    user = client.caller.name if guarded else ""
    if name == "LEN":
        return sum(1 for _ in shown_calls(ring, rights, user))
    count = _count(args[1:])
    calls = islice(shown_calls(ring, rights, user), None if count == -1 else count)
    return [_entry(call, rights, user) for call in calls]


def _count(args: Sequence[bytes]) -> int:
    """Of a GET. Raises `Problem`, as Redis has it."""
    if len(args) > 1:
        raise Problem("ERR unknown subcommand or wrong number of arguments for 'GET'. Try SLOWLOG HELP.")
    try:
        count = integer(args[0]) if args else _COUNT
    except Problem:
        count = -2
    if count < -1:
        raise Problem("ERR count should be greater than or equal to -1")
    return count


def _entry(call: SlowCall, rights: Rights | None, user: str) -> list[Any]:
    """One call, as Redis has it."""
    words, key = [call.what.encode()], call.subject.key
    if key is not None and may_read_key(call, rights):
        words.append(key)
    if (left := call.subject.items - len(words)) > 0 and call.protocol == "resp":
        words.append(b"... (%d more arguments)" % left)
    peer, name = (call.peer, call.client) if is_own_call(call, rights, user) else ("", "")
    return [call.number, call.ended_ms // 1000, int(call.took_s * 1_000_000), words, peer.encode(), name.encode()]


def note_slow(client: CommandContext, waited: WaitedCommand, began_s: float, failed: bool) -> None:
    """A command of a connection was slow. O(1), some 30 µs."""
    command = waited if isinstance(waited, list) else [b"set", waited, b""]
    spec = client.server.commands.get(text_of(command[0]).lower())
    if spec is None or spec.name in _WAITING:
        return
    client.server.slow.ran(
        spec.name,
        _kind_of(spec),
        lambda: _subject(client, spec, command),
        began_s,
        "failed" if failed else "done",
        user=client.caller.name,
        peer=client.address,
        client=client.name[:_CLIENT_BYTES_MAX].decode(errors="replace"),
    )


def _kind_of(spec: CommandSpec) -> CallKind:
    if spec.name == "duramen.await":
        return "wait"
    if spec.kind == "read" or spec.name in _NATIVE_READS:
        return "read"
    return "write" if spec.kind in DATA_KINDS or spec.name in ("exec", "duramen.write") else "other"


def _subject(client: CommandContext, spec: CommandSpec, command: RespCommand) -> CallSubject:
    if spec.name.startswith("duramen.") and len(command) > 3:
        return _of_native(client, spec, command)
    table = client.table
    if table is None or spec.kind not in DATA_KINDS:
        return CallSubject(client.table_name if spec.name == "exec" else None, items=len(command))
    keys = list(islice(spec.keys(command), _KEYS_MAX))
    if table.form is not None:
        keys = stored_keys(table.form, keys)
    places = list(dict.fromkeys(table.ids[table.partition_of(key)] for key in keys if key))
    return CallSubject(table.ref.name, places, (bytes(keys[0][:KEY_BYTES_MAX]) or None) if keys else None, len(command))


def _of_native(client: CommandContext, spec: CommandSpec, command: RespCommand) -> CallSubject:
    """These name their table by its id, and a partition."""
    key = command[4][:KEY_BYTES_MAX] if spec.name in _NATIVE_READS and len(command) > 4 else None
    if spec.name == "duramen.write":
        key = first_key_of(command[3])
    try:
        place = PartitionId(TableId(text_of(command[1])), Partition(integer(command[2])))
        return client.server.slow.subject_at(place, key)
    except (DuramenError, Problem):
        return CallSubject(None, items=len(command))


SPECS: Final = (sync_command("slowlog", -2, slowlog, summary="Shows the last calls that took long.", words=_WORDS),)
"""The commands of this module."""
