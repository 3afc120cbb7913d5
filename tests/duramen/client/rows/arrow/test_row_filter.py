"""What `where=` says: which keys are read, and which of their rows fit."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from kit.rows.flights import Cabin

from duramen.client.rows.arrow.row_filter import RowFilter
from duramen.client.rows.row_key import RowKey
from log_tier.model.errors import InvalidKey, InvalidRequest
from log_tier.rows.definition import TableDefinition
from log_tier.rows.key_fields import KeyField
from log_tier.rows.schema import NumberedSchema, RowSchema

STAMP = {"type": "long", "logicalType": "timestamp-micros"}
CABIN = {"type": "enum", "name": "Cabin", "symbols": ["ECONOMY", "FIRST"]}
SCHEMA = RowSchema.parse(
    {
        "type": "record",
        "name": "Row",
        "fields": [
            {"name": "carrier", "type": "string"},
            {"name": "flight", "type": "long"},
            {"name": "at", "type": STAMP},
            {"name": "delay", "type": ["null", "double"]},
            {"name": "cabin", "type": CABIN},
            {"name": "sizes", "type": {"type": "array", "items": "int"}},
        ],
    }
)
KEY = (KeyField("carrier", "str"), KeyField("flight", "int"), KeyField("at", "datetime"))
DEFINITION = TableDefinition(1, KEY, "row", (NumberedSchema(1, SCHEMA),))


def filter_of(where: Any) -> RowFilter:
    return RowFilter(where, RowKey(DEFINITION), SCHEMA)


NOW = datetime(2026, 11, 27, tzinfo=UTC)
BATCH = pa.record_batch(
    {
        "carrier": ["AA", "UA", "UA", "UA"],
        "flight": [1, 1, 2, 3],
        "at": pa.array([NOW] * 4, pa.timestamp("us", "UTC")),
        "delay": [None, 1.0, 2.0, float("nan")],
        "cabin": pa.array(["FIRST", "FIRST", "ECONOMY", "FIRST"]).dictionary_encode(),
        "sizes": pa.array([[1]] * 4, pa.list_(pa.int32())),
    }
)


@pytest.mark.parametrize(
    ("where", "flights"),
    [
        ({"delay": 2.0}, [2]),
        ({"delay": 2}, [2]),
        ({"delay": None}, [1]),
        ({"delay": (1, 2)}, [1]),
        ({"delay": (2, None)}, [2]),
        ({"delay": (None, 2)}, [1]),
        ({"delay": (None, None), "flight": [3]}, [3]),
        ({"delay": [1, 2]}, [1, 2]),
        ({"delay": [1, None]}, [1, 1]),
        ({"cabin": Cabin.ECONOMY}, [2]),
        ({"cabin": ["ECONOMY"]}, [2]),
        ({"flight": {1, 2}, "carrier": {"UA"}}, [1, 2]),
        ({"at": NOW, "delay": (2, None)}, [2]),
        (pc.field("delay") > 1, [2]),
        (pc.field("flight") > 9000, []),
    ],
)
def test_rows_that_fit(where: Any, flights: list[int]) -> None:
    kept = filter_of(where).filtered(BATCH)
    assert kept.column("flight").to_pylist() == flights


def test_the_first_fields_of_the_key_decide_what_is_read() -> None:
    key = RowKey(DEFINITION)
    found = filter_of({"flight": (1, 3), "carrier": "UA", "at": (NOW, None)})
    assert found.bounds == key.bounds({"carrier": "UA", "flight": (1, 3)})
    assert found.columns == ["at"]
    assert not found.is_bounds_only
    assert filter_of({"carrier": "UA"}).is_bounds_only
    assert filter_of(None).bounds == key.bounds({})
    assert filter_of({"flight": 1}).columns == ["flight"]
    assert filter_of(pc.field("flight") > 1).columns is None


def test_what_cannot_be_compared_is_refused() -> None:
    for where, message in (
        ({"delay": "x"}, "compares delay with 'x', and the column is double"),
        ({"delay": True}, "compares delay with True"),
        ({"delay": (1, 2, 3)}, r"a range of delay is \(start, end\)"),
        ({"gate": 1}, "names 'gate', which is no column"),
        ({"sizes": [1]}, "give a pyarrow Expression"),
        ("delay > 1", "where= is a dict of columns"),
    ):
        with pytest.raises(InvalidRequest, match=message):
            filter_of(where)
    with pytest.raises(InvalidKey):
        filter_of({"carrier": 5})
