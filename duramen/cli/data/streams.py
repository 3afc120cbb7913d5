"""`duramen scan | watch`: many keys, or changes for ever."""

from __future__ import annotations

import sys
from contextlib import closing
from datetime import datetime
from itertools import islice
from typing import Annotated

import typer

from duramen.cli.terminal.options import (
    AT_DEFAULT,
    After,
    At,
    Json,
    Level,
    MaxLag,
    Timeout,
    level_of,
)
from duramen.cli.terminal.output import say, say_json
from duramen.cli.terminal.text import bytes_of, json_text, shown_key
from duramen.client.model.results import Change
from log_tier.model.errors import InvalidRequest

__all__ = ["scan", "watch"]

_Table = Annotated[str, typer.Argument(metavar="TABLE", help="The table's name.")]
_Limit = Annotated[int | None, typer.Option("--limit", "-n", min=1, help="No more than that many.")]


def scan(
    table: _Table,
    prefix: Annotated[str | None, typer.Option("--prefix", help="Keys that begin so.")] = None,
    start: Annotated[str | None, typer.Option("--start", help="From this key on, itself included.")] = None,
    end: Annotated[str | None, typer.Option("--end", help="Up to this key, itself not included.")] = None,
    reverse: Annotated[bool, typer.Option("--reverse", help="From the last key to the first.")] = False,
    limit: _Limit = None,
    keys_only: Annotated[bool, typer.Option("--keys", help="Keys without their values.")] = False,
    after: After = None,
    level: Level = None,
    max_lag: MaxLag = None,
    at: At = AT_DEFAULT,
    timeout: Timeout = 10.0,
    json: Json = False,
) -> None:
    """List keys and values in key order, one a line, a tab between them.

    \b
      duramen scan flights --prefix UA/1545/
      duramen scan flights --start AA --end AB --keys
      duramen scan flights --reverse --limit 10 --json
    """
    from duramen.cli.terminal.connection import connected

    asked = level_of(level, max_lag, after)
    with connected(at, timeout) as database:
        entries = database.table(table).scan(
            prefix=None if prefix is None else bytes_of(prefix),
            start=None if start is None else bytes_of(start),
            end=None if end is None else bytes_of(end),
            reverse=reverse,
            limit=limit,
            after=after,
            level=asked,
        )
        for key, value in entries:
            if json:
                say_json({"key": json_text(key)} if keys_only else {"key": json_text(key), "value": json_text(value)})
            elif keys_only:
                say(shown_key(key))
            else:
                say(f"{shown_key(key)}\t{shown_key(value)}")


def watch(
    table: _Table,
    after: Annotated[
        str | None, typer.Option("--after", metavar="TOKEN", help="Go on behind this token: a change's, or a write's.")
    ] = None,
    from_start: Annotated[
        bool, typer.Option("--from-start", help="Everything that the log still holds, first.")
    ] = False,
    limit: _Limit = None,
    at: At = AT_DEFAULT,
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="SECONDS", help="How long a lost server is waited for.")
    ] = 10.0,
    json: Json = False,
) -> None:
    """Show every change of a table as it happens, until Ctrl-C.

    Each change is shown once, in order per partition, and a restart of the server leaves no gap. With --json every
    change carries a token; --after that token goes on with the next one, tomorrow as well.

    \b
      duramen watch flights
      duramen watch flights --from-start --limit 5
      duramen watch flights --after "$TOKEN" --json
    """
    from duramen.cli.terminal.connection import connected

    if after is not None and from_start:
        raise InvalidRequest("give one of --after and --from-start")
    with connected(at, timeout) as database:
        changes = database.table(table).watch(after=after, start="earliest" if from_start else "now")
        with closing(changes):
            for change in islice(changes, limit):
                if json:
                    _say_change(change)
                else:
                    clock_time = datetime.fromtimestamp(change.timestamp_ms / 1000).strftime("%H:%M:%S.%f")[:-3]
                    value = "" if change.value is None else "\t" + shown_key(change.value)
                    place = f"{change.partition}/{change.offset}"
                    say(f"{clock_time}  {place:<12}{change.operation.name.lower():<9}{shown_key(change.key)}{value}")
                sys.stdout.flush()


def _say_change(change: Change) -> None:
    say_json(
        {
            "partition": change.partition,
            "offset": change.offset,
            "timestamp_ms": change.timestamp_ms,
            "operation": change.operation.name.lower(),
            "key": json_text(change.key),
            "value": None if change.value is None else json_text(change.value),
            "token": change.token,
        }
    )
