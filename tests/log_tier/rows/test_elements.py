"""Fields as bytes: as FoundationDB publishes them, in order, and nothing else is a field."""

from __future__ import annotations

import enum
import json
import math
import struct
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from log_tier.model.errors import InvalidKey
from log_tier.rows.elements import KeyElement, decode_element, encode_element, skip_element

VECTORS = json.loads((Path(__file__).parent / "vectors" / "elements.json").read_text())

KINDS: dict[str, st.SearchStrategy[Any]] = {
    "bytes": st.binary(max_size=20) | st.lists(st.sampled_from([0, 1, 254, 255]), max_size=6).map(bytes),
    "str": st.text(st.characters(codec="utf-8"), max_size=10) | st.text("\0\1a\xff\U0010ffff", max_size=5),
    "int": st.integers() | st.integers(-(1 << 64), 1 << 64) | st.integers(1 - (1 << 2040), (1 << 2040) - 1),
    "float": st.floats(allow_nan=False),
    "bool": st.booleans(),
    "UUID": st.uuids(),
    "date": st.dates(),
    "datetime": st.datetimes(),
    "instant": st.datetimes(
        datetime(2, 1, 1), datetime(9998, 1, 1), timezones=st.timezones() | st.just(timezone(timedelta(hours=-5)))
    ),
}

LEAST_OF_EACH = [
    None,
    b"",
    "",
    -(1 << 2039),
    -math.inf,
    False,
    UUID(int=0),
    date.min,
    datetime(1, 1, 1, tzinfo=UTC),
    datetime.min,
]
"""In the order of their types."""


@pytest.mark.parametrize("vector", VECTORS["vectors"], ids=lambda vector: vector["python"])
def test_fields_are_encoded_as_published(vector: dict[str, str]) -> None:
    field = eval(vector["python"], {"UUID": UUID, "date": date, "datetime": datetime, "UTC": UTC})
    assert encode_element(field).hex() == vector["hex"]
    decoded, end = decode_element(bytes.fromhex(vector["hex"]), 0)
    assert (type(decoded), decoded, end) == (type(field), field, len(vector["hex"]) // 2)


@pytest.mark.parametrize("kind", KINDS)
def test_fields_of_a_type_sort_as_their_bytes_and_come_back(kind: str) -> None:
    @given(KINDS[kind], KINDS[kind])
    def check(one: Any, other: Any) -> None:
        first, second = encode_element(one), encode_element(other)
        if kind == "instant":  # Python compares two of one zone by their clocks
            one, other = one.astimezone(UTC), other.astimezone(UTC)
        assert (one < other, one == other) == (first < second, first == second)
        assert decode_element(b"before" + first + second, 6) == (one, 6 + len(first))
        assert skip_element(first, 0) == len(first)

    check()


def test_types_have_an_order_of_their_own() -> None:
    parts = [encode_element(field) for field in LEAST_OF_EACH]
    assert parts == sorted(parts)


def test_an_instant_has_one_encoding_in_every_zone() -> None:
    here = datetime(2026, 11, 27, 12, tzinfo=timezone(timedelta(hours=2)))
    assert encode_element(here) == encode_element(here.astimezone(UTC))
    assert decode_element(encode_element(here), 0)[0] == here


def test_zero_has_one_encoding() -> None:
    assert encode_element(-0.0) == encode_element(0.0)


class DepartureGate(enum.IntEnum):
    B7 = 7


class Name(str):
    pass


@pytest.mark.parametrize(("field", "plain"), [(DepartureGate.B7, 7), (Name("UA"), "UA")])
def test_a_value_of_a_narrower_type_is_one_of_its_type(field: Any, plain: KeyElement) -> None:
    assert encode_element(field) == encode_element(plain)


class Timestamp(datetime):
    nanosecond = 5


@pytest.mark.parametrize(
    ("field", "said"),
    [
        (math.nan, "NaN"),
        ("\ud800", "surrogates not allowed"),
        (1 << 2040, "at most 255 bytes, this one has 256"),
        (-(1 << 2040), "at most 255 bytes, this one has 256"),
        (("UA",), "not tuple"),
        (1j, "not complex"),
        (bytearray(b"k"), "not bytearray"),
        (Timestamp(2026, 1, 1), "has nanoseconds"),
    ],
    ids=repr,
)
def test_what_is_no_field_is_refused(field: Any, said: str) -> None:
    with pytest.raises(InvalidKey, match=said):
        encode_element(field)


@pytest.mark.parametrize(
    "key",
    [
        b"\x01open",
        b"\x01open\x00\xff",
        b"\x02\xff\x00",  # no UTF-8
        b"\x15",
        b"\x15\x00",  # zero has a code of its own
        b"\x16\x00\x01",  # one byte is enough
        b"\x13\xff",
        b"\x1d",
        b"\x1d\x08" + b"\x01" * 8,  # a small number as a large one
        b"\x1d\x09\x00" + b"\x01" * 8,
        b"\x1d\x09\x01",
        b"\x0b",
        b"\x0b\xf6\xff" + b"\xfe" * 8,
        b"\x21" + struct.pack(">Q", (1 << 63) - 1),  # -0.0
        b"\x21" + b"\xff" * 8,  # NaN
        b"\x21\x80",
        b"\x20\x3d\xd7\xff\xff",  # a float of 32 bits
        b"\x05\x00",  # a tuple in a tuple
        b"\x30" + bytes(15),
        b"\x33" + bytes(12),
        b"\x40" + b"\xff" * 4,
        b"\x41" + b"\xff" * 8,
        b"\x42" + bytes(8),
        b"\xff",
    ],
    ids=bytes.hex,
)
def test_bytes_that_no_field_has_are_refused(key: bytes) -> None:
    with pytest.raises(InvalidKey, match="not those of fields"):
        decode_element(key, 0)
