"""`duramen bulk`: a table's whole content, built by Spark and put into service."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import Annotated, Any, Final

import typer

from duramen.cli.admin import versions
from duramen.cli.admin.arguments import absolute_url
from duramen.cli.admin.verb_command import command_of
from duramen.cli.spark.spark_access import SparkAccess, spark_access
from duramen.cli.terminal.options import AT_DEFAULT, At, Json, Timeout
from log_tier.model.errors import InvalidRequest
from router.admin.verbs import VERBS, Discard, Rollback, Stage, Swap

__all__ = ["Master", "absolute", "app", "build", "check_there", "go_on", "shows_progress"]

Master = Annotated[
    str | None,
    typer.Option("--master", metavar="URL", help="Spark's master: local[*] (the default), spark://…, yarn, …"),
]


# To find the table in.
_LOOK_S: Final = 30.0


class _Duplicates(StrEnum):
    ERROR = "error"
    LAST = "last"


def build(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="The table; it is there already.")],
    files: Annotated[list[str], typer.Argument(metavar="FILE…", help="What Spark can read: paths, patterns, URLs.")],
    url: Annotated[str, typer.Option("--url", metavar="URL", help="Where the version goes: a new folder, s3://…")],
    key: Annotated[list[str], typer.Option("--key", "-k", metavar="COLUMN", help="A key column; may be repeated.")],
    key_separator: Annotated[str, typer.Option("--key-separator", help="Between several key columns.")] = "/",
    value: Annotated[
        list[str] | None,
        typer.Option("--value", metavar="COLUMN", help="The value is this column; several, or none: JSON of them."),
    ] = None,
    format_: Annotated[str, typer.Option("--format", help="parquet, csv, json, orc, …")] = "parquet",
    sql: Annotated[
        str | None,
        typer.Option("--sql", metavar="QUERY", help="Build from this query; the files are the view `input`."),
    ] = None,
    duplicates: Annotated[
        _Duplicates, typer.Option("--duplicates", help="Several rows of a key: an error, or the last one counts.")
    ] = _Duplicates.ERROR,
    order_by: Annotated[
        list[str] | None, typer.Option("--order-by", metavar="COLUMN", help="By which the last one is the last.")
    ] = None,
    stage: Annotated[bool, typer.Option("--stage", help="Have every replica fetch it afterwards.")] = False,
    swap: Annotated[bool, typer.Option("--swap", help="And put it into service.")] = False,
    master: Master = None,
    at: At = AT_DEFAULT,
    timeout: Timeout = 60.0,
    json: Json = False,
) -> int:
    """Build a version of a table from files, with Spark: placed and sorted as the nodes keep it.

    What is written to the table from now on comes on top of it. Nothing is served from it before `swap`.

    \b
      duramen bulk build flights flights.parquet --key carrier --key flight --url file:///bulk/flights/1
      duramen bulk build flights 's3a://lake/flights/*.parquet' --key id --url s3://bulk/flights/2 --swap
    """
    from spark_bulk.runtime.requirements import check_packages

    check_packages()
    from duramen.cli.spark.built import say_built
    from spark_bulk.build.version_build import Built, build_index
    from spark_bulk.spark_session import local_session

    if not files or not key:
        raise InvalidRequest("a build names files and a key column")
    access = spark_access(at)
    check_there(access, table, timeout)
    built: list[Built] = []
    with local_session("duramen bulk build", master=master or "local[*]", progress=shows_progress(json)) as spark:
        frame = _read(spark, files, format_)
        if sql is not None:
            frame.createOrReplaceTempView("input")
            frame = spark.sql(sql)
        frame, key_name = _keyed(frame, key, key_separator)
        rest = [name for name in frame.columns if name != key_name]
        build_index(
            frame,
            **access,
            table=table,
            key=key_name,
            value=value[0] if value and len(value) == 1 else (value or rest),
            url=absolute(url),
            duplicates=duplicates.value,
            order_by=order_by or None,
            timeout=timeout,
            report=built.append,
        )
    say_built(built[0], table, absolute(url), json)
    return go_on(table, absolute(url), at, stage=stage or swap, swap=swap, json=json)


def go_on(table: str, url: str, at: str, *, stage: bool, swap: bool, json: bool) -> int:
    """Stage the built version and swap it in, as `stage` and `swap` say; returns the exit code."""
    from duramen.cli.admin.change import carry_out

    for wanted, change in ((stage, Stage(table, url)), (swap, Swap(table))):
        if wanted:
            code = carry_out(change, at=at, json=json, dry_run=False, wait=True, timeout=None)
            if code:
                return code
    return 0


def check_there(access: SparkAccess, table: str, timeout: float, *, is_read: bool = False) -> None:
    """Raise `TableNotFound`, `Disconnected` before Spark starts, which takes a while. `is_read`: and `PermissionDenied`
    to a user who may not read the whole table.
    """
    from spark_bulk.runtime.waiting import wait_for
    from spark_bulk.source.model.cluster_login import ClusterLogin
    from spark_bulk.source.model.table_place import find_table, readable_bounds

    place = wait_for(find_table(ClusterLogin.of(**access), table, timeout_s=min(timeout, _LOOK_S)))
    if is_read:
        wait_for(readable_bounds(place, timeout_s=min(timeout, _LOOK_S)))


def shows_progress(json: bool) -> bool:
    """Is there a person who would see a bar?"""
    return not json and sys.stderr.isatty()


def absolute(url: str) -> str:
    """`absolute_url` with a scheme: Spark looks for a path without one in its default file system."""
    found = absolute_url(url)
    return found if "://" in found else f"file://{found}"


def _read(spark: Any, files: list[str], format_: str) -> Any:
    reader = spark.read.format(format_)
    if format_ == "csv":
        reader = reader.option("header", "true")
    return reader.load(files)


def _keyed(frame: Any, key: list[str], separator: str) -> tuple[Any, str]:
    """One key column: several are joined as text."""
    if len(key) == 1:
        return frame, key[0]
    from pyspark.sql import functions

    return frame.withColumn("_key", functions.concat_ws(separator, *key)), "_key"


_HELP = """
A table's whole content, built by Spark and put into service without a pause.

\b
  duramen bulk build flights flights.parquet --key carrier --key flight --url file:///bulk/flights/1
  duramen bulk stage flights file:///bulk/flights/1     # every replica fetches and verifies it
  duramen bulk swap flights                             # from here on it is read
  duramen bulk rollback flights                         # and back

It needs `pip install 'duramen[spark]'` and Java 17 or newer; stage, swap and rollback need neither.
"""

app = typer.Typer(help=_HELP, no_args_is_help=True, rich_markup_mode=None)
app.command("build")(build)
app.command("versions")(versions.versions)
for _change in (Stage, Swap, Rollback, Discard):
    app.command(VERBS[_change].command)(command_of(VERBS[_change]))
