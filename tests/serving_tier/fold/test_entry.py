from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from log_tier.model.errors import IndexDamaged
from serving_tier.fold.entry import (
    columns_of_entries,
    entry_of,
    expiry_of,
    is_live,
    stored_entry,
    stored_puts,
    value_of,
    version_of,
)

VERSIONS = st.integers(0, (1 << 56) - 1)


@given(value=st.binary(max_size=30), version=VERSIONS, expires_at_ms=st.integers(0, (1 << 63) - 1))
def test_what_is_stored_reads_back(value: bytes, version: int, expires_at_ms: int) -> None:
    stored = stored_entry(value, version, expires_at_ms)
    assert entry_of(stored) == (value, version, expires_at_ms)
    assert (value_of(stored), version_of(stored), expiry_of(stored)) == (value, version, expires_at_ms)
    assert is_live(stored, expires_at_ms) == (expires_at_ms == 0)
    assert expires_at_ms == 0 or is_live(stored, expires_at_ms - 1)


@given(first=st.integers(0, 1 << 50), values=st.lists(st.binary(max_size=5)))
def test_plain_puts_in_one_go_are_the_same_as_one_by_one(first: int, values: list[bytes]) -> None:
    assert list(stored_puts(first, values)) == [stored_entry(value, first + at, 0) for at, value in enumerate(values)]


def test_flags_that_nobody_writes_are_damage() -> None:
    with pytest.raises(IndexDamaged, match="flags 00000010"):
        entry_of(b"\0" * 7 + b"\x02" + b"\0" * 8 + b"v")


@given(
    entries=st.lists(
        st.none() | st.tuples(st.binary(max_size=9), st.integers(0, 9), st.just(0) | st.integers(90, 110)), max_size=6
    )
)
def test_columns_are_those_of_each_live_entry(entries: list[tuple[bytes, int, int] | None]) -> None:
    stored = [None if entry is None else stored_entry(*entry) for entry in entries]
    live = [None if each is None or not is_live(each, 100) else entry_of(each) for each in stored]
    values, versions, expiries = columns_of_entries(stored, 100)
    assert values == [None if entry is None else entry.value for entry in live]
    assert versions == [-1 if entry is None else entry.version for entry in live]
    expected = [0 if entry is None else entry.expires_at_ms for entry in live]
    assert expiries == (expected if any(expected) else None)
