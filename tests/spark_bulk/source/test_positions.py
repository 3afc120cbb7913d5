"""A stream's position survives a checkpoint, and is only taken up where the log still covers it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.spark.table_places import place_of

from log_tier.model.errors import InvalidToken, OffsetTrimmed, TokenAhead
from log_tier.model.identifiers import NOTHING, Offset, Partition, table_id_from_bytes
from log_tier.model.log import Bounds
from spark_bulk.source.log.positions import check_covered, format_position, parse_position, share_limit

offsets = st.dictionaries(st.integers(0, 7).map(Partition), st.integers(-1, 1 << 50).map(Offset))


@given(offsets)
def test_a_position_survives_the_checkpoint(seen: dict[Partition, Offset]) -> None:
    place = place_of(partitions=8)
    text = json.dumps(format_position(place, seen))
    assert parse_position(json.loads(text), place) == {each: seen.get(each, NOTHING) for each in place.partitions}
    shuffled = dict(reversed(seen.items()))
    assert json.dumps(format_position(place, shuffled)) == text, "Spark compares the text"


def test_another_tables_position_is_refused() -> None:
    mine, other = place_of(), place_of(table=table_id_from_bytes(bytes(15) + b"\x01"))
    with pytest.raises(InvalidToken, match="it was dropped and made again"):
        parse_position(format_position(other, {}), mine)
    with pytest.raises(InvalidToken, match=r"is of 3 partitions, flights has 4: begin with a new checkpoint"):
        parse_position(format_position(place_of(partitions=3), {}), place_of(partitions=4))


@pytest.mark.parametrize("document", [{}, {"table": "x"}, {"table": "x", "seen": []}, {"table": "x", "seen": {"a": 1}}])
def test_what_is_no_position_is_refused(document: dict[str, object]) -> None:
    with pytest.raises(InvalidToken, match="is none of a Duramen table"):
        parse_position(document, place_of())


def check_position(seen: int, earliest: int, latest: int, *, start: int = 0) -> None:
    place = place_of(partitions=1, start=start)
    check_covered(place, {Partition(0): Offset(seen)}, [Bounds(Offset(earliest), Offset(latest))])


def test_what_the_log_still_holds_is_covered() -> None:
    check_position(-1, 0, -1)
    check_position(-1, 0, 10)
    check_position(9, 10, 12)
    check_position(9, 10, 9)
    check_position(12, 10, 12)
    check_position(-1, 500, 600, start=500)


def test_what_was_trimmed_is_a_typed_error() -> None:
    with pytest.raises(OffsetTrimmed, match="begins at offset 10, and offset 9 is next here") as caught:
        check_position(8, 10, 12)
    assert caught.value.fields == {"partition": 0, "asked": 9, "earliest": 10}
    with pytest.raises(OffsetTrimmed, match="offset 0 is next"):
        check_position(-1, 1, 5)
    with pytest.raises(OffsetTrimmed):
        check_position(-1, 501, 600, start=500)


def test_a_log_that_became_shorter_is_a_typed_error() -> None:
    with pytest.raises(TokenAhead, match="offset 13 was seen, and the log ends at 12"):
        check_position(13, 0, 12)


positions = st.dictionaries(
    st.integers(0, 9).map(Partition), st.tuples(st.integers(-1, 100), st.integers(0, 60)), min_size=1
)


@given(positions, st.integers(1, 300))
def test_a_limit_is_shared(found: dict[Partition, tuple[int, int]], limit: int) -> None:
    seen = {each: Offset(offset) for each, (offset, _) in found.items()}
    latest = {each: Offset(offset + waiting) for each, (offset, waiting) in found.items()}
    until = share_limit(seen, latest, limit)
    total = sum(waiting for _, waiting in found.values())
    assert set(until) == set(seen)
    assert all(seen[each] <= until[each] <= latest[each] for each in seen)
    assert sum(until[each] - seen[each] for each in seen) == min(limit, total), "it is used up, and not passed"
    # Nobody who waits gets less than another one, by more than the rest of a division.
    taken = {each: until[each] - seen[each] for each in seen}
    for each in seen:
        if until[each] < latest[each]:
            assert taken[each] >= max(taken.values()) - 1 - len(seen)
