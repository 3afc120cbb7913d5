"""Parquet and Arrow files into tables of rows: damaged ones, and rows that do not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet
import pytest

from duramen.loading.errors import FileRefused
from duramen.loading.options import FileFormat, RowOptions
from duramen.loading.reading import read_typed_rows
from duramen.loading.rows import CHUNK_ROWS, RowChunk
from log_tier.rows.definition import TableDefinition
from log_tier.rows.key_fields import KeyField
from log_tier.rows.schema import NumberedSchema, RowSchema

FIELDS = [{"name": "k", "type": "long"}, {"name": "a", "type": ["null", "string"], "default": None}]
SCHEMA = RowSchema.parse({"type": "record", "name": "Row", "fields": FIELDS})
OPTIONS = RowOptions(TableDefinition(1, (KeyField("k", "int"),), "row", (NumberedSchema(5, SCHEMA),)))


def stored(path: Path, table: pa.Table, file_format: FileFormat) -> None:
    if file_format == "parquet":
        pyarrow.parquet.write_table(table, path)
    else:
        with pyarrow.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table)


def read(path: Path, file_format: FileFormat) -> list[RowChunk]:
    return list(read_typed_rows(path, file_format, OPTIONS))


@pytest.mark.parametrize("file_format", ["parquet", "arrow"])
def test_a_large_batch_is_read_in_parts(tmp_path: Path, file_format: FileFormat) -> None:
    path, rows = tmp_path / "rows", 2 * CHUNK_ROWS + 5
    stored(path, pa.table({"k": numpy.arange(rows)}), file_format)
    chunks = read(path, file_format)
    assert sum(len(each.pairs) for each in chunks) == rows
    assert max(len(each.pairs) for each in chunks) <= CHUNK_ROWS
    assert [each.first_row for each in chunks] == sorted(each.first_row for each in chunks)


@pytest.mark.parametrize("file_format", ["parquet", "arrow"])
def test_a_row_that_does_not_fit_is_a_reject(tmp_path: Path, file_format: FileFormat) -> None:
    path = tmp_path / "rows"
    stored(path, pa.table({"k": [1.0, 2.5, 3.0], "a": ["x", "y", None]}), file_format)
    (chunk,) = read(path, file_format)
    (reject,) = chunk.rejects
    assert (reject.row, reject.column, reject.text) == (2, "k", "{'k': 2.5, 'a': 'y'}")
    assert "the field k is 2.5 (double), expected long" in reject.reason
    assert len(chunk.before_first_reject()) == 1


def test_a_stream_of_arrow_is_read_too(tmp_path: Path) -> None:
    path = tmp_path / "rows.arrows"
    with pyarrow.ipc.new_stream(path, pa.schema([("k", pa.int64())])) as writer:
        writer.write_table(pa.table({"k": [1, 2]}))
    (chunk,) = read(path, "arrow")
    assert len(chunk.pairs) == 2


def test_offsets_that_point_anywhere_are_not_followed(tmp_path: Path) -> None:
    offsets = pa.py_buffer(numpy.array([0, 1 << 20, 3], numpy.int32))
    texts = pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(b"abc")])
    batch = pa.RecordBatch.from_arrays([pa.array([1, 2]), texts], ["k", "a"])
    path = tmp_path / "rows.arrow"
    with pyarrow.ipc.new_stream(path, batch.schema) as writer:
        writer.write_batch(pa.record_batch({"k": [0], "a": ["fine"]}))
        writer.write_batch(batch)
    first, last = read(path, "arrow")
    assert len(first.pairs) == 1
    assert "the file cannot be read on" in last.rejects[0].reason


@pytest.mark.parametrize("file_format", ["parquet", "arrow"])
def test_whatever_is_damaged_the_error_has_a_type(tmp_path: Path, file_format: FileFormat) -> None:
    path = tmp_path / "rows"
    stored(path, pa.table({"k": list(range(50)), "a": ["text"] * 50}), file_format)
    whole = path.read_bytes()
    outcomes: set[Any] = set()
    for place in range(0, len(whole), 7):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        try:
            outcomes.add(all(not each.rejects for each in read(path, file_format)))
        except FileRefused:
            outcomes.add(FileRefused)
    assert FileRefused in outcomes
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(FileRefused, match=r"is no (Parquet|Arrow) file, or is damaged"):
        read(path, file_format)


def test_columns_that_are_not_the_tables_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    stored(path, pa.table({"k": [1], "b": [1]}), "parquet")
    with pytest.raises(FileRefused, match="b: it is no field of Row, which has k, a") as caught:
        read(path, "parquet")
    assert caught.value.fields["column"] == "b"
