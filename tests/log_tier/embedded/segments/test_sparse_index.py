"""The sparse index finds the entries that were added, and leaves out those that it cannot read."""

from __future__ import annotations

from bisect import bisect_right

import pytest
from hypothesis import given
from hypothesis import strategies as st

from log_tier.embedded.segments.sparse_index import INDEX_HEADER_BYTES, SparseIndex
from log_tier.model.identifiers import Offset

entries_of = st.lists(st.tuples(st.integers(1, 1000), st.integers(1, 10**6)), max_size=40)


def index_of(steps: list[tuple[int, int]]) -> tuple[SparseIndex, list[tuple[int, int]]]:
    index, entries, offset, position = SparseIndex(), [], 0, 0
    for more_offset, more_position in steps:
        offset, position = offset + more_offset, position + more_position
        index.add(offset, position)
        entries.append((offset, position))
    return index, entries


@given(entries_of, st.integers(0, 50_000))
def test_lookups(steps: list[tuple[int, int]], offset: int) -> None:
    index, entries = index_of(steps)
    below = bisect_right([entry[0] for entry in entries], offset)
    assert index.at_or_before(offset) == (entries[below - 1] if below else None)


@given(entries_of, st.data())
def test_what_is_damaged_is_left_out_and_the_rest_is_true(steps: list[tuple[int, int]], data: st.DataObject) -> None:
    index, entries = index_of(steps)
    encoded = bytearray(index.encode(Offset(7)))
    whole = SparseIndex.decode(bytes(encoded), Offset(7))
    assert [whole.entry(n) for n in range(len(whole))] == entries
    bit = data.draw(st.integers(0, len(encoded) * 8 - 1))
    encoded[bit // 8] ^= 1 << bit % 8
    damaged = SparseIndex.decode(bytes(encoded), Offset(7))
    good = 0 if bit // 8 < INDEX_HEADER_BYTES else (bit // 8 - INDEX_HEADER_BYTES) // 16
    assert [damaged.entry(n) for n in range(len(damaged))] == entries[:good]
    cut = SparseIndex.decode(bytes(index.encode(Offset(7))[: bit // 8]), Offset(7))
    assert [cut.entry(n) for n in range(len(cut))] == entries[:good]


def test_another_segments_index_is_empty() -> None:
    index, _ = index_of([(1, 1), (2, 2)])
    assert len(SparseIndex.decode(index.encode(Offset(7)), Offset(8))) == 0
    assert len(SparseIndex.decode(b"", Offset(7))) == 0


def test_entries_rise() -> None:
    index, _ = index_of([(5, 5)])
    with pytest.raises(AssertionError, match="5 after 5"):
        index.add(5, 9)
