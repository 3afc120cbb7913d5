"""Keys with fields: ranges of a scan along the key."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from duramen.client.rows.row_key import RowKey
from log_tier.model.errors import InvalidKey, InvalidRequest
from log_tier.rows.definition import TableDefinition
from log_tier.rows.key_fields import KeyField
from log_tier.rows.tuple_key import key_range, pack_key

KEY = RowKey(
    TableDefinition(key=(KeyField("carrier", "str"), KeyField("flight", "int"), KeyField("day", "date", True)))
)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, key_range()),
        ({"carrier": "UA"}, key_range("UA")),
        ({"flight": 7, "carrier": "UA"}, key_range("UA", 7)),
        ({"carrier": ("AA", "UA")}, key_range(start="AA", end="UA")),
        ({"carrier": "UA", "flight": (10, 20)}, key_range("UA", start=10, end=20)),
        ({"carrier": "UA", "flight": (10, None)}, key_range("UA", start=10)),
        ({"carrier": "UA", "flight": (None, 20)}, key_range("UA", end=20)),
        ({"carrier": "UA", "flight": (None, None)}, key_range("UA")),
        ({"carrier": "UA", "flight": 7, "day": None}, key_range("UA", 7, None)),
    ],
)
def test_fields_of_a_scan_are_a_range_of_keys(fields: dict[str, Any], expected: object) -> None:
    assert KEY.bounds(fields) == expected


@pytest.mark.parametrize(
    ("fields", "error", "says"),
    [
        ({"gate": "B"}, InvalidRequest, "gate is no field of the key (carrier, flight, day)"),
        ({"flight": 7}, InvalidRequest, "a scan of flight needs carrier too"),
        ({"carrier": "UA", "day": date(2020, 1, 1)}, InvalidRequest, "needs flight too"),
        ({"carrier": ("AA", "UA", "US")}, InvalidRequest, "(start, end)"),
        ({"carrier": ("AA", "UA"), "flight": 7}, InvalidKey, "carrier"),
        ({"carrier": 5}, InvalidKey, "carrier"),
        ({"carrier": "UA", "flight": ("a", "b")}, InvalidKey, "flight"),
        ({"carrier": None}, InvalidKey, "carrier"),
        ({"carrier": "UA", "flight": (20, 10)}, InvalidKey, "behind"),
    ],
)
def test_fields_that_are_no_range(fields: dict[str, Any], error: type[Exception], says: str) -> None:
    with pytest.raises(error) as caught:
        KEY.bounds(fields)
    assert says in str(caught.value)


def test_a_key_is_all_of_its_fields() -> None:
    assert KEY.of_fields(("UA", 7, None)) == pack_key("UA", 7, None)
    assert KEY.fields_of(KEY.of_fields(("UA", 7, None))) == ("UA", 7, None)
    for wrong in ((), ("UA",), ("UA", 7, None, 1), ("UA", "7", None), (None, 7, None), (b"UA", 7, None)):
        with pytest.raises(InvalidKey):
            KEY.of_fields(wrong)
