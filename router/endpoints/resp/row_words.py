"""Commands on a table with a definition: keys and values as they are stored, and replies as clients have them.

    GET ["UA",1545]              →  GET <tuple>             →  the row   →  {"carrier":"UA","flight":1545}
    SET ["UA",1545] {"carrier":  →  SET <tuple> <Avro>

A connection whose table has a definition takes no fast path: each command runs by itself, is translated here, and is
executed like one on bytes. What does not fit is refused before anything is done. Commands that change a part of a value
are refused where values are rows or JSON, as Redis refuses a command on a value of another type.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeVar

from log_tier.concurrency.sized_work import thread_to_its_end
from log_tier.model.errors import DuramenError, InvalidRow, UnknownFormat
from log_tier.rows.definition import NEWEST_SCHEMA
from log_tier.rows.json_rows.json_table import JsonTable
from router.endpoints.resp.command_spec import CommandSpec
from router.endpoints.resp.data.served_tables import ServedTable, ServedTables
from router.endpoints.resp.wire.error_replies import problem_of, wrong_arity
from router.endpoints.resp.wire.fallback_parser import RespCommand
from router.endpoints.resp.wire.limits import MGET_BYTES_MAX
from router.endpoints.resp.wire.replies import Problem

__all__ = ["OF_KEYS", "PARTS_OF_VALUES", "REPLIES", "VALUES", "shown_replies", "stored_commands"]

T = TypeVar("T")

VALUES: Final[Mapping[str, int]] = {
    "set": 2,
    "setnx": 2,
    "getset": 2,
    "duramen.setv": 2,
    "setex": 3,
    "psetex": 3,
    "mset": 2,
    "msetnx": 2,
}
"""The word that is the value. MSET and MSETNX have one behind each key."""

REPLIES: Final = frozenset({"get", "mget", "getset", "getdel", "getex", "set", "duramen.getv"})
"""Commands whose reply is a value, or has some."""

PARTS_OF_VALUES: Final = frozenset(
    {"append", "setrange", "getrange", "strlen", "incr", "incrby", "decr", "decrby", "incrbyfloat"}
)
"""Commands that read or change a part of a value."""

OF_KEYS: Final = frozenset(
    {"exists", "touch", "type", "ttl", "pttl", "expiretime", "pexpiretime", "del", "unlink", "persist"}
    | {"expire", "pexpire", "expireat", "pexpireat"}
)
"""Commands that are about keys alone."""

_READING: Final = frozenset({"strlen", "getrange"})

# A row of so many bytes is read or made in some 0.2 ms. What is larger is for a thread, one at a time.
_AT_ONCE_BYTES: Final = 2048


async def stored_commands(
    tables: ServedTables, table: ServedTable, commands: Sequence[tuple[CommandSpec, RespCommand]]
) -> list[RespCommand]:
    """The commands with keys and values as they are stored, rows by the table's newest schema. Where one does not fit,
    the definition is looked up at the catalog's end: another server may have just changed it.

    Raises `Problem` for a command that is none for this table, `InvalidKey` and `InvalidRow` for what does not fit.
    """
    form = tables.form_of(table)
    for spec, _ in commands:
        _check_kind(form, spec)
    size = sum([len(word) for _, command in commands for word in command])
    try:
        return await _converted(size, tables.converting, lambda: [_stored(form, *each) for each in commands])
    except InvalidRow:
        if not await tables.learn(table, form, NEWEST_SCHEMA):
            raise
    newer = tables.form_of(table)
    return await _converted(size, tables.converting, lambda: [_stored(newer, *each) for each in commands])


async def shown_replies(
    tables: ServedTables, table: ServedTable, specs: Sequence[CommandSpec], replies: Sequence[Any]
) -> list[Any]:
    """The replies with values as clients have them; a `Problem` in place of one that is too long, or has no text.

    A row may have a schema that this process has not heard of yet: the definition is looked up then, once for all
    clients that meet it. Raises `UnknownFormat` where the table does not have it either.
    """
    form = tables.form_of(table)
    if not form.holds_rows:
        return list(replies)
    size = sum([_size_of(reply) for spec, reply in zip(specs, replies, strict=True) if spec.name in REPLIES])
    while True:
        try:
            return await _converted(size, tables.converting, partial(_shown, form, specs, replies))
        except UnknownFormat as unknown:
            if not await tables.learn(table, form, int(unknown.fields["schema"])):
                raise
            form = tables.form_of(table)


async def _converted(size: int, converting: asyncio.Lock, work: Callable[[], T]) -> T:
    if size <= _AT_ONCE_BYTES:
        return work()
    async with converting:
        return await thread_to_its_end(work)


def _check_kind(form: JsonTable, spec: CommandSpec) -> None:
    kind = form.definition.value
    if spec.name not in PARTS_OF_VALUES or kind in ("str", "bytes") or (kind == "json" and spec.name in _READING):
        return
    instead = "GET the row" if spec.name in _READING else f"GET the {'row' if kind == 'row' else 'value'} and SET it"
    raise Problem(
        f"WRONGTYPE values of this table are {'rows' if kind == 'row' else 'JSON'}, and {spec.name.upper()} is for a "
        f"part of a value: {instead} as a whole"
    )


def _stored(form: JsonTable, spec: CommandSpec, command: RespCommand) -> RespCommand:
    words = list(command)
    at = VALUES.get(spec.name)
    if at is None:
        last = spec.last if spec.last >= 0 else len(words) + spec.last
        for place in range(spec.first, last + 1, spec.step):
            words[place] = form.key(words[place])
    elif spec.step == 2:
        if len(words) % 2 == 0:
            raise wrong_arity(spec.name)
        for place in range(1, len(words), 2):
            words[place], words[place + 1] = form.pair(words[place], words[place + 1])
    else:
        words[1], words[at] = form.pair(words[1], words[at])
    return words


def _shown(form: JsonTable, specs: Sequence[CommandSpec], replies: Sequence[Any]) -> list[Any]:
    left = MGET_BYTES_MAX
    found: list[Any] = []
    for spec, reply in zip(specs, replies, strict=True):
        shown_reply = reply
        if spec.name in REPLIES:
            try:
                shown_reply, left = _with_text(form, reply, left)
            except UnknownFormat:
                raise
            except Problem as problem:
                shown_reply = problem
            except DuramenError as error:
                shown_reply = problem_of(error)
        found.append(shown_reply)
    return found


def _with_text(form: JsonTable, reply: Any, left: int) -> tuple[Any, int]:
    """A reply with its values as text, and how many bytes further ones may have."""
    if type(reply) is bytes:
        text = form.value_text(reply)
        if len(text) > left:
            raise Problem(f"ERR these rows have more than {MGET_BYTES_MAX} bytes as JSON: ask for fewer at once")
        return text, left - len(text)
    if isinstance(reply, list):
        texts = []
        for each in reply:
            text, left = _with_text(form, each, left)
            texts.append(text)
        return texts, left
    return reply, left


def _size_of(reply: Any) -> int:
    if isinstance(reply, list):
        return sum(map(_size_of, reply))
    return len(reply) if type(reply) is bytes else 0
