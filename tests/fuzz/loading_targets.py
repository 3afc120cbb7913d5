"""Files that are loaded: their rows are read, or refused with file and row; none is read in two ways."""

from __future__ import annotations

import gzip
import io
import tempfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from kit.storage.versioned_documents import documents

from duramen.exporting.text_files import csv_lines, json_lines
from duramen.loading import FileFormat, LoadOptions, read_rows
from duramen.loading.options import RowOptions
from duramen.loading.reading import read_typed_rows
from fuzz.client_targets import flight_rows
from fuzz.target import Target
from log_tier.rows.definition import TableDefinition
from spark_bulk.export.export_place import ExportPlace
from spark_bulk.export.manifest import parse_export

__all__ = ["loading_targets"]

_MEMORY: Final = Path("/dev/shm")
_ROWS_BYTES_MAX: Final = 16 * 1024
"""A row takes 20 us, and may have 15 bytes."""
_OPTIONS: Final = (
    LoadOptions(("id",)),
    LoadOptions(("id", "city"), value_column="city"),
    LoadOptions(("city",), numbers=True, delimiter=";"),
)


@cache
def _file() -> Any:
    """One file for all inputs of this process; it goes with the process."""
    return tempfile.NamedTemporaryFile(prefix="duramen-fuzz-", dir=_MEMORY if _MEMORY.is_dir() else None)


def _load(file_format: FileFormat, options: LoadOptions, data: bytes) -> None:
    file = _file()
    file.seek(0)
    file.truncate()
    file.write(data)
    file.flush()
    with closing(read_rows(Path(file.name), file_format, options)) as chunks:
        for chunk in chunks:
            assert all(key and type(key) is type(value) is bytes for key, value in chunk.pairs), "a row without a key"
            assert all(each.reason for each in chunk.rejects), "a reject without a word"


@cache
def _definition() -> TableDefinition:
    return replace(flight_rows().definition, indexes=())


def _load_rows(file_format: FileFormat, data: bytes) -> None:
    """Rows of a file fit their table. Whether they fit its indexes, a load hears of the outcomes."""
    definition = _definition()
    _file().seek(0)
    _file().truncate()
    _file().write(data)
    _file().flush()
    with closing(read_typed_rows(Path(_file().name), file_format, RowOptions(definition))) as chunks:
        for chunk in chunks:
            for key, value in chunk.pairs:
                assert definition.judge.refusal(key, value) is None, f"{value!r} is no row"


def _row_files(file_format: FileFormat) -> list[bytes]:
    newest, rows = flight_rows().newest, iter(flight_rows().rows[-1:] * 2)
    return [b"".join(csv_lines(newest, rows, ",") if file_format == "csv" else json_lines(newest, rows))]


def _parquet() -> list[bytes]:
    table = pa.table({"id": ["1", "2", "3"], "city": ["Ulm", None, "Köln"], "seen": [1.5, float("nan"), -0.0]})
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return [sink.getvalue()]


def _exported(data: bytes) -> None:
    """Rows of an export, or `Damaged`."""
    manifest = parse_export(documents()["`_manifest.json` of an export"].good, "here")
    (file,) = manifest.files
    path = Path(_exports().name) / manifest.folder / file.path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    for batch in ExportPlace.open(_exports().name).read_rows(manifest, file):
        batch.validate()


@cache
def _exports() -> Any:
    """One folder for all inputs of this process; it goes with the process."""
    return tempfile.TemporaryDirectory(prefix="duramen-fuzz-", dir=_MEMORY if _MEMORY.is_dir() else None)


def _samples(file_format: FileFormat) -> list[bytes]:
    csv = b'id,city,seen\r\n1,Ulm,1.5\r\n2,"K\xc3\xb6ln, am ""Rhein""",\r\n3,x,-1e9\r\n'
    lines = (
        b'{"id": 1, "city": "Ulm"}\n{"id": "2", "city": "K\\u00f6ln", "n": [1, {"a": null}]}\n\n{"id":3,"city":"x"}\n'
    )
    if file_format == "parquet":
        return _parquet()
    plain = [csv, csv.replace(b",", b";")] if file_format == "csv" else [lines]
    return [*plain, gzip.compress(plain[0], mtime=0)]


def loading_targets() -> Iterator[Target]:
    """Each format with each of some options."""
    formats: tuple[FileFormat, ...] = ("csv", "jsonl", "parquet")
    for file_format in formats:
        for number, options in enumerate(_OPTIONS[: 1 if file_format == "parquet" else None], 1):
            read = partial(_load, file_format, options)
            name, samples = f"{file_format} file to load, options {number}", partial(_samples, file_format)
            yield Target(name, samples, read, grown_bytes_max=_ROWS_BYTES_MAX)
    for file_format in formats[:2]:
        samples, read = partial(_row_files, file_format), partial(_load_rows, file_format)
        yield Target(f"{file_format} file of rows to load", samples, read, grown_bytes_max=_ROWS_BYTES_MAX)
    yield Target("rows of an export", _parquet, _exported)
