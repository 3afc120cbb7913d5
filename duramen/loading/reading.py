"""From a path to chunks of rows: opening, decompressing, choosing the reader."""

from __future__ import annotations

import gzip
import io
import os
import zlib
from collections.abc import Callable, Generator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import IO, Final, TypeVar, cast

from duramen.loading.csv_rows import csv_rows
from duramen.loading.errors import FileRefused, RowRefused
from duramen.loading.json_rows import json_rows
from duramen.loading.options import FileFormat, LoadOptions, RowOptions
from duramen.loading.parquet_rows import frame_rows
from duramen.loading.rows import RowChunk
from duramen.loading.typed_csv import typed_csv
from duramen.loading.typed_frames import typed_frames
from duramen.loading.typed_json import typed_json

__all__ = ["open_file", "read_rows", "read_typed_rows"]

_O = TypeVar("_O")

_Reader = Callable[[Path, IO[bytes], Callable[[], int], _O], Generator[RowChunk]]
"""Reads an open file; the third argument says how much of it was read."""

_READERS: Final[dict[FileFormat, _Reader[LoadOptions]]] = {
    "csv": csv_rows,
    "jsonl": json_rows,
    "parquet": partial(frame_rows, file_format="parquet"),
    "arrow": partial(frame_rows, file_format="arrow"),
}
_TYPED_READERS: Final[dict[FileFormat, _Reader[RowOptions]]] = {
    "csv": typed_csv,
    "jsonl": typed_json,
    "parquet": partial(typed_frames, file_format="parquet"),
    "arrow": partial(typed_frames, file_format="arrow"),
}
_WITHOUT_GZIP: Final = ("parquet", "arrow")

_GZIP_MAGIC: Final = b"\x1f\x8b"


def read_rows(path: Path, file_format: FileFormat, options: LoadOptions) -> Generator[RowChunk]:
    """Yield a file's rows in chunks, from its beginning. Its first bytes show whether it is compressed with gzip.

    Raises `FileRefused`, `ExtraMissing`, and `RowRefused` where nothing behind that row can be read. Rows that are
    bad by themselves are rejects in their chunk.
    """
    return _chunks(path, file_format, options, _READERS[file_format])


def read_typed_rows(path: Path, file_format: FileFormat, options: RowOptions) -> Generator[RowChunk]:
    """The same, for a table of rows."""
    return _chunks(path, file_format, options, _TYPED_READERS[file_format])


def _chunks(path: Path, file_format: FileFormat, options: _O, reader: _Reader[_O]) -> Generator[RowChunk]:
    with open_file(path) as raw:
        compressed = raw.peek(2)[:2] == _GZIP_MAGIC and file_format not in _WITHOUT_GZIP
        file = cast("IO[bytes]", gzip.GzipFile(fileobj=raw) if compressed else raw)
        rows = 0
        try:
            with closing(reader(path, file, raw.tell, options)) as chunks:
                for chunk in chunks:
                    yield chunk
                    rows += len(chunk.pairs) + len(chunk.rejects)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise RowRefused(
                f"{path} is damaged behind row {rows}: {error}; what follows cannot be read. Get a whole copy",
                file=str(path),
                row=rows + 1,
            ) from error
        finally:
            if compressed:
                file.close()


def open_file(path: Path) -> io.BufferedReader:
    """Open a file that can be read twice. Raises `FileRefused`."""
    if not os.path.isfile(path):
        what = "is a folder" if path.is_dir() else "is no regular file" if path.exists() else "does not exist"
        raise FileRefused(f"{path} {what}: name a file that can be read again from its beginning", file=str(path))
    try:
        return open(path, "rb")
    except OSError as error:
        raise FileRefused(f"{path} cannot be read: {error.strerror}", file=str(path)) from error
