"""`duramen scan | watch`: many keys, or changes for ever."""

from __future__ import annotations

import sys
from contextlib import closing
from datetime import datetime
from itertools import islice
from json import dumps
from typing import Annotated, Any

import typer

from duramen.cli.data.record_text import RecordText
from duramen.cli.data.table_text import text_of
from duramen.cli.terminal.options import (
    AT_DEFAULT,
    After,
    At,
    AtTime,
    AtToken,
    End,
    Json,
    KeyFields,
    Level,
    MaxLag,
    Prefix,
    Start,
    Timeout,
    asked_state,
    level_of,
)
from duramen.cli.terminal.output import say, say_json
from duramen.cli.terminal.text import json_text, shown_key
from duramen.client.model.results import Change
from log_tier.model.errors import InvalidRequest
from log_tier.model.record import Operation

__all__ = ["scan", "watch"]

_Table = Annotated[str, typer.Argument(metavar="TABLE", help="The table's name.")]
_Limit = Annotated[int | None, typer.Option("--limit", "-n", min=1, help="No more than that many.")]


def scan(
    table: _Table,
    prefix: Prefix = None,
    start: Start = None,
    end: End = None,
    field: KeyFields = None,
    reverse: Annotated[bool, typer.Option("--reverse", help="From the last key to the first.")] = False,
    limit: _Limit = None,
    keys_only: Annotated[bool, typer.Option("--keys", help="Keys without their values.")] = False,
    after: After = None,
    level: Level = None,
    max_lag: MaxLag = None,
    at_token: AtToken = None,
    at_time: AtTime = None,
    at: At = AT_DEFAULT,
    timeout: Timeout = 10.0,
    json: Json = False,
) -> None:
    """List keys and values in key order, one a line, a tab between them; rows as JSON, alone.

    Where keys have fields, --prefix, --start and --end take a list of JSON: the first fields, or all.

    \b
      duramen scan flights --prefix UA/1545/
      duramen scan flights --start AA --end AB --keys
      duramen scan flights --reverse --limit 10 --json
      duramen scan departures --field carrier=UA --field flight=1500..1600
      duramen scan departures --prefix '["UA"]'
      duramen scan prices --at-time 2026-01-31T12:00:00Z     # as it was, in a table with a history
    """
    from duramen.cli.terminal.connection import connected

    asked = level_of(level, max_lag, after)
    state = asked_state(at_token, at_time)
    if state is not None:
        if after is not None or level is not None:
            raise InvalidRequest("--at-token and --at-time name the state: leave out --after and --level")
        asked = "session"
    with connected(at, timeout) as database:
        text = text_of(database, table)
        keys = text.scan_range(prefix, start, end, field or ())
        entries = database.table(table).scan(
            prefix=keys.prefix,
            start=keys.start,
            end=keys.end,
            reverse=reverse,
            limit=limit,
            at=state,
            after=after,
            level=asked,
        )
        for key, value in entries:
            if json:
                shown = {"key": text.json_key(key)}
                say_json(shown if keys_only else {**shown, "value": text.json_value(value)})
            elif keys_only:
                say(text.key(key))
            elif text.has_key_in_value:
                say(text.value(value, lines=False))
            else:
                say(f"{text.key(key)}\t{text.value(value, lines=False)}")


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
    change carries a token; --after that token goes on with the next one, tomorrow as well. Of a table with a history it
    has `before` too, what the key had until then (null: nothing), where the history still has that.

    \b
      duramen watch flights
      duramen watch flights --from-start --limit 5
      duramen watch flights --after "$TOKEN" --json
    """
    from duramen.cli.terminal.connection import connected

    if after is not None and from_start:
        raise InvalidRequest("give one of --after and --from-start")
    with connected(at, timeout) as database:
        text = text_of(database, table)
        changes = database.table(table).watch(after=after, start="earliest" if from_start else "now")
        with closing(changes):
            for change in islice(changes, limit):
                if json:
                    _say_change(text, change)
                else:
                    clock_time = datetime.fromtimestamp(change.timestamp_ms / 1000).strftime("%H:%M:%S.%f")[:-3]
                    place = f"{change.partition}/{change.offset}"
                    say(f"{clock_time}  {place:<12}{change.operation.name.lower():<9}{_line(text, change)}")
                sys.stdout.flush()


def _line(text: RecordText, change: Change) -> str:
    """Key and value, or the row alone."""
    key = "" if change.operation is Operation.BARRIER else text.key(change.key)
    if change.value is None:
        return key
    if change.operation is Operation.PATCH:
        return f"{key}\t{dumps(text.json_patch(change.value), ensure_ascii=False)}"
    if change.operation is not Operation.PUT:
        return f"{key}\t{shown_key(change.value)}"
    value = text.value(change.value, lines=False)
    return value if text.has_key_in_value else f"{key}\t{value}"


def _say_change(text: RecordText, change: Change) -> None:
    is_put = change.operation is Operation.PUT
    value: Any = None
    if change.value is not None:
        shown = text.json_patch if change.operation is Operation.PATCH else json_text
        value = text.json_value(change.value) if is_put else shown(change.value)
    fields = {
        "partition": change.partition,
        "offset": change.offset,
        "timestamp_ms": change.timestamp_ms,
        "operation": change.operation.name.lower(),
        "key": json_text(change.key) if change.operation is Operation.BARRIER else text.json_key(change.key),
        "value": value,
        "token": change.token,
    }
    if change.before_is_kept:
        fields["before"] = None if change.before is None else text.json_value(change.before)
    say_json(fields)
