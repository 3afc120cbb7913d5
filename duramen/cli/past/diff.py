"""`duramen diff`: the keys whose values differ between two states of a table."""

from __future__ import annotations

from contextlib import closing
from itertools import islice
from typing import Annotated, Any

import typer

from duramen.cli.data.record_text import RecordText
from duramen.cli.data.table_text import text_of
from duramen.cli.terminal.options import (
    AT_DEFAULT,
    At,
    End,
    Json,
    KeyFields,
    Prefix,
    Start,
    Timeout,
    named_state,
)
from duramen.cli.terminal.output import say, say_json

__all__ = ["diff"]


def diff(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="A table that keeps a history.")],
    before: Annotated[
        str,
        typer.Argument(metavar="BEFORE", help="The first state: a token, or a time as 2026-01-31T12:00:00Z."),
    ],
    after: Annotated[
        str | None, typer.Argument(metavar="AFTER", help="The second state; the present where it is left out.")
    ] = None,
    prefix: Prefix = None,
    start: Start = None,
    end: End = None,
    field: KeyFields = None,
    limit: Annotated[int | None, typer.Option("--limit", "-n", min=1, help="No more keys than that.")] = None,
    at: At = AT_DEFAULT,
    timeout: Timeout = 10.0,
    json: Json = False,
) -> None:
    """Show what changed between two states of a table: - what a key had, + what it has.

    A key whose value changed has both lines; one that is the same again has none. Keys are in order in each partition.
    A token names a state of the partitions that it covers: `duramen token` prints one of all, `put --token` one of its
    key's partition. A time names all; without a zone it is local. With --json each key is one line, with `before` and
    `after`; null: it was not there.

    \b
      duramen diff prices 2026-01-31T12:00:00Z
      duramen diff prices 2026-01-30 2026-01-31 --prefix JFK
      duramen diff departures "$TOKEN" --field carrier=UA --json
    """
    from duramen.cli.terminal.connection import connected

    states = named_state(before), None if after is None else named_state(after)
    with connected(at, timeout) as database:
        text = text_of(database, table)
        keys = text.scan_range(prefix, start, end, field or ())
        found = database.table(table).diff(*states, prefix=keys.prefix, start=keys.start, end=keys.end)
        with closing(found):
            for each in islice(found, limit):
                if json:
                    had, has = _json(text, each.before), _json(text, each.after)
                    say_json({"key": text.json_key(each.key), "before": had, "after": has})
                    continue
                for sign, value in (("-", each.before), ("+", each.after)):
                    if value is not None:
                        say(f"{sign} {_shown(text, each.key, value)}")


def _json(text: RecordText, value: bytes | None) -> Any:
    return None if value is None else text.json_value(value)


def _shown(text: RecordText, key: bytes, value: bytes) -> str:
    shown = text.value(value, lines=False)
    return shown if text.has_key_in_value else f"{text.key(key)}\t{shown}"
