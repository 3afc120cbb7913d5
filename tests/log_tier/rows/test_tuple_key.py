"""Keys of several fields: their order, ranges, and what is refused."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from log_tier.model.errors import InvalidKey
from log_tier.rows.tuple_key import key_range, pack_key, unpack_key

TEXTS = ["", "\0", "\0\0", "\0\xff", "U", "UA", "UA\0", "UA\0A", "UB", "\U0010ffff"]
NUMBERS: list[int | None] = [None, -256, -1, 0, 1, 255, 256, 1599, 1600]

texts, numbers = st.text("\0\1aU\xff", max_size=3), st.none() | st.integers(-300, 300)
keys = st.tuples(texts, numbers) | st.tuples(texts) | st.tuples(texts, numbers, texts)


def order(fields: tuple[Any, ...]) -> tuple[tuple[bool, Any], ...]:
    return tuple((field is not None, 0 if field is None else field) for field in fields)


@given(keys, keys)
def test_keys_sort_as_their_fields(one: tuple[Any, ...], other: tuple[Any, ...]) -> None:
    assert (order(one) < order(other)) == (pack_key(*one) < pack_key(*other))
    assert (one == other) == (pack_key(*one) == pack_key(*other))
    assert unpack_key(pack_key(*one)) == one


def inside(packed: bytes, within: tuple[bytes, bytes]) -> bool:
    return within[0] <= packed < within[1]


@given(keys, texts)
def test_the_range_of_a_field_has_what_begins_with_it_and_nothing_else(fields: tuple[Any, ...], text: str) -> None:
    assert inside(pack_key(*fields), key_range(text)) == (fields[0] == text)


@given(keys, texts, st.integers(-300, 300), st.integers(-300, 300))
def test_a_range_of_the_next_field(fields: tuple[Any, ...], text: str, one: int, other: int) -> None:
    start, end = sorted((one, other))
    packed, of_text = pack_key(*fields), fields[0] == text and len(fields) > 1
    number = fields[1] if of_text else None
    within = of_text and number is not None and start <= number < end
    assert inside(packed, key_range(text, start=start, end=end)) == within
    assert inside(packed, key_range(text, start=start)) == (of_text and number is not None and start <= number)
    assert inside(packed, key_range(text, end=end)) == (of_text and (number is None or number < end))


def test_ranges_of_the_first_field() -> None:
    all_keys = [pack_key(text, number) for text, number in product(TEXTS, NUMBERS)]
    assert all(inside(key, key_range()) for key in all_keys)
    some = [unpack_key(key)[0] for key in all_keys if inside(key, key_range(start="U", end="UB"))]
    assert set(some) == {"U", "UA", "UA\0", "UA\0A"}


def test_none_is_a_bound_as_any_other_field() -> None:
    assert inside(pack_key("UA", None), key_range("UA", start=None, end=0))
    assert not inside(pack_key("UA", None), key_range("UA", end=None))


def test_a_range_that_ends_before_it_begins_is_refused() -> None:
    with pytest.raises(InvalidKey, match="no key is from 2 to 1"):
        key_range("UA", start=2, end=1)


def test_a_key_has_fields_and_at_most_511_bytes() -> None:
    assert len(pack_key("x" * 509)) == 511
    for fields in ((), ("x" * 510,)):
        with pytest.raises(InvalidKey, match="1 to 511"):
            pack_key(*fields)
    for key in (b"", b"\0" * 512):
        with pytest.raises(InvalidKey, match="1 to 511"):
            unpack_key(key)


@pytest.mark.parametrize("key", ["UA", bytearray(b"\x15\x01"), None, 7], ids=repr)
def test_what_is_no_bytes_is_no_key(key: Any) -> None:
    with pytest.raises(InvalidKey, match="a key is bytes"):
        unpack_key(key)


@given(st.binary(min_size=1, max_size=40))
def test_bytes_are_refused_or_are_the_key_of_their_fields(key: bytes) -> None:
    try:
        fields = unpack_key(key)
    except InvalidKey:
        return
    assert pack_key(*fields) == key
