"""Parquet files and Arrow files (both of its formats), as record batches. Through pyarrow, of `duramen[parquet]`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Final

from duramen.loading.errors import ExtraMissing, FileRefused
from duramen.loading.options import FileFormat
from duramen.loading.rows import CHUNK_ROWS

__all__ = ["Frames"]

_FILE_MAGIC: Final = b"ARROW1"


class Frames:
    """An open file. Use it from one thread."""

    def __init__(self, path: Path, file: IO[bytes], file_format: FileFormat) -> None:
        """Raises `ExtraMissing` where pyarrow is not installed, `FileRefused` for a file of another format."""
        try:
            import pyarrow
            import pyarrow.ipc
            import pyarrow.parquet
        except ImportError as error:
            what = "Parquet" if file_format == "parquet" else "Arrow files"
            raise ExtraMissing(
                f"reading {what} needs pyarrow: install duramen[parquet] (pip install 'duramen[parquet]')",
                extra="parquet",
            ) from error
        # Of damaged metadata: an OSError of pyarrow, and a name that is no UTF-8.
        self._errors = (pyarrow.ArrowException, OSError, ValueError, OverflowError)
        self._is_arrow = file_format == "arrow"
        try:
            if file_format == "parquet":
                parquet = pyarrow.parquet.ParquetFile(file)
                self.schema: Any = parquet.schema_arrow
                """A `pyarrow.Schema`."""
                self._batches: Iterator[Any] = parquet.iter_batches(batch_size=CHUNK_ROWS)
            elif file.read(len(_FILE_MAGIC)) == _FILE_MAGIC:
                arrow = pyarrow.ipc.open_file(file)
                self.schema = arrow.schema
                self._batches = (arrow.get_batch(number) for number in range(arrow.num_record_batches))
            else:
                file.seek(0)
                stream = pyarrow.ipc.open_stream(file)
                self.schema = stream.schema
                self._batches = iter(stream)
        except self._errors as error:
            what = "Parquet" if file_format == "parquet" else "Arrow"
            raise FileRefused(f"{path} is no {what} file, or is damaged: {error}", file=str(path)) from error

    def batches(self) -> Iterator[Any]:
        """The record batches, of at most `CHUNK_ROWS` rows each; at the end of what can be read, why not more: a text.

        Those of Arrow files were checked, which may have offsets that point anywhere.
        """
        while True:
            try:
                batch = next(self._batches, None)
                if batch is not None and self._is_arrow:
                    batch.validate(full=True)
            except self._errors as error:
                yield f"the file cannot be read on: {error}"
                return
            if batch is None:
                return
            for start in range(0, batch.num_rows, CHUNK_ROWS):
                yield batch.slice(start, CHUNK_ROWS)
