"""What is exported is loaded again to the same bytes, in every format."""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from kit.avro_rows import avro_encode, random_row, random_schema

from duramen.exporting.frame_files import write_frames
from duramen.exporting.text_files import csv_lines, json_lines
from duramen.loading.options import FileFormat, RowOptions
from duramen.loading.reading import read_typed_rows
from log_tier.rows.columns.batch_reader import BatchReader
from log_tier.rows.definition import TableDefinition
from log_tier.rows.framing import frame
from log_tier.rows.key_fields import KeyField
from log_tier.rows.schema import NumberedSchema, RowSchema

TEXTS = ("", '"', '""', "a,b", "a\nb", "\r", "null", " ", "\ufeff", '{"a": 1}', "NaN", "\\N", "é\0")
ANY_TEXT = st.sampled_from(TEXTS) | st.text()


def definition_of(schema: dict[str, Any], *key: KeyField) -> TableDefinition:
    return TableDefinition(1, key, "row", (NumberedSchema(6, RowSchema.parse(schema)),))


def written(definition: TableDefinition, values: list[bytes], file_format: FileFormat, path: Path) -> None:
    numbered = definition.schemas[-1]
    if file_format in ("csv", "jsonl"):
        lines = csv_lines(numbered.schema, iter(values), ",") if file_format == "csv" else None
        path.write_bytes(b"".join(lines or json_lines(numbered.schema, iter(values))))
        return
    reader = BatchReader(numbered, None, lambda value: value)
    batches = [reader.batch(values[:2]), reader.batch(values[2:])]
    with path.open("wb") as file:
        assert write_frames(pa.RecordBatchReader.from_batches(reader.schema, batches), file, file_format) == len(values)


def again(definition: TableDefinition, file_format: FileFormat, path: Path) -> list[bytes]:
    chunks = list(read_typed_rows(path, file_format, RowOptions(definition)))
    assert not [each for chunk in chunks for each in chunk.rejects]
    return [value for chunk in chunks for _, value in chunk.pairs]


@pytest.fixture(scope="module")
def folder() -> Any:
    with tempfile.TemporaryDirectory() as made:
        yield Path(made)


@pytest.mark.parametrize("file_format", ["csv", "jsonl", "parquet", "arrow"])
@given(st.integers(0, 2**32), st.integers(1, 8))
@settings(max_examples=25, deadline=None)
def test_rows_of_any_schema(file_format: FileFormat, folder: Path, seed: int, count: int) -> None:
    random = Random(seed)
    text = json.dumps(random_schema(random)).replace('"items": "Row"', '"items": "int"')
    schema = json.loads(re.sub(r'"next", "type": \["null", "R[0-9]+"\]', '"next", "type": ["int", "null"]', text))
    if file_format in ("arrow", "parquet"):  # pyarrow writes no map of nulls, which is refused with its reason
        schema = json.loads(json.dumps(schema).replace('"values": "null"', '"values": "int"'))
    schema["fields"].insert(0, {"name": "k", "type": "long"})
    definition = definition_of(schema, KeyField("k", "int"))
    values = [frame(6, avro_encode(schema, random_row(random, schema))) for _ in range(count)]
    if file_format in ("csv", "jsonl"):  # JSON has one NaN
        values = [value for value in values if b"\xf8\x7f" not in value and b"\xc0\x7f" not in value]
    if not values:
        return
    path = folder / "rows"
    written(definition, values, file_format, path)
    assert again(definition, file_format, path) == values


@pytest.mark.parametrize("delimited", [("csv"), ("jsonl"), ("parquet"), ("arrow")])
@given(
    st.lists(st.tuples(st.none() | st.sampled_from(TEXTS) | st.text(), st.sampled_from(TEXTS) | st.text()), min_size=1)
)
@example([(None, ""), ("", "")])
@settings(max_examples=40, deadline=None)
def test_texts_and_nulls(delimited: FileFormat, folder: Path, rows: list[tuple[str | None, str]]) -> None:
    fields = [{"name": "a", "type": ["null", "string"]}, {"name": "k", "type": "long"}, {"name": "b", "type": "string"}]
    check(delimited, folder, fields, [{"a": a, "k": n, "b": b} for n, (a, b) in enumerate(rows)], KeyField("k", "int"))


@pytest.mark.parametrize("delimited", ["csv", "jsonl"])
def test_a_table_of_one_column(delimited: FileFormat, folder: Path) -> None:
    rows = [{"a": None}, {"a": ""}, {"a": "x"}, {"a": None}]
    check(delimited, folder, [{"name": "a", "type": ["null", "string"]}], rows, KeyField("a", "str", True))


def check(file_format: FileFormat, folder: Path, fields: list[Any], rows: list[Any], key: KeyField) -> None:
    schema = {"type": "record", "name": "Row", "fields": fields}
    definition = definition_of(schema, key)
    values = [frame(6, avro_encode(schema, each)) for each in rows]
    path = folder / "texts"
    written(definition, values, file_format, path)
    assert again(definition, file_format, path) == values


def test_a_csv_is_what_a_person_would_write() -> None:
    types = {"k": "long", "a": ["null", "string"], "sizes": {"type": "array", "items": "int"}}
    fields = [{"name": name, "type": type_} for name, type_ in types.items()]
    schema = {"type": "record", "name": "Row", "fields": fields}
    rows = [{"k": 1, "a": None, "sizes": [1, 2]}, {"k": 2, "a": "", "sizes": []}, {"k": 3, "a": 'x"y', "sizes": []}]
    values = [frame(6, avro_encode(schema, each)) for each in rows]
    found = b"".join(csv_lines(RowSchema.parse(schema), iter(values), ";"))
    assert found.decode() == 'k;a;sizes\r\n1;;[1,2]\r\n2;"";[]\r\n3;"x""y";[]\r\n'
