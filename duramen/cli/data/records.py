"""`duramen put | get | delete | update`: one key, or a few."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

import typer

from duramen.cli.data.record_text import RecordText
from duramen.cli.data.table_text import text_of
from duramen.cli.terminal.exits import NOT_FOUND, OK
from duramen.cli.terminal.options import (
    AT_DEFAULT,
    After,
    At,
    AtTime,
    AtToken,
    IfAbsent,
    IfPresent,
    IfVersion,
    Json,
    Level,
    MaxLag,
    Timeout,
    TokenOnly,
    Ttl,
    asked_state,
    level_of,
)
from duramen.cli.terminal.output import say, say_json, say_note
from duramen.cli.terminal.text import bytes_of
from duramen.client.model.results import Done, Entry
from log_tier.model.errors import InvalidRequest, InvalidValue
from log_tier.model.record import Operation

__all__ = ["delete", "get", "put", "update"]

_Table = Annotated[str, typer.Argument(metavar="TABLE", help="The table's name.")]
_Key = Annotated[
    list[str],
    typer.Argument(
        metavar="KEY...", help="The key: text or base64:…; where keys have fields, a list of JSON, or each field."
    ),
]

_WHOLE: Final = re.compile(r"[+-]?[0-9]+")


def _say_done(table: str, key: Any, done: Done, *, json: bool, token: bool) -> None:
    if json:
        fields = {"table": table, "key": key, "partition": done.partition, "offset": done.offset}
        if done.value is not None:
            fields["value"] = done.value
        say_json({**fields, "token": done.token})
    elif token:
        say(done.token)
    elif done.value is not None:
        say(str(done.value))
    else:
        say(f"offset {done.offset} of partition {done.partition}")


def put(
    table: _Table,
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="KEY VALUE | ROW",
            help="Key and value, as text or base64:…; or a row as JSON, which has its key in it. A - in place of the "
            "value or the row reads it from the standard input.",
        ),
    ],
    ttl: Ttl = None,
    keep_ttl: Annotated[bool, typer.Option("--keep-ttl", help="Keep the expiry that the key has.")] = False,
    if_absent: IfAbsent = False,
    if_present: IfPresent = False,
    if_version: IfVersion = None,
    token: TokenOnly = False,
    at: At = AT_DEFAULT,
    timeout: Timeout = 10.0,
    json: Json = False,
) -> None:
    """Write a value; returns when it is on stable storage.

    \b
      duramen put flights UA1545 departed
      duramen put flights UA1545 landed --if-version 17     # exit code 4 if somebody was faster
      duramen put sessions u7 active --ttl 3600
      duramen put files logo - < logo.png
      TOKEN=$(duramen put flights UA1545 landed --token)    # for --after, anywhere

    \b
    A table of rows (`duramen table create --schema`) takes a row as JSON; a row that does not fit is refused, by its
    field:
      duramen put departures '{"carrier": "UA", "flight": 1545, "gate": "B7"}'
    """
    from duramen.cli.terminal.connection import connected

    given = sys.stdin.buffer.read() if words[-1] == "-" else None
    with connected(at, timeout) as database:
        text = text_of(database, table)
        key, value = text.pair(words, given)
        done = database.table(table).put(
            key,
            value,
            ttl=ttl,
            keep_ttl=keep_ttl,
            if_absent=if_absent,
            if_present=if_present,
            if_version=if_version,
        )
    _say_done(table, text.json_key(key), done, json=json, token=token)


def get(
    table: _Table,
    keys: Annotated[
        list[str],
        typer.Argument(
            metavar="KEY...",
            help="One key or several. Where keys have fields, a key is a list of JSON, or each of its fields.",
        ),
    ],
    after: After = None,
    level: Level = None,
    max_lag: MaxLag = None,
    at_token: AtToken = None,
    at_time: AtTime = None,
    raw: Annotated[bool, typer.Option("--raw", help="The value's bytes as they are, without a line end.")] = False,
    at: At = AT_DEFAULT,
    timeout: Timeout = 10.0,
    json: Json = False,
) -> int:
    """Read a value, or several. Exit code 3 where a key is not there, or was not then.

    Several keys are printed one a line, the key and a tab before the value. With --json every key has a line; one that
    is not there has the value null.

    Rows are JSON, one a line, without a key before them, as it is among their fields. A key of several fields is a list
    of JSON, or as many arguments as it has fields; null, and a first field that begins with [, need the list.

    \b
      duramen get flights UA1545
      duramen get flights UA1545 --after "$TOKEN"      # sees the write that the token names
      duramen get flights UA1545 AA1 B6725 --json      # with versions
      duramen get prices JFK --at-token "$TOKEN"       # as it was, in a table with a history
      duramen get files logo --raw > logo.png
      duramen get departures UA 1545 AA 1              # the rows of two keys
      duramen get departures '["UA", 1545]'
    """
    from duramen.cli.terminal.absent_keys import why_absent
    from duramen.cli.terminal.connection import connected

    missing: list[bytes] = []
    asked = level_of(level, max_lag, after)
    state = asked_state(at_token, at_time)
    if state is not None and (after is not None or level is not None):
        raise InvalidRequest("--at-token and --at-time name the state: leave out --after and --level")
    with connected(at, timeout) as database:
        text = text_of(database, table)
        wanted = text.keys(keys)
        opened = database.table(table)
        for key in wanted:
            entry = opened.get_entry(key, at=state, after=after, level="session" if state is not None else asked)
            if entry is None:
                missing.append(key)
            if json:
                say_json({"table": table, "key": text.json_key(key), **_entry_fields(text, entry)})
            elif entry is None and state is not None:
                say_note(f"error: {table} had no value of {text.key(key)} then: {why_absent(opened, key, state)}")
            elif entry is None:
                say_note(f"error: {table} has no key {text.key(key)}")
            elif raw:
                sys.stdout.flush()
                sys.stdout.buffer.write(entry.value)
            elif len(wanted) == 1 or text.has_key_in_value:
                say(text.value(entry.value, lines=len(wanted) == 1))
            else:
                say(f"{text.key(key)}\t{text.value(entry.value, lines=False)}")
    return NOT_FOUND if missing else OK


def _entry_fields(text: RecordText, entry: Entry | None) -> dict[str, Any]:
    if entry is None:
        return {"value": None}
    expires = entry.expires_at_ms or None
    return {"value": text.json_value(entry.value), "version": entry.version, "expires_at_ms": expires}


def delete(
    table: _Table,
    key: _Key,
    if_present: IfPresent = False,
    if_version: IfVersion = None,
    token: TokenOnly = False,
    at: At = AT_DEFAULT,
    timeout: Timeout = 10.0,
    json: Json = False,
) -> None:
    """Remove a key. One that is not there is no error, unless --if-present says so.

    \b
      duramen delete flights UA1545
      duramen delete flights UA1545 --if-version 17
      duramen delete departures UA 1545                # a key of two fields
    """
    from duramen.cli.terminal.connection import connected

    with connected(at, timeout) as database:
        text = text_of(database, table)
        stored = _one_key(text, key)
        done = database.table(table).delete(stored, if_present=if_present, if_version=if_version)
    _say_done(table, text.json_key(stored), done, json=json, token=token)


def _one_key(text: RecordText, words: Sequence[str]) -> bytes:
    keys = text.keys(words)
    if len(keys) != 1:
        raise InvalidRequest(f"this command takes one key, and {len(keys)} are given")
    return keys[0]


def _operands(operations: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """What `Table.update` takes. Raises `InvalidRequest`."""
    if "set" in operations:
        raise InvalidRequest("--set changes fields of a row, and the table has none: put the value")
    for name, words in operations.items():
        if len(words) > 1:
            raise InvalidRequest(f"--{name} is given {len(words)} times: a value is changed by one operation")
    return {
        name: bytes_of(words[0]) if name == "append" else _number(words[0], f"--{name}")
        for name, words in operations.items()
    }


def _number(text: str, option: str) -> int | float:
    try:
        return int(text) if _WHOLE.fullmatch(text) else float(text)
    except ValueError:
        raise InvalidValue(f"{option} takes a number, not {text!r}") from None


def update(
    table: _Table,
    key: _Key,
    assign: Annotated[
        list[str] | None, typer.Option("--set", metavar="FIELD=VALUE", help="A field's new value; rows only.")
    ] = None,
    add: Annotated[
        list[str] | None, typer.Option("--add", metavar="N", help="Number + N; an absent key counts as 0.")
    ] = None,
    multiply: Annotated[list[str] | None, typer.Option("--multiply", metavar="N", help="Number × N.")] = None,
    minimum: Annotated[list[str] | None, typer.Option("--min", metavar="N", help="The smaller of both.")] = None,
    maximum: Annotated[list[str] | None, typer.Option("--max", metavar="N", help="The larger of both.")] = None,
    append: Annotated[list[str] | None, typer.Option("--append", metavar="TEXT", help="Bytes + TEXT.")] = None,
    ttl: Ttl = None,
    if_absent: IfAbsent = False,
    if_present: IfPresent = False,
    if_version: IfVersion = None,
    token: TokenOnly = False,
    at: At = AT_DEFAULT,
    timeout: Timeout = 10.0,
    json: Json = False,
) -> None:
    """Change a value where it is; prints the new number, or after --append the new length.

    However many do it at once, each change counts exactly once, also after a retry. In a table of rows each option
    names a field, as often as there are fields, and VALUE is JSON where the field takes that, else text.

    \b
      duramen update pages /index.html --add 1
      duramen update flights seats --add -1 --if-present
      duramen update records highest --max 12.5
      duramen update notes today --append "; called back"
      duramen update departures UA 1545 --set gate=B7 --add seats=-1     # fields of a row
    """
    from duramen.cli.terminal.connection import connected
    from duramen.client.model.call_records import record_of

    given = {"set": assign, "add": add, "multiply": multiply, "min": minimum, "max": maximum, "append": append}
    operations = {name: words for name, words in given.items() if words}
    with connected(at, timeout) as database:
        text = text_of(database, table)
        if text.holds_rows:
            if if_absent:
                raise InvalidRequest("an update of fields needs a row: leave --if-absent out")
            stored = _one_key(text, key)
            record = record_of(
                Operation.PATCH, stored, text.patch(operations), ttl=ttl, if_present=if_present, if_version=if_version
            )
            done = database.table(table).write_record(record)
        else:
            operands = _operands(operations)
            stored = _one_key(text, key)
            done = database.table(table).update(
                stored, ttl=ttl, if_absent=if_absent, if_present=if_present, if_version=if_version, **operands
            )
    _say_done(table, text.json_key(stored), done, json=json, token=token)
