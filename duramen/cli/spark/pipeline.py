"""`duramen repush | export`: what Spark does with a table's own content."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from duramen.cli.admin.figures import size
from duramen.cli.spark.bulk import Master, absolute, check_there, go_on, shows_progress
from duramen.cli.spark.export_file import RowFileFormat, export_file, format_by_name
from duramen.cli.spark.spark_access import spark_access
from duramen.cli.terminal.options import AT_DEFAULT, At, AtTime, AtToken, Json, asked_state
from duramen.cli.terminal.output import say, say_json
from duramen.cli.terminal.text import counted
from log_tier.model.errors import InvalidRequest

__all__ = ["export", "repush"]

_Table = Annotated[str, typer.Argument(metavar="TABLE", help="The table.")]
_Snapshots = Annotated[
    str, typer.Option("--snapshots", metavar="URL", help="The cluster's snapshot store, to read from as well.")
]
_Patience = Annotated[float, typer.Option("--timeout", metavar="SECONDS", help="To find every partition in.", min=0.1)]


def repush(
    table: _Table,
    url: Annotated[str, typer.Option("--url", metavar="URL", help="Where the version goes: a new folder, s3://…")],
    into: Annotated[
        str | None, typer.Option("--into", metavar="TABLE", help="For another table, of whatever number of partitions.")
    ] = None,
    function: Annotated[
        str | None,
        typer.Option(
            "--function", metavar="MODULE:NAME", help="(key, value) -> (key, value), or None to leave a row out."
        ),
    ] = None,
    token: Annotated[str | None, typer.Option("--token", help="The state to take; the present one without.")] = None,
    stage: Annotated[bool, typer.Option("--stage", help="Have every replica fetch it afterwards.")] = False,
    swap: Annotated[bool, typer.Option("--swap", help="And put it into service.")] = False,
    snapshots: _Snapshots = "",
    master: Master = None,
    at: At = AT_DEFAULT,
    timeout: _Patience = 600.0,
    json: Json = False,
) -> int:
    """Build a version of a table from its own content, while writes go on.

    Without more it is compacted: what expired is gone, and pages are full. With --function every row is changed; with
    --into it becomes a version of another table, which may be cut otherwise.

    \b
      duramen repush flights --url file:///bulk/flights/compact --swap
      duramen repush flights --url file:///bulk/flights/v3 --function cleaning:without_tests --swap
      duramen repush flights --url file:///bulk/wide/1 --into flights_wide
    """
    from spark_bulk.runtime.requirements import check_packages

    check_packages()
    from duramen.cli.spark.built import say_built
    from spark_bulk.build.version_build import Built
    from spark_bulk.repush import repush as work
    from spark_bulk.spark_session import local_session

    change = None if function is None else _function(function)
    access = spark_access(at)
    check_there(access, table, timeout, is_read=True)
    built: list[Built] = []
    with local_session("duramen repush", master=master or "local[*]", progress=shows_progress(json)) as spark:
        work(
            spark,
            **access,
            table=table,
            url=absolute(url),
            function=change,
            into=into,
            token=token,
            snapshots=snapshots,
            timeout=timeout,
            report=built.append,
        )
    target = into or table
    say_built(built[0], target, absolute(url), json)
    return go_on(target, absolute(url), at, stage=stage or swap, swap=swap, json=json)


def export(
    table: _Table,
    url: Annotated[
        str,
        typer.Argument(metavar="URL", help="Where the Parquet files go: a folder, s3://…; of a table of rows, a file."),
    ],
    format_: Annotated[
        RowFileFormat | None,
        typer.Option("--format", help="Of rows: csv, jsonl, parquet or arrow, if the file's name does not tell."),
    ] = None,
    delimiter: Annotated[str, typer.Option("--delimiter", help="CSV: the character between two fields.")] = ",",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Of rows: replace a file that is there.")] = False,
    changes: Annotated[
        bool, typer.Option("--changes", help="The change feed, from where the last export at URL ended.")
    ] = False,
    token: Annotated[str | None, typer.Option("--token", help="The state to read; the present one without.")] = None,
    from_: Annotated[str | None, typer.Option("--from", metavar="TOKEN", help="With --changes: behind it.")] = None,
    to: Annotated[str | None, typer.Option("--to", metavar="TOKEN", help="With --changes: up to this one.")] = None,
    at_token: AtToken = None,
    at_time: AtTime = None,
    text: Annotated[bool, typer.Option("--text", help="Keys and values are UTF-8 text, not bytes.")] = False,
    snapshots: _Snapshots = "",
    master: Master = None,
    at: At = AT_DEFAULT,
    timeout: _Patience = 600.0,
    json: Json = False,
) -> None:
    """Write a table, or its changes, as Parquet files with a manifest; a table of rows as one file.

    The rows of a table that has a schema go into a CSV, JSON lines (both also as .gz), Parquet or an Arrow file, by its
    name, with their types. `duramen load` takes each of them back. Everything else is done by Spark, which reads all of
    the table: it takes a grant `read` without a key prefix. Who has one on a prefix uses `duramen scan --prefix`.

    \b
      duramen export departures departures.parquet
      duramen export departures departures.csv.gz --overwrite
      duramen export departures monday.parquet --at-time 2026-02-02T00:00:00Z   # as it was, in a table with a history
      duramen export flights /exports/flights
      duramen export flights /exports/flights --changes       # what came since, again and again
    """
    file_format = format_ or (None if changes or "://" in url else format_by_name(Path(url)))
    state = asked_state(at_token, at_time)
    if state is not None and token is not None:
        raise InvalidRequest("--at-token and --at-time name the state: leave out --token")
    if file_format is not None and export_file(table, url, file_format, delimiter, overwrite, token, state, at, json):
        return
    if state is not None:
        raise InvalidRequest("--at-token and --at-time are for a table of rows that goes into one file")
    from spark_bulk.runtime.requirements import check_packages

    check_packages()
    from spark_bulk.export import export_changes, export_table
    from spark_bulk.spark_session import local_session

    if changes and token is not None:
        raise InvalidRequest("--token is for a table's content; changes lie between --from and --to")
    if not changes and (from_ or to):
        raise InvalidRequest("--from and --to are for --changes; a table's content is that of one --token")
    form: Any = "utf8" if text else "bytes"
    access = spark_access(at)
    check_there(access, table, timeout, is_read=True)
    how: dict[str, Any] = {**access, "table": table, "url": absolute(url), "keys": form, "values": form}
    with local_session("duramen export", master=master or "local[*]", progress=shows_progress(json)) as spark:
        if changes:
            manifest = export_changes(spark, **how, from_token=from_, to_token=to, timeout=timeout)
        else:
            manifest = export_table(spark, **how, token=token, snapshots=snapshots, timeout=timeout)
    found = {
        "event": "exported",
        "table": table,
        "url": absolute(url),
        "folder": manifest.folder,
        "rows": manifest.rows,
        "bytes": manifest.bytes,
        "files": len(manifest.files),
        "token": manifest.token,
    }
    if json:
        say_json(found)
    else:
        files = f"{counted(len(manifest.files), 'file')}, {size(manifest.bytes)}"
        say(f"{counted(manifest.rows, 'row')} in {files}: {manifest.folder}")
        say(f"up to {manifest.token}")


def _function(name: str) -> Any:
    """What MODULE:NAME names, from the current folder too."""
    module, _, attribute = name.partition(":")
    if not module or not attribute:
        raise InvalidRequest(f"--function takes MODULE:NAME, not {name!r}")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
        # Spark's workers are processes of their own, and look where this one looks.
        os.environ["PYTHONPATH"] = os.pathsep.join([here, *filter(None, [os.environ.get("PYTHONPATH")])])
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise InvalidRequest(f"there is no function {name}: {error}") from error
