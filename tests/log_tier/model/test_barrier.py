"""The barrier's record: its bytes, what is none, and which of two takes effect."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.flight_rows import ALTERED_FLIGHTS

from log_tier.model.barrier import ORIGINAL, Barrier, LiveVersion, barrier_batch, parse_barrier
from log_tier.model.batch import check_batch, decode_batch
from log_tier.model.batch_header import stamp_batch
from log_tier.model.errors import UnknownFormat
from log_tier.model.identifiers import NOTHING, Offset
from log_tier.model.record import Operation
from log_tier.rows.definition import TableDefinition


@given(
    st.integers(1, (1 << 32) - 1),
    st.integers(0, (1 << 63) - 1),
    st.text(max_size=20),
    st.lists(st.integers(1, (1 << 32) - 1), max_size=3),
)
def test_it_comes_back_as_it_was(version: int, job: int, url: str, ended: list[int]) -> None:
    barrier = Barrier(version, job, url, tuple(ended))
    batch = barrier_batch(barrier, producer_id=7, sequence=3)
    header = check_batch(batch)
    assert (header.records, header.producer_id, header.sequence) == (1, 7, 3)
    columns = decode_batch(stamp_batch(batch, base_offset=Offset(5), timestamp_ms=1, unsynced=0)).columns
    assert (list(columns.keys), list(columns.attributes or ())) == ([b""], [int(Operation.BARRIER)])
    assert parse_barrier(columns.values[0]) == barrier


@pytest.mark.parametrize(
    ("barrier", "expected"),
    [
        (Barrier(2, 1041), b'{"v":1,"version":2,"job":1041}'),
        (
            Barrier(3, 1050, "empty:12/530", (1, 2)),
            b'{"v":1,"version":3,"job":1050,"url":"empty:12/530","ended":[1,2]}',
        ),
        (
            Barrier(1, 1077, definition='{"v":1,"number":2}'),
            b'{"v":2,"version":1,"job":1077,"definition":{"v":1,"number":2}}',
        ),
    ],
)
def test_its_bytes_stay_what_they_are(barrier: Barrier, expected: bytes) -> None:
    """The first is what was written before a barrier said where its version is, and which ones have ended; the last
    brings a definition, and only such a one has the second format.
    """
    (value,) = decode_batch(
        stamp_batch(
            barrier_batch(barrier, producer_id=0, sequence=0),
            base_offset=Offset(0),
            timestamp_ms=0,
            unsynced=0,
        )
    ).columns.values
    assert value == expected
    assert parse_barrier(value) == barrier


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"word",
        b"[]",
        b"1",
        b'{"v":1,"version":2}',
        b'{"v":0,"version":2,"job":1}',
        b'{"v":1,"version":0,"job":1}',
        b'{"v":1,"version":true,"job":1}',
        b'{"v":1,"version":"2","job":1}',
        b'{"v":1,"version":2,"job":-1}',
        b'{"v":1,"version":2,"job":9223372036854775808}',
        b'{"v":1,"version":2,"job":1,"url":5}',
        b'{"v":1,"version":2,"job":1,"ended":5}',
        b'{"v":1,"version":2,"job":1,"ended":"12"}',
        b'{"v":2,"version":2,"job":1}',
        b'{"v":2,"version":2,"job":1,"definition":"{}"}',
        b'{"v":2,"version":2,"job":1,"definition":[1]}',
        b"[" * 100_000,
    ],
)
def test_what_is_none(value: bytes) -> None:
    assert parse_barrier(value) is None


def test_one_of_a_newer_format_is_not_passed() -> None:
    """A replica that passed it would part from those that know it."""
    with pytest.raises(UnknownFormat, match="format version 3, this process reads up to version 2: update it"):
        parse_barrier(b'{"v":3,"version":2,"job":1}')


@given(st.binary(max_size=60))
def test_nothing_makes_it_fail(value: bytes) -> None:
    barrier = parse_barrier(value)
    assert barrier is None or json.loads(value)["version"] == barrier.version


def test_the_later_job_counts() -> None:
    first = ORIGINAL.after(Barrier(2, 10), Offset(100))
    assert first == LiveVersion(2, Offset(100), 10)
    assert ORIGINAL == (1, NOTHING, -1)
    assert first is not None
    assert first.after(Barrier(3, 9), Offset(200)) is None
    assert first.after(Barrier(3, 10), Offset(200)) is None, "the same job again"
    assert first.after(Barrier(1, 11), Offset(200)) == LiveVersion(1, Offset(200), 11)


def test_one_with_a_definition_leaves_the_live_version_as_it_is() -> None:
    """What snapshots say of the last swap goes on to be so."""
    live = LiveVersion(2, Offset(100), 10)
    assert live.after(Barrier(2, 11, definition="{}"), Offset(200)) is live
    assert live.after(Barrier(2, 10, definition="{}"), Offset(200)) is None
    assert live.after(Barrier(3, 11, definition="{}"), Offset(200)) == LiveVersion(3, Offset(200), 11)
    assert live.after(Barrier(2, 11), Offset(200)) == LiveVersion(2, Offset(200), 11)


def test_a_definition_in_the_first_format_is_a_field_that_is_ignored() -> None:
    """As processes that know no other do it."""
    assert parse_barrier(b'{"v":1,"version":2,"job":1,"definition":{"v":1}}') == Barrier(2, 1)


def test_what_landed_stays_readable() -> None:
    """The lines were written when each format landed; they are never written again."""
    lines = (Path(__file__).parent / "fixtures" / "barriers.jsonl").read_bytes().splitlines()
    read = [parse_barrier(line) for line in lines]
    assert read[:2] == [Barrier(2, 1041), Barrier(3, 1050, "empty:12/530", (1, 2))]
    later = read[2]
    assert later is not None
    assert later[:2] == (1, 1077)
    assert TableDefinition.from_document(json.loads(later.definition)) == ALTERED_FLIGHTS
