"""`duramen table create | list | describe | drop`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from duramen.cli.options import AT_DEFAULT, At, Json, Timeout, connected
from duramen.cli.output import say, say_json, say_table
from log_tier.errors import InvalidRequest

__all__ = ["app"]

app = typer.Typer(
    help="Create, list, describe and drop tables.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

_Name = Annotated[str, typer.Argument(metavar="TABLE", help="The table's name.")]


@app.command()
def create(
    table: _Name,
    partitions: Annotated[int, typer.Option("--partitions", "-p", help="How many; the number stays.")] = 8,
    replicas: Annotated[
        int | None,
        typer.Option("--replicas", "-r", help="How many nodes hold each partition; default: all, up to three."),
    ] = None,
    if_missing: Annotated[bool, typer.Option("--if-missing", help="One that is there already is fine.")] = False,
    at: At = AT_DEFAULT,
    timeout: Timeout = 10.0,
    json: Json = False,
) -> None:
    """Create a table.

    A table's keys are spread over its partitions, each with a log and an index of its own.

    \b
      duramen table create flights
      duramen table create events --partitions 32 --if-missing
      duramen table create ships --replicas 2             # on a cluster
    """
    with connected(at, timeout) as database:
        database.create_table(table, partitions=partitions, replicas=replicas, if_missing=if_missing)
        topic = database.describe_table(table).table
    if json:
        say_json({"table": topic.name, "id": topic.id, "partitions": topic.partitions})
    else:
        say(f"table {topic.name} has {topic.partitions} partition{'s' if topic.partitions > 1 else ''} (id {topic.id})")


@app.command("list")
def list_tables(at: At = AT_DEFAULT, timeout: Timeout = 10.0, json: Json = False) -> None:
    """List the tables.

    \b
      duramen table list
      duramen table list --json | jq -r .table
    """
    with connected(at, timeout) as database:
        found = database.tables()
    if json:
        for table in found:
            say_json({"table": table.name, "id": table.id, "partitions": table.partitions})
    elif found:
        say_table(["table", "partitions", "id"], [(t.name, t.partitions, t.id) for t in found], right=["partitions"])
    else:
        say("no tables yet: `duramen table create NAME` makes one")


@app.command()
def describe(table: _Name, at: At = AT_DEFAULT, timeout: Timeout = 10.0, json: Json = False) -> None:
    """Show how a table's partitions stand.

    For each: the offsets that its log holds, how far its index has applied them, how many keys there are.

    \b
      duramen table describe flights
    """
    with connected(at, timeout) as database:
        description = database.describe_table(table)
    topic, parts = description.table, description.partitions
    if json:
        for part in parts:
            say_json({"table": topic.name, "id": topic.id, **part._asdict()})
        return
    say(f"table {topic.name}, id {topic.id}: {sum(part.keys for part in parts):,} keys")
    columns = ["partition", "earliest", "latest", "applied", "keys", "index KiB", "state"]
    say_table(
        columns,
        [
            (
                part.partition,
                part.earliest,
                part.latest,
                part.applied,
                part.keys,
                part.index_bytes // 1024,
                f"{part.state}: {part.reason}" if part.reason else part.state,
            )
            for part in parts
        ],
        right=columns[:-1],
    )


@app.command()
def drop(
    table: _Name,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    at: At = AT_DEFAULT,
    timeout: Timeout = 10.0,
    json: Json = False,
) -> None:
    """Delete a table with all it holds. It cannot be undone.

    \b
      duramen table drop flights --yes
    """
    with connected(at, timeout) as database:
        description = database.describe_table(table)
        keys = sum(part.keys for part in description.partitions)
        if not yes:
            if not sys.stdin.isatty():
                raise InvalidRequest(f"dropping {table} deletes its {keys} keys for ever: say --yes")
            typer.confirm(f"Delete table {table} with its {keys:,} keys for ever?", abort=True)
        database.drop_table(table)
    if json:
        say_json({"table": table, "id": description.table.id, "dropped": True, "keys": keys})
    else:
        say(f"dropped {table} with its {keys:,} keys")
