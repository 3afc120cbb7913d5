"""From a path to chunks of rows: opening, decompressing, choosing the reader."""

from __future__ import annotations

import gzip
import io
import os
import zlib
from collections.abc import Callable, Generator
from contextlib import closing
from pathlib import Path
from typing import IO, Final, cast

from duramen.loading.csv_rows import csv_rows
from duramen.loading.errors import FileRefused, RowRefused
from duramen.loading.json_rows import json_rows
from duramen.loading.options import FileFormat, LoadOptions
from duramen.loading.parquet_rows import parquet_rows
from duramen.loading.rows import RowChunk

__all__ = ["open_file", "read_rows"]

_Reader = Callable[[Path, IO[bytes], Callable[[], int], LoadOptions], Generator[RowChunk]]

_READERS: Final[dict[FileFormat, _Reader]] = {"csv": csv_rows, "jsonl": json_rows, "parquet": parquet_rows}

_GZIP_MAGIC: Final = b"\x1f\x8b"


def read_rows(path: Path, file_format: FileFormat, options: LoadOptions) -> Generator[RowChunk]:
    """Yield a file's rows in chunks, from its beginning. Its first bytes show whether it is compressed with gzip.

    Raises `FileRefused`, `ExtraMissing`, and `RowRefused` where nothing behind that row can be read. Rows that are
    bad by themselves are rejects in their chunk.
    """
    with open_file(path) as raw:
        compressed = raw.peek(2)[:2] == _GZIP_MAGIC and file_format != "parquet"
        file = cast("IO[bytes]", gzip.GzipFile(fileobj=raw) if compressed else raw)
        rows = 0
        try:
            with closing(_READERS[file_format](path, file, raw.tell, options)) as chunks:
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
