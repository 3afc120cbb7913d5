"""Parquet and Arrow files into a table of bytes: rows as JSON.

What JSON lacks becomes text: dates and times in ISO 8601, decimals and durations as they are written, bytes in base64.
NaN, which writers of Parquet use for "missing", becomes null.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Generator, Iterator, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import IO, Any

from duramen.loading.frames import Frames
from duramen.loading.json_rows import object_rows
from duramen.loading.options import FileFormat, LoadOptions
from duramen.loading.rows import BadField, Reject, RowChunk, check_columns

__all__ = ["frame_rows"]


def frame_rows(
    path: Path, file: IO[bytes], position: Callable[[], int], options: LoadOptions, file_format: FileFormat
) -> Generator[RowChunk]:
    """Yield the rows of an open Parquet or Arrow file in chunks. Raises as `Frames`."""
    frames = Frames(path, file, file_format)
    check_columns(path, frames.schema.names, options)
    pair_of = object_rows(path, options)
    row_number = 0
    for batch in frames.batches():
        first_row = row_number + 1
        if isinstance(batch, str):
            yield RowChunk(first_row, [], [Reject(first_row, first_row, "", batch, "")], position())
            return
        pairs: list[tuple[bytes, bytes]] = []
        rejects: list[Reject] = []
        for row in _rows_of(batch):
            row_number += 1
            if isinstance(row, str):
                rejects.append(Reject(row_number, row_number, "", row, ""))
                continue
            try:
                plain = {name: _plain(found, name) for name, found in row.items()}
                _check_value_bytes(row, plain, options)
                pair = pair_of(plain)
                if options.value_column is not None and isinstance(row[options.value_column], bytes):
                    pair = (pair[0], row[options.value_column])
                pairs.append(pair)
            except BadField as bad:
                rejects.append(Reject(row_number, row_number, bad.column, bad.reason, str(row)[:1000]))
        yield RowChunk(first_row, pairs, rejects, position())


def _rows_of(batch: Any) -> Iterator[Mapping[str, Any] | str]:
    """The rows of a batch; for one that Python has no values for, why."""
    try:
        yield from batch.to_pylist()
    except (ValueError, OverflowError):  # text that is no UTF-8, a date beyond the year 9999
        for number in range(batch.num_rows):
            try:
                (row,) = batch.slice(number, 1).to_pylist()
            except (ValueError, OverflowError) as error:
                yield f"it holds what is no value of its type: {error}"
            else:
                yield row


def _check_value_bytes(row: Mapping[str, Any], plain: Mapping[str, Any], options: LoadOptions) -> None:
    for column in options.key_columns:
        if isinstance(row[column], bytes):
            raise BadField(column, "a key is made of text and whole numbers, this column holds bytes")
        if plain[column] is None:
            raise BadField(column, "the key is empty (null)")


def _plain(found: Any, column: str) -> Any:
    """The nearest thing that JSON has."""
    if found is None or isinstance(found, (str, int)):
        return found
    if isinstance(found, float):
        return None if math.isnan(found) else found
    if isinstance(found, (datetime, date, time)):
        return found.isoformat()
    if isinstance(found, (Decimal, timedelta)):
        return str(found)
    if isinstance(found, bytes):
        return base64.b64encode(found).decode("ascii")
    if isinstance(found, Mapping):
        return {str(name): _plain(inner, column) for name, inner in found.items()}
    if isinstance(found, (list, tuple)):
        return [_plain(inner, column) for inner in found]
    raise BadField(column, f"{type(found).__name__} has no form in JSON; convert the column first")
