"""Counting batches: a model that looks at single offsets, and any way of cutting the log gives the same numbers."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st
from kit.log.counted_headers import header, headers

from log_tier.model.batch_header import BatchHeader
from log_tier.model.identifiers import NOTHING, Offset
from log_tier.tally.count import count_batches, count_pieces
from log_tier.tally.period import CHECKSUM_MASK, MINUTE_MS, Period, merged, weight_of


def model(batches: Sequence[BatchHeader], first: int, last: int) -> dict[int, tuple[int, int, int, int]]:
    """(first, last, count, checksum) of each minute, found offset by offset."""
    found: dict[int, list[int]] = {}
    checksums: dict[int, int] = {}
    time_ms = 0
    for batch in batches:
        time_ms = max(time_ms, batch.timestamp_ms)
        minute = time_ms // MINUTE_MS
        for offset in range(batch.base_offset, batch.last_offset + 1):
            if first <= offset <= last:
                found.setdefault(minute, []).append(offset)
                if offset == batch.base_offset:
                    checksums[minute] = checksums.get(minute, 0) + weight_of(offset, batch.stamp_checksum)
    return {
        minute: (offsets[0], offsets[-1], len(offsets), checksums.get(minute, 0) & CHECKSUM_MASK)
        for minute, offsets in found.items()
    }


def in_folds(batches: Sequence[BatchHeader], cuts: Sequence[int]) -> dict[int, tuple[int, int, int, int]]:
    """Count as a replica does, whose folds end at `cuts`: a batch that is cut comes as its head, and again whole."""
    closed: list[Period] = []
    after, time_ms, under_way = NOTHING, 0, None
    for cut in (*sorted(set(cuts)), 10**9):
        seen = [b if b.last_offset <= cut else b._replace(span=cut - b.base_offset + 1) for b in batches]
        piece = [b for b in seen if b.base_offset <= cut]
        ended, under_way = count_batches(piece, after, time_ms, under_way)
        closed += ended
        if piece:
            after = max(after, piece[-1].last_offset)
            time_ms = max(b.timestamp_ms for b in piece)
    periods = [*closed, *([under_way] if under_way is not None else [])]
    assert [p.minute for p in periods] == sorted({p.minute for p in periods})
    return {period.minute: period.numbers for period in periods}


@given(headers(), st.lists(st.integers(0, 80), max_size=6))
def test_a_minute_has_the_same_numbers_however_folds_cut_the_log(batches: list[BatchHeader], cuts: list[int]) -> None:
    assert in_folds(batches, cuts) == model(batches, 0, 10**9)


@given(headers(), st.integers(0, 80), st.lists(st.integers(0, 80), max_size=4))
def test_pieces_are_cut_at_the_ends_that_are_asked_for_and_merge_to_minutes(
    batches: list[BatchHeader], start: int, ends: list[int]
) -> None:
    later = [batch for batch in batches if batch.last_offset >= start]
    pieces = list(count_pieces(later, start=Offset(start), ends=map(Offset, ends)))
    for end in ends:
        assert not any(piece.first <= end < piece.last for piece in pieces), f"{pieces} reach over {end}"
    found = {}
    for minute in sorted({piece.minute for piece in pieces}):
        whole = merged((p for p in pieces if p.minute == minute), minute=minute, minutes=1)
        assert whole is not None
        found[minute] = whole.numbers
    assert found == model(later, start, 10**9)
    for last in ends:
        upto = model(later, start, last)
        merges = {
            minute: merged((p for p in pieces if p.minute == minute and p.last <= last), minute=minute, minutes=1)
            for minute in {piece.minute for piece in pieces if piece.last <= last}
        }
        assert {minute: whole.numbers for minute, whole in merges.items() if whole is not None} == upto


@given(headers(at_least=1), st.data())
def test_another_history_has_other_numbers(batches: list[BatchHeader], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(batches) - 1))
    batch = batches[at]
    other = data.draw(st.sampled_from(["missing", "other content", "exchanged"]))
    if other == "missing":
        changed = [*batches[:at], *batches[at + 1 :]]
    elif other == "other content":
        changed = [*batches[:at], batch._replace(stamp_checksum=batch.stamp_checksum ^ 1), *batches[at + 1 :]]
    else:
        following = batches[(at + 1) % len(batches)]
        if following.stamp_checksum == batch.stamp_checksum:
            return
        changed = list(batches)
        changed[at] = batch._replace(stamp_checksum=following.stamp_checksum)
        changed[(at + 1) % len(batches)] = following._replace(stamp_checksum=batch.stamp_checksum)
    assert in_folds(changed, ()) != in_folds(batches, ())


def test_the_minute_is_that_of_the_log_time_and_never_goes_back() -> None:
    late = [header(0, 2, MINUTE_MS), header(2, 1, 5 * MINUTE_MS), header(3, 4, 0), header(7, 1, 2 * MINUTE_MS)]
    ended, under_way = count_batches(late, NOTHING, 0, None)
    assert [(p.minute, p.first, p.last, p.offsets) for p in ended] == [(1, 0, 1, 2)]
    assert under_way is not None
    assert (under_way.minute, under_way.first, under_way.last, under_way.offsets) == (5, 2, 7, 6)


def test_a_gap_shows_in_the_count() -> None:
    _, under_way = count_batches([header(4, 2, 7), header(9, 1, 8)], after=Offset(3), log_time_ms=0, open_period=None)
    assert under_way is not None
    assert (under_way.first, under_way.last, under_way.offsets, under_way.is_dense) == (4, 9, 3, False)
