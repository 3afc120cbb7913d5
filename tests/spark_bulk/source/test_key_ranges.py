"""Ranges of keys: some, all of them, and one alone."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from spark_bulk.source.model.key_ranges import ALL_KEYS, KeyRange

keys = st.binary(max_size=4)


def inside(key: bytes, found: KeyRange) -> bool:
    return key >= found.start and (found.end is None or key < found.end)


@given(keys, keys, keys)
def test_empty_and_single(start: bytes, end: bytes, key: bytes) -> None:
    found = KeyRange(start, end)
    assert not (found.is_empty and inside(key, found))
    if found.single is not None and inside(key, found):
        assert key == found.single
    assert KeyRange(b"a" + key, b"a" + key + b"\x00").single == b"a" + key


def test_what_is_said_of_all_keys() -> None:
    assert ALL_KEYS.is_all
    assert not ALL_KEYS.is_empty
    assert ALL_KEYS.single is None
    assert not KeyRange(b"a").is_all
    assert not KeyRange(b"", b"a").is_all
