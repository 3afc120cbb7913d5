"""The rule of retention: which offset a log's bounds let it begin at."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from log_tier.model.errors import InvalidRequest
from log_tier.model.identifiers import Offset
from log_tier.model.retention import BOUND_MAX, FOREVER, Retention, SegmentFacts, check_retention, retained_from

# Three sealed segments of 100 bytes and ten offsets each, written at 1, 2 and 3 s, and the newest one.
SEGMENTS = [
    SegmentFacts(Offset(10), 100, 1000),
    SegmentFacts(Offset(20), 100, 2000),
    SegmentFacts(Offset(30), 100, 3000),
    SegmentFacts(Offset(35), 50, 4000),
]
NOW_MS = 5000
ALL = Offset(1000)


@pytest.mark.parametrize(
    ("retention", "below", "expected"),
    [
        (FOREVER, ALL, None),
        (Retention(ms=4000), ALL, None),  # the oldest is exactly so old: its time is over after that
        (Retention(ms=3999), ALL, 10),
        (Retention(ms=2500), ALL, 20),
        (Retention(ms=1), ALL, 30),  # the newest segment stays
        (Retention(bytes=350), ALL, None),
        (Retention(bytes=251), ALL, None),  # 250 would be left
        (Retention(bytes=250), ALL, 10),
        (Retention(bytes=1), ALL, 30),
        (Retention(ms=2500, bytes=1), ALL, 30),  # either bound lets a segment go
        (Retention(ms=4000, bytes=250), ALL, 10),
        (Retention(ms=1), Offset(0), None),
        (Retention(ms=1), Offset(9), None),
        (Retention(ms=1), Offset(10), 10),
        (Retention(ms=1), Offset(29), 20),
        (Retention(bytes=1), Offset(20), 20),
    ],
)
def test_the_rule(retention: Retention, below: Offset, expected: int | None) -> None:
    assert retained_from(SEGMENTS, retention, now_ms=NOW_MS, below=below) == expected


def test_an_empty_log_keeps_what_it_has() -> None:
    assert retained_from([], Retention(1, 1), now_ms=NOW_MS, below=ALL) is None


@given(
    sizes=st.lists(st.tuples(st.integers(1, 9), st.integers(1, 500), st.integers(0, 1000)), min_size=1, max_size=12),
    retention=st.builds(Retention, st.integers(0, 3000), st.integers(0, 2000)),
    below=st.integers(0, 100),
)
def test_what_goes_is_never_needed(sizes: list[tuple[int, int, int]], retention: Retention, below: int) -> None:
    segments: list[SegmentFacts] = []
    end = now_ms = 0
    for records, size, pause_ms in sizes:
        end, now_ms = end + records, now_ms + pause_ms
        segments.append(SegmentFacts(Offset(end), size, now_ms))
    start = retained_from(segments, retention, now_ms=now_ms, below=Offset(below))
    gone = [segment for segment in segments if start is not None and segment.end <= start]
    kept = segments[len(gone) :]
    assert kept, "the newest segment stays"
    assert all(segment.end <= below for segment in gone)
    size = sum(segment.bytes for segment in kept)
    for segment in gone:
        is_old = 0 < retention.ms < now_ms - segment.newest_ms
        assert is_old or 0 < retention.bytes <= size
    if len(kept) > 1 and kept[0].end <= below:
        assert not 0 < retention.ms < now_ms - kept[0].newest_ms
        assert not 0 < retention.bytes <= size - kept[0].bytes


@pytest.mark.parametrize("retention", [Retention(ms=-1), Retention(bytes=-1), Retention(BOUND_MAX + 1)])
def test_bounds_that_cannot_be(retention: Retention) -> None:
    with pytest.raises(InvalidRequest, match="is a whole number from 0"):
        check_retention(retention)
