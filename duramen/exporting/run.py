"""The export itself: what the rows are, and the file that appears when it is whole."""

from __future__ import annotations

import gzip
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Final, NamedTuple, cast

from duramen.blocking import Database
from duramen.client.model.consistency import AsOf
from duramen.client.rows.row_codec import RowCodec
from duramen.client.rows.shapes.shape import RowShape
from duramen.exporting.frame_files import write_frames
from duramen.exporting.text_files import csv_lines, json_lines
from duramen.loading.options import FileFormat
from log_tier.model.errors import InvalidRequest
from log_tier.rows.definition import TableDefinition
from log_tier.rows.framing import frame

__all__ = ["ExportSummary", "export_rows"]

_FRAMES: Final = ("parquet", "arrow")


class ExportSummary(NamedTuple):
    """What was exported."""

    rows: int
    bytes: int
    """Of the file."""


def export_rows(
    database: Database,
    table: str,
    path: Path,
    file_format: FileFormat,
    *,
    delimiter: str = ",",
    overwrite: bool = False,
    after: str | None = None,
    at: AsOf | None = None,
) -> ExportSummary:
    """Write all rows of a table to a file; `.gz` compresses CSV and JSON lines.

    `after` is a token that the rows include; `at` a token, or a time with a time zone, of a table with a history: the
    rows as they were then. Raises `InvalidRequest` for a table without rows, and for a file that is there, unless
    `overwrite`; and what a scan raises.
    """
    definition = database.definition(table)
    if definition is None or definition.value != "row":
        raise InvalidRequest(f"table {table} has no schema: `duramen export {table} FOLDER` writes its keys and values")
    if path.exists() and not overwrite:
        raise InvalidRequest(f"{path} is there already: name another file, or say --overwrite")
    newest = definition.schemas[-1].schema

    def write(file: IO[bytes]) -> int:
        if file_format in _FRAMES:
            rows = database.table(table, row=newest.text)
            return write_frames(rows.arrow_batches(at=at, after=after), file, file_format)
        values = _newest_values(definition, database.table(table).scan(at=at, after=after))
        if file_format == "csv":
            return _write_lines(csv_lines(newest, values, delimiter), file) - 1
        return _write_lines(json_lines(newest, values), file)

    return _written_whole(path, write, compressed=path.suffix == ".gz" and file_format not in _FRAMES)


def _newest_values(definition: TableDefinition, pairs: Iterator[tuple[bytes, bytes]]) -> Iterator[bytes]:
    """The stored values, by the newest schema."""
    newest = definition.schemas[-1]
    head = frame(newest.number, b"")
    codec: RowCodec[dict[str, Any]] = RowCodec(definition, RowShape(newest.schema.name, newest.schema))
    for _, value in pairs:
        yield value if value.startswith(head) else codec.encode(codec.decode(value))[1]


def _write_lines(lines: Iterator[bytes], file: IO[bytes]) -> int:
    count = 0
    for line in lines:
        file.write(line)
        count += 1
    return count


def _written_whole(path: Path, write: Callable[[IO[bytes]], int], *, compressed: bool) -> ExportSummary:
    """The file appears under its name when it is on stable storage."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    try:
        with open(handle, "wb") as raw:
            if compressed:
                with gzip.GzipFile(fileobj=raw, mode="wb", filename="", mtime=0) as packed:
                    rows = write(cast("IO[bytes]", packed))
            else:
                rows = write(raw)
            raw.flush()
            os.fsync(raw.fileno())
            size = raw.tell()
        os.replace(name, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return ExportSummary(rows, size)
