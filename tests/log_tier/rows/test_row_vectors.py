"""Vectors of stored rows, for readers in other languages: once written, they stay as they are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from kit.avro_rows import avro_decode

from log_tier.rows.definition import TableDefinition
from log_tier.rows.framing import frame, framed
from log_tier.rows.json_rows.json_form import row_from_json, row_to_json
from log_tier.rows.schema import RowSchema

VECTORS = json.loads((Path(__file__).parent / "vectors" / "rows.json").read_text(encoding="utf-8"))["vectors"]


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["about"])
def test_a_stored_row(vector: dict[str, Any]) -> None:
    definition = TableDefinition.from_document(vector["definition"])
    (numbered,) = definition.schemas
    assert RowSchema.parse(vector["given"]) == numbered.schema
    key, value = bytes.fromhex(vector["key"]), bytes.fromhex(vector["value"])
    assert definition.judge.refusal(key, value) is None
    assert definition.judge.key_of_row(value) == key
    number, body = framed(value)
    assert number == numbered.number
    text = json.dumps(vector["row"])
    assert json.loads(row_to_json(numbered.schema, body)) == vector["row"]
    assert frame(number, row_from_json(numbered.schema, text)) == value
    assert avro_decode(vector["given"], body).keys() == vector["row"].keys()
