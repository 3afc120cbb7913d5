"""Text indexes in a table's definition: what they may be, and how definitions with them are written and follow."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from kit.avro_rows import avro_encode

from log_tier.model.errors import IndexBuilding, InvalidRequest, InvalidSchema, UnknownFormat
from log_tier.rows.alter_table import IndexChange
from log_tier.rows.definition import TableDefinition
from log_tier.rows.definitions.checks import served_text
from log_tier.rows.framing import frame
from log_tier.rows.key_fields import KeyField
from log_tier.rows.schema import NumberedSchema, RowSchema
from log_tier.rows.text_index import TextIndex, text_reader

SCHEMA = RowSchema.parse(
    {
        "type": "record",
        "name": "Flight",
        "fields": [
            {"name": "carrier", "type": "string"},
            {"name": "remark", "type": ["null", "string"], "default": None},
            {
                "name": "origin",
                "type": {"type": "record", "name": "Airport", "fields": [{"name": "name", "type": "string"}]},
            },
            {"name": "delay", "type": "double"},
            {"name": "id", "type": {"type": "string", "logicalType": "uuid"}},
        ],
    }
)
PLAIN = TableDefinition(key=(KeyField("carrier", "str"),), value="row", schemas=(NumberedSchema(1, SCHEMA),))


def test_it_comes_is_served_and_goes() -> None:
    building = PLAIN.with_index("by_delay", ["delay"]).with_text("words", ["remark", "origin.name"])
    assert building.texts == (TextIndex(2, "words", ("remark", "origin.name")),)
    assert building.history.building == (1, 2)
    with pytest.raises(IndexBuilding, match="words is being built"):
        served_text(building, "words")
    served = building.with_index_served(2)
    assert served_text(served, "words") == served_text(served, "words", 2) == building.texts[0]
    with pytest.raises(InvalidRequest, match="another one by now"):
        served_text(served, "words", 1)
    with pytest.raises(InvalidRequest, match="no text index 'by_delay'; it has words"):
        served_text(served, "by_delay")
    gone = served.without_index(2)
    assert (gone.texts, len(gone.indexes)) == ((), 1)
    again = gone.with_text("words", ["remark"])
    assert again.texts[0].number == 3, "a number is used again"
    steps = [PLAIN, building, served, gone, again]
    for place, earlier in enumerate(steps):
        for later in steps[place:]:
            assert later.continues(earlier), (earlier.number, later.number)
            assert later is earlier or not earlier.continues(later)
        assert earlier.first == PLAIN
        assert TableDefinition.from_document(earlier.to_document()) == earlier
        assert earlier.to_document()["v"] == (7 if earlier.texts else 1 if earlier is PLAIN else 3)


def test_a_definition_with_other_texts_of_one_number_does_not_continue() -> None:
    served = PLAIN.with_text("words", ["remark"])
    other = replace(served, texts=(TextIndex(1, "words", ("origin.name",)),))
    assert not other.continues(served)
    assert not served.continues(other)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        (("delay",), "the field delay is no text"),
        (("id",), "the field id is no text"),
        (("origin",), "the field origin is no text"),
        (("gate",), "has no field gate"),
        (("remark.name",), "the field remark is no record"),
        (("remark", "remark"), "the field remark twice"),
        ((), "1 to 16 fields"),
        (("re mark",), "is no field"),
    ],
)
def test_fields_that_are_no_texts_are_refused(fields: tuple[str, ...], why: str) -> None:
    with pytest.raises(InvalidSchema, match=why):
        PLAIN.with_text("words", fields)


def test_two_of_one_name_are_refused() -> None:
    with pytest.raises(InvalidSchema, match="two of them are called words"):
        PLAIN.with_index("words", ["delay"]).with_text("words", ["remark"])
    with pytest.raises(InvalidSchema, match="of another kind"):
        IndexChange("words", ("remark",), kind="text").next_of(PLAIN.with_index("words", ["delay"]), "flights")
    with pytest.raises(InvalidRequest, match="ordered or of kind text"):
        IndexChange("words", ("remark",), kind="fuzzy").next_of(PLAIN, "flights")
    with pytest.raises(InvalidSchema, match="come to a table that is there"):
        replace(PLAIN, texts=(TextIndex(1, "words", ("remark",)),))
    with pytest.raises(InvalidSchema, match="rows alone"):
        TableDefinition(texts=(TextIndex(1, "words", ("remark",)),))


@pytest.mark.parametrize(
    "change",
    [
        {"v": 5},
        {"v": 6},
        {"v": 8},
        {"texts": [[1, "words"]]},
        {"texts": [[1, "words", ["remark"], []]]},
        {"texts": [[0, "words", ["remark"]]]},
        {"texts": [["1", "words", ["remark"]]]},
        {"texts": 7},
        {"texts": [[2, "words", ["remark"]]]},
    ],
)
def test_a_document_that_is_none_is_refused(change: dict[str, Any]) -> None:
    document = PLAIN.with_text("words", ["remark"]).to_document()
    with pytest.raises((UnknownFormat, InvalidSchema)):
        TableDefinition.from_document({**document, **change})


def test_texts_are_read_out_of_rows() -> None:
    read = text_reader(TextIndex(1, "words", ("origin.name", "remark")), PLAIN.schemas)
    row = {"carrier": "UA", "remark": None, "origin": {"name": "Zürich\0 😀" * 100}, "delay": 0.5, "id": UUID(int=1)}
    assert read(b"xx" + frame(1, avro_encode(json.loads(SCHEMA.text), row)), 2) == ["Zürich\0 😀" * 100, None]
