"""Rows to columns and back, of any schema: the same bytes."""

from __future__ import annotations

import json
import re
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.avro_rows import avro_encode, random_row, random_schema

from log_tier.model.errors import InvalidSchema
from log_tier.rows.columns.batch_reader import BatchReader
from log_tier.rows.columns.batch_writer import BatchWriter
from log_tier.rows.definition import TableDefinition
from log_tier.rows.framing import frame
from log_tier.rows.key_fields import KeyField
from log_tier.rows.schema import NumberedSchema, RowSchema

NUMBER = 9


def keyed(schema: dict[str, Any]) -> TableDefinition:
    """A table whose key is the field k."""
    numbered = NumberedSchema(NUMBER, RowSchema.parse(schema))
    return TableDefinition(1, (KeyField("k", "int"),), "row", (numbered,))


def of_one_schema(value: bytes) -> bytes:
    raise AssertionError("every row has the schema of the table")


def random_table(random: Random) -> tuple[dict[str, Any], TableDefinition]:
    """A schema without records that have themselves inside, and its table."""
    text = json.dumps(random_schema(random)).replace('"items": "Row"', '"items": "int"')
    schema = json.loads(re.sub(r'"next", "type": \["null", "R[0-9]+"\]', '"next", "type": ["int", "null"]', text))
    schema["fields"].insert(0, {"name": "k", "type": "long"})
    return schema, keyed(schema)


@given(st.integers(0, 2**32), st.integers(0, 40))
def test_rows_come_back_with_the_same_bytes(seed: int, count: int) -> None:
    random = Random(seed)
    schema, definition = random_table(random)
    values = [frame(NUMBER, avro_encode(schema, random_row(random, schema))) for _ in range(count)]
    numbered = definition.schemas[-1]
    batch = BatchReader(numbered, None, of_one_schema).batch(values)
    batch.validate(full=True)
    assert batch.num_rows == count
    writer = BatchWriter(definition, batch.schema)
    pairs = writer.pairs(batch)
    assert [each[1] if isinstance(each, tuple) else each for each in pairs] == values
    # A part of a batch has places of its own.
    assert writer.pairs(batch.slice(count // 3)) == pairs[count // 3 :]
    # What is not wanted is passed over.
    for name in ("k", "f0", "f4"):
        column = BatchReader(numbered, [name], of_one_schema).batch(values).column(0)
        assert str(column) == str(batch.column(name))


@pytest.mark.parametrize("size", [0, 1])
def test_a_record_that_has_itself_inside_is_refused_and_can_be_left_out(size: int) -> None:
    fields = [{"name": "k", "type": "long"}, {"name": "next", "type": ["null", "Node"]}]
    schema = {"type": "record", "name": "Node", "fields": fields}
    numbered = keyed(schema).schemas[-1]
    with pytest.raises(InvalidSchema, match=r"the field next\.next"):
        BatchReader(numbered, None, of_one_schema)
    values = [frame(NUMBER, b"\4\0")] * size
    assert BatchReader(numbered, ["k"], of_one_schema).batch(values).to_pydict() == {"k": [2] * size}
    assert pa.schema([pa.field("k", pa.int64(), False)]) == BatchReader(numbered, ["k"], of_one_schema).schema
