"""`duramen table index create | drop | list`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Annotated

import typer

from duramen.cli.terminal.options import AT_DEFAULT, At, Json, Timeout
from duramen.cli.terminal.output import say, say_json
from log_tier.model.errors import InvalidRequest

__all__ = ["app"]

app = typer.Typer(help="Give a table of rows an index, take one away, list them.", no_args_is_help=True)

Table = Annotated[str, typer.Argument(metavar="TABLE", help="A table of rows.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="The index's name.")]


@app.command()
def create(
    table: Table,
    name: Name,
    fields: Annotated[
        list[str], typer.Argument(metavar="FIELD", help="What it sorts by; origin.code is inside origin.")
    ],
    where: Annotated[
        list[str] | None,
        typer.Option(
            "--where",
            metavar="NAME=VALUE",
            help="It has rows with this value alone; or in a range, NAME=START..END, the end not included; or null, "
            "NAME alone. May be repeated.",
        ),
    ] = None,
    unique: Annotated[
        bool, typer.Option("--unique", help="No two rows have the same values. It comes with its table: see there.")
    ] = False,
    kind: Annotated[
        str, typer.Option("--kind", metavar="KIND", help="ordered, for find; or text, of words, for search.")
    ] = "ordered",
    at: At = AT_DEFAULT,
    timeout: Timeout = 600.0,
    json: Json = False,
) -> None:
    """Give a table an index, and wait until it is in service.

    The table may have rows, and may be written and read meanwhile. The same command again changes nothing, waits for an
    index that is being built, and takes one up that failed. When the time is over, or the command is interrupted, it
    goes on by itself. With --where it has some rows only, and serves finds that ask for no others.

    A unique index comes with its table (duramen table create --index NAME=FIELDS:unique): with --unique the command is
    refused where the table does not have it.

    \b
      duramen table index create departures by_tail tailnum
      duramen table index create departures by_origin origin.code dep_delay
      duramen table index create departures late tailnum --where dep_delay=60..
      duramen table index create departures words remark origin_name --kind text
    """
    conditions = where or []
    _change(table, name, fields, conditions, at, timeout, unique=unique, kind=kind)
    if json:
        more: dict[str, object] = {"where": conditions} if conditions else {}
        more |= {"unique": True} if unique else {}
        more |= {"kind": kind} if kind != "ordered" else {}
        say_json({"table": table, "index": name, "fields": fields, **more})
    else:
        only = f" where {', '.join(conditions)}" if conditions else ""
        say(f"table {table} has the index {name} ({', '.join(fields)}){only}")


@app.command()
def drop(table: Table, name: Name, at: At = AT_DEFAULT, timeout: Timeout = 30.0, json: Json = False) -> None:
    """Take an index away; one that is being built is given up.

    Finds that it served are refused from then on.
    """
    _change(table, name, (), (), at, timeout)
    if json:
        say_json({"table": table, "dropped": name})
    else:
        say(f"table {table} has no index {name} any more")


@app.command("list")
def list_(table: Table, at: At = AT_DEFAULT, timeout: Timeout = 10.0, json: Json = False) -> None:
    """List a table's indexes, one a line: those of texts, then the ordered ones, each in the order of their making."""
    from duramen.cli.terminal.connection import connected
    from log_tier.rows.finding.condition_words import index_words, words_of_conditions

    with connected(at, timeout) as database:
        definition = database.definition(table)
    if definition is None or definition.value != "row":
        raise InvalidRequest(f"the values of table {table} are no rows: tables of rows alone have indexes")
    building = definition.history.building
    for text in definition.texts:
        served = text.number not in building
        if json:
            say_json({"name": text.name, "fields": list(text.fields), "in_service": served, "kind": "text"})
        else:
            say(f"{text.name} (text: {', '.join(text.fields)}){'' if served else ', being built'}")
    for each in definition.indexes:
        in_service, where = each.number not in building, words_of_conditions(each.where)
        if json:
            only = {**({"where": where} if where else {}), **({"unique": True} if each.unique else {})}
            say_json({"name": each.name, "fields": list(each.fields), "in_service": in_service, **only})
        else:
            say(f"{index_words(each)}{'' if in_service else ', being built'}")


def _change(
    table: str,
    name: str,
    fields: Sequence[str],
    where: Sequence[str],
    at: str,
    timeout: float,
    *,
    unique: bool = False,
    kind: str = "ordered",
) -> None:
    """Without fields the index goes."""
    from duramen.cli.terminal.connection import connected
    from duramen.client.rows.row_indexes import new_index
    from log_tier.rows.alter_table import IndexChange
    from log_tier.rows.definition import TableDefinition
    from log_tier.rows.finding.condition_words import conditions_of_words

    with connected(at, timeout) as database:
        definition = (database.definition(table) if where else None) or TableDefinition()
        asked = conditions_of_words(where, definition)
        change = (
            new_index(name, tuple(fields), asked, definition, unique=unique, kind=kind) if fields else IndexChange(name)
        )
        stored = database.table(table)
        stored.loop.run(partial(stored.asynchronous.lookup.change_indexes, change, timeout))
