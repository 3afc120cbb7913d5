"""A range of keys lets through what the filters let through, and nothing is left out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.spark.pyspark_filters import Filter, filters

from spark_bulk.source.key_ranges import ALL_KEYS, KeyRange, prefix_range, range_of_filters

keys = st.binary(max_size=4)


def inside(key: bytes, found: KeyRange) -> bool:
    return key >= found.start and (found.end is None or key < found.end)


@given(keys, keys)
def test_a_prefix(prefix: bytes, key: bytes) -> None:
    assert inside(key, prefix_range(prefix)) == key.startswith(prefix)


@given(st.sampled_from([b"\xff", b"\xff\xff", b"a\xff", b""]), st.binary(max_size=3))
def test_a_prefix_at_the_end_of_all_keys(prefix: bytes, rest: bytes) -> None:
    assert inside(prefix + rest, prefix_range(prefix))
    assert prefix == b"" or not inside(b"A" + rest, prefix_range(prefix))


@given(st.lists(filters(keys), max_size=4), keys)
def test_filters_let_through_the_same_keys(given_filters: list[Filter], key: bytes) -> None:
    found, left = range_of_filters([each.as_spark() for each in given_filters])
    taken = [each for each in given_filters if each.on_key]
    assert len(left) == len(given_filters) - len(taken)
    assert inside(key, found) == all(each.lets(key) for each in taken)
    if found.is_empty:
        assert not inside(key, found)
    if found.single is not None and inside(key, found):
        assert key == found.single


@given(keys, keys, keys, keys, keys)
def test_both(start: bytes, end: bytes, other_start: bytes, other_end: bytes, key: bytes) -> None:
    one, other = KeyRange(start, end), KeyRange(other_start, other_end)
    assert inside(key, one.both(other)) == (inside(key, one) and inside(key, other))
    assert inside(key, one.both(ALL_KEYS)) == inside(key, one)


def test_what_is_said_of_all_keys() -> None:
    assert ALL_KEYS.is_all
    assert not ALL_KEYS.is_empty
    assert ALL_KEYS.single is None
    assert not KeyRange(b"a").is_all
    assert not KeyRange(b"", b"a").is_all


@pytest.mark.parametrize("name", ["In", "IsNull", "StringEndsWith", "StringContains", "Not"])
def test_other_filters_are_left_to_spark(name: str) -> None:
    other = Filter(name, ("key",), b"a").as_spark()
    assert range_of_filters([other]) == (ALL_KEYS, [other])
