"""`duramen find`: rows by their fields."""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict
from functools import partial
from typing import Annotated

import typer

from duramen.cli.data.table_text import text_of
from duramen.cli.terminal.options import AT_DEFAULT, After, At, Json, Level, MaxLag, Timeout, level_of
from duramen.cli.terminal.output import say, say_json
from log_tier.model.errors import InvalidRequest

__all__ = ["find"]


def find(
    table: Annotated[str, typer.Argument(help="A table of rows.", show_default=False)],
    field: Annotated[
        list[str] | None,
        typer.Option(
            "--field",
            metavar="NAME=VALUE",
            help="Rows with this value; or in a range, NAME=START..END, the end not included; or null, NAME alone. May "
            "be repeated.",
        ),
    ] = None,
    order: Annotated[
        list[str] | None,
        typer.Option("--order", metavar="NAME", help="Sort by this field; -NAME goes down. May be repeated."),
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", "-n", min=0, help="At most so many.")] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Print which index was read and what it took, not the rows.")
    ] = False,
    after: After = None,
    level: Level = None,
    max_lag: MaxLag = None,
    at: At = AT_DEFAULT,
    timeout: Timeout = 10.0,
    json: Json = False,
) -> None:
    """Find rows by their fields, as JSON, one a line.

    The table's key or one of its ordered indexes serves (`duramen table create --index`); where none begins with a
    field that is asked for, the refusal says which one would.

    \b
      duramen find departures --field tailnum=N14228
      duramen find departures --field tailnum=N14228 --field dep_delay=60.. --order -dep_delay --limit 5
      duramen find departures --field origin.code=EWR --explain
    """
    from duramen.blocking.row_table import stored_rows
    from duramen.cli.terminal.connection import connected
    from duramen.client.rows.row_finds import explain_plan, plan_of
    from log_tier.rows.finding.condition_words import conditions_of_words
    from log_tier.rows.finding.find_planner import FindPlanner

    asked = level_of(level, max_lag, after)
    with connected(at, timeout) as database:
        definition = database.definition(table)
        if definition is None:
            raise InvalidRequest(f"the values of {table} are bytes: rows alone are found by their fields; use scan")
        plan = plan_of(FindPlanner(definition), conditions_of_words(field or (), definition), order, limit)
        stored = database.table(table)
        if explain:
            explaining = partial(
                explain_plan,
                stored.asynchronous,
                definition,
                plan,
                limit=limit,
                after=after,
                level=asked,
                timeout=timeout,
            )
            shown = stored.loop.run(explaining)
            if json:
                say_json(asdict(shown))
            else:
                say(str(shown))
            return
        text = text_of(database, table)
        values = stored_rows(stored, definition, plan, limit=limit, after=after, level=asked, timeout=timeout)
        with closing(values):
            for value in values:
                if json:
                    say_json({"value": text.json_value(value)})
                else:
                    say(text.value(value, lines=False))
