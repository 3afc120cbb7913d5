"""Comparing tallies: replicas that folded the log are equal to it, wherever they stand, and every loss is found."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from kit.log.counted_headers import header, headers

from log_tier.model.batch_header import BatchHeader
from log_tier.model.identifiers import Offset
from log_tier.tally.compare import Comparison, compare, cuts, window_of
from log_tier.tally.count import count_batches, count_pieces
from log_tier.tally.keep import Kept
from log_tier.tally.missing import find_missing
from log_tier.tally.period import MINUTE_MS, PartitionTally, Period, merged


def folded(batches: list[BatchHeader], *, since: int, applied: int, lost: int = -1) -> PartitionTally:
    """The tally of an index that began at `since`, is at `applied`, and never got the batch number `lost`."""
    kept, under_way, after, time_ms = Kept(Offset(since)), None, Offset(since - 1), 0
    for number, batch in enumerate(batches):
        if number != lost and batch.base_offset <= applied:
            head = batch._replace(span=min(batch.span, applied - batch.base_offset + 1))
            closed, under_way = count_batches([head], after, time_ms, under_way)
            if closed and under_way is not None:
                kept = kept.with_closed(closed, newest=under_way.minute)
            after = max(after, head.last_offset)
        if batch.base_offset <= applied:
            time_ms = batch.timestamp_ms
    last: tuple[Period, ...] = () if under_way is None else (under_way,)
    return PartitionTally(kept.since, Offset(applied), (*kept.periods, *last))


def compared(batches: list[BatchHeader], tallies: dict[str, PartitionTally], *, lowest: int = 0) -> list[Comparison]:
    start = max(lowest, min(tally.since for tally in tallies.values()))
    reached = [batch for batch in batches if batch.last_offset >= start]
    pieces = list(count_pieces(reached, start=Offset(start), ends=cuts(tallies.values())))
    return compare(pieces, tallies, lowest=Offset(lowest))


@given(headers(at_least=1), st.data())
def test_replicas_that_folded_the_log_are_equal_to_it_wherever_they_stand(
    batches: list[BatchHeader], data: st.DataObject
) -> None:
    latest = batches[-1].last_offset
    tallies = {}
    for name in ("n1", "n2", "n3"):
        since = data.draw(st.integers(0, latest + 1))
        tallies[name] = folded(batches, since=since, applied=data.draw(st.integers(max(0, since - 1), latest)))
    since_minute = data.draw(st.sampled_from([0, *(batch.timestamp_ms // MINUTE_MS for batch in batches)]))
    tallies = {name: window_of(tally, since_minute) for name, tally in tallies.items()}
    verdicts = {each.verdict for line in compared(batches, tallies) for each in line.replicas.values()}
    assert verdicts <= {"equal"}
    lowest = data.draw(st.sampled_from([batch.base_offset for batch in batches]))
    trimmed = compared([batch for batch in batches if batch.base_offset >= lowest], tallies, lowest=lowest)
    assert {each.verdict for line in trimmed for each in line.replicas.values()} <= {"equal", "not compared"}


@given(headers(at_least=2), st.data())
def test_a_lost_batch_is_found_with_its_offsets(batches: list[BatchHeader], data: st.DataObject) -> None:
    lost = data.draw(st.integers(0, len(batches) - 2))
    latest = batches[-1].last_offset
    tallies = {
        "whole": folded(batches, since=0, applied=latest),
        "lossy": folded(batches, since=0, applied=latest, lost=lost),
    }
    if tallies["whole"].since > batches[lost].base_offset:
        return  # it is beyond what is kept
    (line,) = [line for line in compared(batches, tallies) if line.verdict == "different"]
    assert line.replicas["whole"].verdict == "equal"
    found = line.replicas["lossy"]
    assert found.written is not None
    run = find_missing(batches, written=found.written, counted=found.counted)
    assert run == (batches[lost].base_offset, batches[lost].last_offset)


def test_a_replica_beyond_the_end_of_the_log_is_different() -> None:
    batches = [header(number, 1, number * MINUTE_MS) for number in range(4)]
    lines = compared(batches[:3], {"ahead": folded(batches, since=0, applied=3)})
    assert [line.verdict for line in lines] == ["equal", "equal", "equal", "different"]
    assert lines[3].written is None


def test_other_content_at_the_same_offsets_is_different_and_no_run_is_missing() -> None:
    batches = [header(0, 2, 5), header(2, 3, 6), header(5, 1, 7)]
    other = [batches[0], batches[1]._replace(stamp_checksum=7), batches[2]]
    (line,) = compared(batches, {"n1": folded(other, since=0, applied=5)})
    found = line.replicas["n1"]
    assert (line.verdict, found.written is not None) == ("different", True)
    assert found.written is not None
    assert find_missing(batches, written=found.written, counted=found.counted) is None


def test_what_a_compaction_or_a_trim_may_have_changed_is_not_compared() -> None:
    batches = [header(number, 1, number * MINUTE_MS) for number in range(4)]
    (first, *others) = compared(batches[2:], {"n1": folded(batches, since=0, applied=3)}, lowest=2)
    assert (first.minute, first.verdict, first.written) == (0, "not compared", None)
    assert [line.verdict for line in others] == ["not compared", "equal", "equal"]


def test_a_minute_that_one_replica_folded_to_an_hour_is_compared_as_that_hour() -> None:
    batches = [header(number, 1, number * MINUTE_MS) for number in range(140)]
    tallies = {"ahead": folded(batches, since=0, applied=139), "behind": folded(batches, since=0, applied=90)}
    lines = compared(batches, tallies)
    assert {line.verdict for line in lines} == {"equal"}
    assert [(line.minute, line.minutes) for line in lines][:2] == [(0, 60), (60, 60)]
    hour = lines[0].replicas["behind"].counted
    assert hour is not None
    assert hour.offsets == 60
    whole = merged((line.written for line in lines if line.written is not None), minute=0, minutes=60)
    assert whole is not None
    assert (whole.first, whole.last, whole.offsets) == (0, 139, 140)
