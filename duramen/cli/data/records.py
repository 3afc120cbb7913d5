"""`duramen put | get | delete | update`: one key, or a few."""

from __future__ import annotations

import re
import sys
from typing import Annotated, Final

import typer

from duramen.cli.terminal.exits import NOT_FOUND, OK
from duramen.cli.terminal.options import (
    AT_DEFAULT,
    After,
    At,
    IfAbsent,
    IfPresent,
    IfVersion,
    Json,
    Level,
    MaxLag,
    Timeout,
    TokenOnly,
    Ttl,
    level_of,
)
from duramen.cli.terminal.output import say, say_json, say_note
from duramen.cli.terminal.text import bytes_of, json_text, shown_key, shown_value
from duramen.client.model.results import Done, Entry
from log_tier.model.errors import InvalidValue

__all__ = ["delete", "get", "put", "update"]

_Table = Annotated[str, typer.Argument(metavar="TABLE", help="The table's name.")]
_Key = Annotated[str, typer.Argument(metavar="KEY", help="The key, as text or base64:…")]

_WHOLE: Final = re.compile(r"[+-]?[0-9]+")


def _say_done(table: str, key: bytes, done: Done, *, json: bool, token: bool) -> None:
    if json:
        fields = {"table": table, "key": json_text(key), "partition": done.partition, "offset": done.offset}
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
    key: _Key,
    value: Annotated[
        str, typer.Argument(metavar="VALUE", help="The value, as text or base64:…; - reads it from the standard input.")
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
    """
    from duramen.cli.terminal.connection import connected

    key_bytes = bytes_of(key)
    data = sys.stdin.buffer.read() if value == "-" else bytes_of(value)
    with connected(at, timeout) as database:
        done = database.table(table).put(
            key_bytes,
            data,
            ttl=ttl,
            keep_ttl=keep_ttl,
            if_absent=if_absent,
            if_present=if_present,
            if_version=if_version,
        )
    _say_done(table, key_bytes, done, json=json, token=token)


def get(
    table: _Table,
    keys: Annotated[list[str], typer.Argument(metavar="KEY...", help="One key or several.")],
    after: After = None,
    level: Level = None,
    max_lag: MaxLag = None,
    raw: Annotated[bool, typer.Option("--raw", help="The value's bytes as they are, without a line end.")] = False,
    at: At = AT_DEFAULT,
    timeout: Timeout = 10.0,
    json: Json = False,
) -> int:
    """Read a value, or several. Exit code 3 where a key is not there.

    Several keys are printed one a line, the key and a tab before the value. With --json every key has a line; one that
    is not there has the value null.

    \b
      duramen get flights UA1545
      duramen get flights UA1545 --after "$TOKEN"      # sees the write that the token names
      duramen get flights UA1545 AA1 B6725 --json      # with versions
      duramen get files logo --raw > logo.png
    """
    from duramen.cli.terminal.connection import connected

    wanted = [bytes_of(key) for key in keys]
    missing: list[bytes] = []
    asked = level_of(level, max_lag, after)
    with connected(at, timeout) as database:
        opened = database.table(table)
        for key in wanted:
            entry = opened.get_entry(key, after=after, level=asked)
            if entry is None:
                missing.append(key)
            if json:
                say_json({"table": table, "key": json_text(key), **_entry_fields(entry)})
            elif entry is None:
                say_note(f"error: {table} has no key {shown_key(key)}")
            elif raw:
                sys.stdout.flush()
                sys.stdout.buffer.write(entry.value)
            elif len(wanted) == 1:
                say(shown_value(entry.value))
            else:
                say(f"{shown_key(key)}\t{shown_key(entry.value)}")
    return NOT_FOUND if missing else OK


def _entry_fields(entry: Entry | None) -> dict[str, str | int | None]:
    if entry is None:
        return {"value": None}
    expires = entry.expires_at_ms or None
    return {"value": json_text(entry.value), "version": entry.version, "expires_at_ms": expires}


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
    """
    from duramen.cli.terminal.connection import connected

    key_bytes = bytes_of(key)
    with connected(at, timeout) as database:
        done = database.table(table).delete(key_bytes, if_present=if_present, if_version=if_version)
    _say_done(table, key_bytes, done, json=json, token=token)


def _number(text: str | None, option: str) -> int | float | None:
    if text is None:
        return None
    try:
        return int(text) if _WHOLE.fullmatch(text) else float(text)
    except ValueError:
        raise InvalidValue(f"{option} takes a number, not {text!r}") from None


def update(
    table: _Table,
    key: _Key,
    add: Annotated[
        str | None, typer.Option("--add", metavar="N", help="Number + N; an absent key counts as 0.")
    ] = None,
    multiply: Annotated[str | None, typer.Option("--multiply", metavar="N", help="Number × N.")] = None,
    minimum: Annotated[str | None, typer.Option("--min", metavar="N", help="The smaller of both.")] = None,
    maximum: Annotated[str | None, typer.Option("--max", metavar="N", help="The larger of both.")] = None,
    append: Annotated[str | None, typer.Option("--append", metavar="TEXT", help="Bytes + TEXT.")] = None,
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

    However many do it at once, each change counts exactly once, also after a retry.

    \b
      duramen update pages /index.html --add 1
      duramen update flights seats --add -1 --if-present
      duramen update records highest --max 12.5
      duramen update notes today --append "; called back"
    """
    from duramen.cli.terminal.connection import connected

    key_bytes = bytes_of(key)
    operands = {
        "add": _number(add, "--add"),
        "multiply": _number(multiply, "--multiply"),
        "min": _number(minimum, "--min"),
        "max": _number(maximum, "--max"),
    }
    with connected(at, timeout) as database:
        done = database.table(table).update(
            key_bytes,
            append=None if append is None else bytes_of(append),
            ttl=ttl,
            if_absent=if_absent,
            if_present=if_present,
            if_version=if_version,
            **operands,
        )
    _say_done(table, key_bytes, done, json=json, token=token)
