"""What an index holds of some keys, compared with the entries themselves."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from log_tier.model.errors import IndexDamaged
from log_tier.model.identifiers import NOTHING, Offset
from router.endpoints.resp.data.stored_entries import StoredEntries
from serving_tier.fold.entry import LiveEntry, stored_entry

KEYS = [b"k%d" % number for number in range(8)]
LOG_TIME_MS = 1_000
ENTRY = st.none() | st.builds(
    LiveEntry,
    st.binary(max_size=20),
    st.integers(0, 2**50).map(Offset),
    st.sampled_from([0, 0, LOG_TIME_MS - 1, LOG_TIME_MS, LOG_TIME_MS + 1]),
)


def stored_of(entries: Sequence[LiveEntry | None]) -> StoredEntries:
    forms = [None if entry is None else stored_entry(*entry) for entry in entries]
    return StoredEntries(KEYS[: len(forms)], forms, LOG_TIME_MS)


def shown(entry: LiveEntry | None) -> LiveEntry | None:
    return None if entry is None or 0 < entry.expires_at_ms <= LOG_TIME_MS else entry


@given(
    st.lists(ENTRY, min_size=8, max_size=8) | st.lists(ENTRY.filter(bool), min_size=8, max_size=8),
    st.lists(st.lists(st.sampled_from(KEYS)), max_size=4),
)
def test_the_entries_are_those_that_count_at_the_log_time(
    entries: list[LiveEntry | None], asked: list[list[bytes]]
) -> None:
    """One by one and many together, in whatever order they are asked for."""
    found = stored_of(entries)
    expected = dict(zip(KEYS, map(shown, entries), strict=True))
    for keys in asked:
        assert found.each(keys) == [expected[key] for key in keys]
    assert dict(found) == expected
    assert (len(found), list(found)) == (8, KEYS)


@given(st.lists(ENTRY, min_size=8, max_size=8), st.lists(st.sampled_from(KEYS)))
def test_versions_are_known_without_the_values_where_nothing_expires(
    entries: list[LiveEntry | None], keys: list[bytes]
) -> None:
    versions = stored_of(entries).versions(keys)
    asked = [entries[KEYS.index(key)] for key in keys]
    if any(entry is not None and entry.expires_at_ms for entry in asked):
        assert versions is None
    else:
        assert versions == [NOTHING if entry is None else entry.version for entry in asked]


def test_a_key_that_was_not_read_is_a_mistake_of_ours() -> None:
    found = stored_of([None])
    for read in (found.__getitem__, lambda key: found.each([key]), lambda key: found.versions([key])):
        with pytest.raises(KeyError):
            read(b"another")


def test_unknown_flags_are_damage() -> None:
    damaged = stored_entry(b"value", 5, 0)[:7] + b"\x04value"
    found = StoredEntries([b"k"], [damaged], LOG_TIME_MS)
    assert found.versions([b"k"]) is None, "the entry has to be read"
    for read in (lambda: found[b"k"], lambda: found.each([b"k"])):
        with pytest.raises(IndexDamaged):
            read()
