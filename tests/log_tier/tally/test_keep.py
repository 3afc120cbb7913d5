"""What is kept of a tally: bounded, folded by the log's own time, and never a number less than was counted."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from kit.log.counted_headers import header, headers

from log_tier.model.batch_header import BatchHeader
from log_tier.model.identifiers import NOTHING, Offset
from log_tier.tally.count import count_batches
from log_tier.tally.keep import HOURS_KEPT, MINUTES_KEPT, PERIODS_MAX, Kept
from log_tier.tally.period import HOUR, MINUTE_MS, Period, merged


def kept_one_by_one(batches: list[BatchHeader]) -> tuple[Kept, Period | None]:
    """As an index does that folds each batch by itself."""
    kept, under_way, after, time_ms = Kept(Offset(0)), None, NOTHING, 0
    for batch in batches:
        closed, under_way = count_batches([batch], after, time_ms, under_way)
        after, time_ms = batch.last_offset, batch.timestamp_ms
        if closed:
            assert under_way is not None
            kept = kept.with_closed(closed, newest=under_way.minute)
    return kept, under_way


@given(headers(at_least=1))
def test_it_is_the_same_however_many_batches_a_fold_has(batches: list[BatchHeader]) -> None:
    closed, under_way = count_batches(batches, NOTHING, 0, None)
    assert under_way is not None
    at_once = Kept(Offset(0)).with_closed(closed, newest=under_way.minute)
    assert (at_once, under_way) == kept_one_by_one(batches)


@given(headers(at_least=1))
def test_nothing_is_lost_between_the_first_offset_and_the_last(batches: list[BatchHeader]) -> None:
    kept, under_way = kept_one_by_one(batches)
    assert under_way is not None
    whole = merged([*kept.periods, under_way], minute=0, minutes=HOUR)
    assert whole is not None
    assert (whole.first, whole.last) == (kept.since, batches[-1].last_offset)
    assert whole.is_dense
    assert Kept.unpack(kept.pack()) == kept


def test_a_week_of_minutes_is_an_hour_of_minutes_and_a_day_of_hours() -> None:
    week = [header(number, 1, number * MINUTE_MS) for number in range(7 * 24 * 60)]
    kept, _ = kept_one_by_one(week)
    minutes = [period for period in kept.periods if period.minutes == 1]
    hours = [period for period in kept.periods if period.minutes == HOUR]
    assert len(minutes) == MINUTES_KEPT
    assert len(hours) in (HOURS_KEPT - 1, HOURS_KEPT, HOURS_KEPT + 1)
    assert len(kept.periods) <= PERIODS_MAX
    assert kept.since == kept.periods[0].first == (7 * 24 - 1 - HOURS_KEPT) * 60
    assert len(kept.pack()) < 4096, "more than a page of LMDB"


def test_a_row_of_another_size_is_refused() -> None:
    row = Kept(Offset(3), (Period(5, 1, Offset(3), Offset(4), 2, 9),)).pack()
    for broken in (row[:-1], row + b"\0", b"", row[:12]):
        with pytest.raises(struct.error):
            Kept.unpack(broken)
