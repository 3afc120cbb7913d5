"""`duramen load`: a file into a table, as often as it takes."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from duramen.cli.terminal.options import AT_DEFAULT, At, Json
from duramen.cli.terminal.output import say, say_json
from duramen.cli.terminal.text import counted
from log_tier.model.errors import InvalidRequest

__all__ = ["load"]


class _Format(StrEnum):
    CSV = "csv"
    JSONL = "jsonl"
    PARQUET = "parquet"
    ARROW = "arrow"


def load(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="The table's name.")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="CSV, JSON lines (both also as .gz), Parquet or Arrow.")],
    key: Annotated[
        list[str] | None,
        typer.Option("--key", "-k", metavar="COLUMN", help="A key column; may be repeated. Of a table of bytes."),
    ] = None,
    key_separator: Annotated[str, typer.Option("--key-separator", help="Between several key columns.")] = "/",
    value: Annotated[
        str | None, typer.Option("--value", metavar="COLUMN", help="The value is this column, not the row as JSON.")
    ] = None,
    numbers: Annotated[
        bool, typer.Option("--numbers", help="CSV: fields that are JSON numbers as they stand become numbers.")
    ] = False,
    delimiter: Annotated[str, typer.Option("--delimiter", help="CSV: the character between two fields.")] = ",",
    format_: Annotated[
        _Format | None, typer.Option("--format", help="If the file's name does not tell.", show_default=False)
    ] = None,
    create: Annotated[bool, typer.Option("--create", help="Create the table if it is missing.")] = False,
    partitions: Annotated[int, typer.Option("--partitions", "-p", help="With --create: how many.")] = 8,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Go on behind rows that cannot be read, and list them.")
    ] = False,
    rejects: Annotated[
        Path | None,
        typer.Option("--rejects", metavar="FILE", help="With --skip-bad: where to [default: FILE.rejects.jsonl]."),
    ] = None,
    at: At = AT_DEFAULT,
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="SECONDS", help="How long a server that is away is waited for.")
    ] = 30.0,
    json: Json = False,
) -> None:
    """Load a file into a table. Run it again after any interruption: it goes on where it ended.

    Every row becomes one key. The value is the row as compact JSON (a CSV's fields as text, unless --numbers), or one
    column with --value. Several key columns are joined by the separator. Of two rows with one key the later stays.

    The same file with the same options is the same load, and each of its rows is written exactly once, however often
    the command is killed and run again. A row that cannot be read ends the load, with everything before it written:
    the error names row and column. With --skip-bad such rows are listed in a file and the others loaded.

    Into a table of rows (`duramen table create --schema`) the file's columns are the fields, by their types, and --key
    is not given: what does not fit is named by row, field, value and the type that the field has.

    \b
      duramen load departures departures.csv.gz
      duramen load flights flights.csv --key carrier --key flight --key time_hour --create --numbers
      duramen load users users.jsonl.gz --key id --value email
      duramen load prices prices.csv -k sku --delimiter ';' --skip-bad
      duramen load events events.parquet -k id --json
    """
    from duramen.cli.terminal.connection import connected
    from duramen.loading import LoadOptions, RejectsFile, format_of, load_file

    options: Any = None
    if key:
        options = LoadOptions(
            key_columns=tuple(key),
            key_separator=key_separator,
            value_column=value,
            numbers=numbers,
            delimiter=delimiter,
        )
    elif create or value is not None or numbers:
        raise InvalidRequest("--create, --value and --numbers are for tables of bytes: name a key column, --key COLUMN")
    file_format = format_.value if format_ is not None else format_of(file)
    began = time.monotonic()
    with ExitStack() as stack:
        database = stack.enter_context(connected(at, timeout))
        if create:
            database.create_table(table, partitions=partitions, if_missing=True)
        options = options or _row_options(database, table, delimiter)
        listed = stack.enter_context(RejectsFile(rejects or Path(f"{file}.rejects.jsonl"))) if skip_bad else None
        # The bar is for somebody who looks on; a file of errors wants none.
        progress = None
        if sys.stderr.isatty() and not json:
            from duramen.cli.data.progress_bar import progress_bar

            progress = stack.enter_context(progress_bar(table))
        summary = load_file(database.table(table), file, file_format, options, rejects=listed, progress=progress)
    seconds = time.monotonic() - began
    rows = summary.written + summary.skipped
    if json:
        say_json(
            {
                "table": table,
                "written": summary.written,
                "skipped": summary.skipped,
                "rejected": summary.rejected,
                "rejects": str(listed.path) if listed is not None and listed.count else None,
                "seconds": round(seconds, 3),
                "rows_per_second": round(rows / seconds),
                "token": summary.token,
            }
        )
        return
    say(f"wrote {counted(summary.written, 'row')} to {table} in {seconds:.1f} s ({rows / seconds:,.0f} rows/s)")
    if summary.skipped:
        say(f"skipped {counted(summary.skipped, 'row')} that an earlier run of this load had written")
    if listed is not None and listed.count:
        say(f"rejected {counted(listed.count, 'row')}: see {listed.path}")


def _row_options(database: Any, table: str, delimiter: str) -> Any:
    """What a load without key columns is. Raises `InvalidRequest` where the table has no rows."""
    from duramen.loading import RowOptions

    definition = database.definition(table)
    if definition is None or definition.value != "row":
        raise InvalidRequest(f"table {table} has no schema, so say which columns are the key: --key COLUMN")
    return RowOptions(definition, delimiter)
