"""`duramen export TABLE FILE`: the rows of a table that has a schema, without Spark."""

from __future__ import annotations

import time
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Final

from duramen.cli.admin.figures import size
from duramen.cli.terminal.output import say, say_json
from duramen.cli.terminal.text import counted
from log_tier.model.errors import InvalidRequest

__all__ = ["RowFileFormat", "export_file", "format_by_name"]


class RowFileFormat(StrEnum):
    """Of a file of rows."""

    CSV = "csv"
    JSONL = "jsonl"
    PARQUET = "parquet"
    ARROW = "arrow"


_TIMEOUT_S: Final = 30.0


def format_by_name(path: Path) -> RowFileFormat | None:
    """The format that a file's name tells; None: it tells none, as that of a folder."""
    from duramen.loading import FileRefused, format_of

    try:
        return RowFileFormat(format_of(path))
    except FileRefused:
        return None


def export_file(
    table: str,
    url: str,
    file_format: RowFileFormat,
    delimiter: str,
    overwrite: bool,
    token: str | None,
    state: str | datetime | None,
    at: str,
    json: bool,
) -> bool:
    """Export the rows of a table, as they were at `state` where that is one. False: it has none, so its keys and values
    are for Spark.
    """
    from duramen.cli.terminal.connection import connected
    from duramen.exporting import export_rows

    if len(delimiter) != 1 or delimiter in '"\r\n':
        raise InvalidRequest(f"a delimiter is one character, and no quote or line end, not {delimiter!r}")
    began = time.monotonic()
    with connected(at, _TIMEOUT_S) as database:
        definition = database.definition(table)
        if definition is None or definition.value != "row":
            return False
        path = Path(url)
        found = export_rows(
            database,
            table,
            path,
            file_format.value,
            delimiter=delimiter,
            overwrite=overwrite,
            after=token,
            at=state,
        )
    seconds = time.monotonic() - began
    if json:
        say_json({"event": "exported", "table": table, "file": url, "rows": found.rows, "bytes": found.bytes})
    else:
        say(f"{counted(found.rows, 'row')}, {size(found.bytes)}, in {seconds:.1f} s: {url}")
    return True
