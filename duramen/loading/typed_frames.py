"""Parquet and Arrow files into a table of rows."""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path
from typing import IO, Any, Final

from duramen.loading.errors import ExtraMissing, FileRefused
from duramen.loading.frames import Frames
from duramen.loading.options import FileFormat, RowOptions
from duramen.loading.rows import Reject, RowChunk
from log_tier.model.errors import InvalidSchema

__all__ = ["typed_frames"]

_SHOWN_MAX: Final = 1000
"""Characters of a row."""


def typed_frames(
    path: Path, file: IO[bytes], position: Callable[[], int], options: RowOptions, file_format: FileFormat
) -> Generator[RowChunk]:
    """Yield the rows of an open file in chunks. Raises `FileRefused` for columns that are not the table's."""
    frames = Frames(path, file, file_format)
    try:
        from log_tier.rows.columns.batch_writer import BatchWriter
    except ImportError as error:
        raise ExtraMissing(
            "rows of columns need numpy: install duramen[parquet] (pip install 'duramen[parquet]')", extra="parquet"
        ) from error
    try:
        writer = BatchWriter(options.definition, frames.schema)
    except InvalidSchema as error:
        column = str(error.fields.get("field", ""))
        raise FileRefused(f"{path}: {error.message}", file=str(path), column=column) from error
    row = 1
    for batch in frames.batches():
        if isinstance(batch, str):
            yield RowChunk(row, [], [Reject(row, row, "", batch, "")], position())
            return
        pairs, rejects = [], []
        for place, each in enumerate(writer.pairs(batch)):
            if isinstance(each, tuple):
                pairs.append(each)
            else:
                column = str(each.fields.get("field", ""))
                rejects.append(Reject(row + place, row + place, column, each.message, _shown(batch.slice(place, 1))))
        yield RowChunk(row, pairs, rejects, position())
        row += batch.num_rows


def _shown(batch: Any) -> str:
    try:
        return str(batch.to_pylist()[0])[:_SHOWN_MAX]
    except (ValueError, OverflowError):  # a date beyond the year 9999, text that is no UTF-8
        return ""
