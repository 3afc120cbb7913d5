"""`duramen table create | alter | index | set | list | describe | schema | drop`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from json import loads as parse_json
from pathlib import Path
from typing import Annotated, Any

import typer

from duramen.cli.admin.figures import duration, offset
from duramen.cli.admin.figures import size as format_size
from duramen.cli.data import indexes
from duramen.cli.data.alter import alter
from duramen.cli.data.definition_text import indexes_of, names_of, schema_text
from duramen.cli.terminal.options import AT_DEFAULT, At, Json, Timeout
from duramen.cli.terminal.output import say, say_json, say_table
from duramen.cli.terminal.text import counted
from duramen.client.model.results import TableInfo
from log_tier.model.errors import InvalidRequest, PermissionDenied, Unauthenticated
from log_tier.model.partitioner import check_partitioner
from log_tier.model.table_ref import TableRef

__all__ = ["app"]

app = typer.Typer(
    help="Create, change, list, describe and drop tables, and show their schemas.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

_Name = Annotated[str, typer.Argument(metavar="TABLE", help="The table's name.")]
_RetentionMs = Annotated[
    int | None,
    typer.Option("--retention-ms", metavar="MS", min=0, help="Its log keeps records so long; 0: for ever (default)."),
]
_RetentionBytes = Annotated[
    int | None,
    typer.Option(
        "--retention-bytes", metavar="BYTES", min=0, help="Each partition's log keeps so much; 0: all (default)."
    ),
]


@app.command()
def create(
    table: _Name,
    partitions: Annotated[
        int | None, typer.Option("--partitions", "-p", help="How many; the number stays. Default: 8.")
    ] = None,
    replicas: Annotated[
        int | None,
        typer.Option("--replicas", "-r", help="How many nodes hold each partition; default: all, up to three."),
    ] = None,
    over: Annotated[
        str | None,
        typer.Option("--over", metavar="TOPIC", help="Lay it over this topic of others, on a Kafka log."),
    ] = None,
    partitioner: Annotated[
        str | None,
        typer.Option(
            "--partitioner",
            help="How keys find their partition: slot; murmur2 as Kafka's producers do; or fields:N, by the first N "
            "fields of duramen.pack_key's keys. Default: slot; with --over murmur2.",
        ),
    ] = None,
    schema: Annotated[
        Path | None,
        typer.Option("--schema", metavar="FILE", help="Its values are rows of this Avro schema (JSON); - is stdin."),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option("--key", metavar="NAMES", help="The row's fields that are its key, as carrier,flight."),
    ] = None,
    partition_by: Annotated[
        str | None,
        typer.Option(
            "--partition-by", metavar="NAMES", help="The first of the key's fields, if they alone decide the partition."
        ),
    ] = None,
    index: Annotated[
        list[str] | None,
        typer.Option(
            "--index",
            metavar="NAME=FIELDS",
            help="An ordered index of its rows, as by_tail=tailnum,dep_delay. With :unique behind it no two rows have "
            "the same values. May be repeated.",
        ),
    ] = None,
    history: Annotated[
        str | None,
        typer.Option(
            "--history",
            metavar="HOW-MUCH",
            help="Keep what its keys had before: all; the newest changes of each key, as 100; or those of some time, "
            "as 30d (s, m, h, d, w). `get --at-token` and `history` read it.",
        ),
    ] = None,
    retention_ms: _RetentionMs = None,
    retention_bytes: _RetentionBytes = None,
    if_missing: Annotated[bool, typer.Option("--if-missing", help="One that is there already is fine.")] = False,
    at: At = AT_DEFAULT,
    timeout: Timeout = 10.0,
    json: Json = False,
) -> None:
    """Create a table.

    A table's keys are spread over its partitions, each with a log and an index of its own.

    With --over the table's log is a topic that exists already and that others write: what they write is in the table,
    what is written to the table they see. It has as many partitions as the topic, and keys are placed as its producers
    place them. Dropping the table keeps the topic.

    With --schema and --key its values are rows, which `put` takes and `get` prints as JSON. A row that does not fit the
    schema is refused. Keys sort as their fields do. With --index `find` reads rows in the order of other fields.

    With --retention-ms or --retention-bytes the log gives up its oldest records; see `duramen table set`.

    \b
      duramen table create flights
      duramen table create events --partitions 32 --if-missing
      duramen table create prices --history 30d           # `get --at-token`, `history`
      duramen table create ships --replicas 2             # on a cluster
      duramen table create orders --over orders-v1 --partitioner murmur2
      duramen table create departures --schema departure.avsc --key carrier,flight --partition-by carrier
      duramen table create planes --schema plane.avsc --key tailnum --index by_maker=manufacturer,year
    """
    from duramen.cli.terminal.connection import connected

    if (schema is None) != (key is None):
        raise InvalidRequest("--schema FILE and --key NAMES go together: a table of rows has a key of their fields")
    row = None if schema is None else schema_text(schema)
    with connected(at, timeout) as database:
        if partitioner is not None:
            check_partitioner(partitioner)
        create_any: Callable[..., object] = database.create_table  # its overloads know which arguments go together
        create_any(
            table,
            row=row,
            key=None if key is None else names_of(key),
            partition_by=None if partition_by is None else names_of(partition_by),
            indexes=indexes_of(index or ()),
            history=history,
            partitions=partitions,
            replicas=replicas,
            over=over,
            partitioner=partitioner,
            retention_ms=retention_ms or 0,
            retention_bytes=retention_bytes or 0,
            if_missing=if_missing,
        )
        made = database.describe_table(table).table
    if json:
        say_json(_document(made))
    else:
        say(f"{_named(made)} has {counted(made.partitions, 'partition')} (id {made.id})")


app.command()(alter)
app.add_typer(indexes.app, name="index")


@app.command("set")
def set_(
    table: _Name,
    retention_ms: _RetentionMs = None,
    retention_bytes: _RetentionBytes = None,
    at: At = AT_DEFAULT,
    timeout: Timeout = 10.0,
    json: Json = False,
) -> None:
    """Change how much of its log a table keeps. The table's keys and values stay, whatever their age.

    Either bound lets the log's oldest segments go, below what a verified snapshot covers and every live replica has
    applied; the newest segment stays. A watcher that was away for less than --retention-ms misses nothing. Take
    snapshots by schedule (`duramen up --snapshot-every-s`): without one, nothing goes.

    \b
      duramen table set flights --retention-ms 604800000          # a week
      duramen table set flights --retention-bytes 10737418240     # 10 GiB of each partition
      duramen table set flights --retention-ms 0 --retention-bytes 0
    """
    from duramen.cli.admin.answer import say_answer
    from duramen.cli.admin.connection import ask

    changed = ask(at, timeout, lambda admin: admin.set_retention(table, ms=retention_ms, size=retention_bytes))
    if json:
        say_answer(changed)
        return
    say(f"the log of table {table} keeps {_retention(changed.retention_ms, changed.retention_bytes)}")
    for note in changed.notes:
        say(f"note: {note}")


def _retention(ms: int, size: int) -> str:
    """`everything`, `records for 7 d 0 h`, …"""
    kept = []
    if ms:
        kept.append(f"records for {duration(ms / 1000)}")
    if size:
        kept.append(f"{format_size(size)} of each partition")
    return " and ".join(kept) or "everything"


@app.command("list")
def list_tables(at: At = AT_DEFAULT, timeout: Timeout = 10.0, json: Json = False) -> None:
    """List the tables.

    \b
      duramen table list
      duramen table list --json | jq -r .table
    """
    from duramen.cli.terminal.connection import connected

    with connected(at, timeout) as database:
        found = database.tables()
    if json:
        for table in found:
            say_json(_document(table))
    elif found:
        say_table(
            ["table", "partitions", "partitioner", "over", "id"],
            [(t.name, t.partitions, t.partitioner, t.over or "–", t.id) for t in found],
            right=["partitions"],
        )
    else:
        say("no tables yet: `duramen table create NAME` makes one")


@app.command()
def describe(table: _Name, at: At = AT_DEFAULT, timeout: Timeout = 10.0, json: Json = False) -> None:
    """Show the status of a table's partitions.

    For each: the offsets that its log holds, how far its index has applied them, how many keys there are. Before them,
    what the table's keys and values are, where it has a definition, how much of their past it keeps, and when it was
    made.

    \b
      duramen table describe flights
    """
    from duramen.cli.data.shown_definition import definition_document, definition_line, kept_words, made_words
    from duramen.cli.terminal.connection import connected

    with connected(at, timeout) as database:
        description = database.describe_table(table)
        definition = database.definition(table)
    described, parts = description.table, description.partitions
    if json:
        for part in parts:
            say_json(
                {
                    "table": described.name,
                    "id": described.id,
                    "partitioner": described.partitioner,
                    "over": described.over or None,
                    "retention_ms": description.retention.ms,
                    "retention_bytes": description.retention.bytes,
                    "history": None if description.keeps is None else str(description.keeps),
                    "made_ms": description.made_ms or None,
                    "definition": None if definition is None else definition_document(definition),
                    **part._asdict(),
                }
            )
        return
    say(
        f"{_named(described)}, id {described.id}, partitioner {described.partitioner}: "
        f"{counted(sum(part.keys for part in parts), 'key')}; its log keeps {_retention(*description.retention)}"
        f"{kept_words(description.keeps)}{made_words(description.made_ms)}"
    )
    if definition is not None:
        say(definition_line(definition))
    columns = ["partition", "earliest", "latest", "applied", "keys", "index KiB", "state"]
    say_table(
        columns,
        [
            (
                part.partition,
                part.earliest,
                offset(part.latest),
                offset(part.applied),
                part.keys,
                part.index_bytes // 1024,
                f"{part.state}: {part.reason}" if part.reason else part.state,
            )
            for part in parts
        ],
        right=columns[:-1],
    )


@app.command("schema")
def schema_(
    table: _Name,
    version: Annotated[
        int | None, typer.Option("--version", metavar="N", min=1, help="Its Nth schema; default: the newest.")
    ] = None,
    at: At = AT_DEFAULT,
    timeout: Timeout = 10.0,
    json: Json = False,
) -> None:
    """Print the Avro schema of a table's rows, as JSON.

    It is the canonical form: names in full, without blanks. With --json it is in an object, with its version and its
    number, which stands for it in stored values.

    \b
      duramen table schema departures > departure.avsc
      duramen table schema departures --version 1 | jq .
    """
    from duramen.cli.terminal.connection import connected

    with connected(at, timeout) as database:
        definition = database.definition(table)
    schemas = () if definition is None else definition.schemas
    if not schemas:
        raise InvalidRequest(f"table {table} has no rows, so it has no schema")
    at_version = len(schemas) if version is None else version
    if at_version > len(schemas):
        raise InvalidRequest(f"table {table} has the schemas 1 to {len(schemas)}, there is no schema {at_version}")
    found = schemas[at_version - 1]
    if json:
        shown = {"table": table, "version": at_version, "number": found.number}
        say_json({**shown, "schema": parse_json(found.schema.text)})
    else:
        say(found.schema.text)


@app.command()
def drop(
    table: _Name,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    at: At = AT_DEFAULT,
    timeout: Timeout = 10.0,
    json: Json = False,
) -> None:
    """Delete a table with all it holds. It cannot be undone.

    Of a table over a topic of others (see create --over) only the indexes go: the topic keeps its records. A quota is
    of a table's name: it stays for the next table of that name, and who may list quotas is reminded of it.

    \b
      duramen table drop flights --yes
    """
    from duramen.cli.terminal.connection import connected

    kept_quota = _has_quota(table, at, timeout)
    with connected(at, timeout) as database:
        description = database.describe_table(table)
        keys = sum(part.keys for part in description.partitions)
        over = description.table.over
        if not yes:
            held = counted(keys, "key")
            lost = f"its indexes with {held}; its topic {over} stays" if over else f"its {held} for ever"
            lost += "; its quota stays" if kept_quota else ""
            if not sys.stdin.isatty():
                raise InvalidRequest(f"dropping {table} deletes {lost}: say --yes")
            typer.confirm(f"Drop table {table}? It deletes {lost}", abort=True)
        database.drop_table(table)
    if json:
        gone = {"table": table, "id": description.table.id, "dropped": True, "keys": keys}
        say_json(gone | {"kept_topic": over or None, "kept_quota": kept_quota})
        return
    if over:
        say(f"dropped {table} with its indexes of {counted(keys, 'key')}; its topic {over} stays as it is")
    else:
        say(f"dropped {table} with its {counted(keys, 'key')}")
    if kept_quota:
        say(f"its quota stays for a table of this name: `duramen quota remove --table {table}` takes it away")


def _has_quota(table: str, at: str, timeout: float) -> bool:
    """Is there a quota of just this name? Who may not list quotas is not to know: False."""
    from duramen.cli.users.connection import ask_users

    try:
        return any(each.table == table for each in ask_users(at, timeout, lambda users: users.quotas()).quotas)
    except (PermissionDenied, Unauthenticated):
        return False


def _named(table: TableRef | TableInfo) -> str:
    return f"table {table.name}" + (f" over topic {table.over}" if table.over else "")


def _document(table: TableRef | TableInfo) -> dict[str, Any]:
    return {
        "table": table.name,
        "id": table.id,
        "partitions": table.partitions,
        "partitioner": table.partitioner,
        "over": table.over or None,
    }
