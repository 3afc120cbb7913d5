"""Batches of Kafka count the same however fetches cut them, and wherever a reader began."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st
from kit.kafka.kafka_partitions import partitions
from kit.kafka.kafka_records import Sent, assembled, foreign, placed, sent_batch

from log_tier.kafka.records.assembly import Assembly
from log_tier.model.batch import Columns, decode_batch
from log_tier.model.batch_header import BatchHeader
from log_tier.model.identifiers import NOTHING, Offset
from log_tier.tally.count import count_batches, count_pieces
from log_tier.tally.missing import find_missing
from log_tier.tally.parts import counted_parts
from log_tier.tally.period import MINUTE_MS, Period, merged

Numbers = dict[int, tuple[int, int, int, int]]


@st.composite
def timed_partitions(draw: st.DrawFn) -> list[Sent]:
    """What lies in a partition of Kafka, with times that rise and fall over some minutes."""
    records = draw(partitions())
    for record in records:
        record.timestamp_ms = draw(st.integers(0, 4)) * MINUTE_MS + draw(st.sampled_from([0, 59_999]))
    return records


def fetched(data: st.DataObject, records: Sequence[Sent], start: int) -> list[bytes]:
    """The batches of a reader that begins at `start`, whose fetches bring a few records each."""
    assembly, found = Assembly(Offset(start)), []
    rest = [record for record in records if record.offset >= start]
    while rest:
        count = data.draw(st.integers(1, len(rest)))
        found += assembly.take([sent.read() for sent in rest[:count]])
        rest = rest[count:]
        reaches_on: bool = data.draw(st.booleans())
        if rest and reaches_on:
            found += assembly.end(Offset(rest[0].offset))
    return found


def folded(batches: Sequence[bytes], after: Offset, time_ms: int) -> tuple[list[Period], int]:
    """What a replica counts that has applied `after`, one fold for each batch; and its log time then."""
    periods: list[Period] = []
    under_way: Period | None = None
    for stored in batches:
        batch = decode_batch(stored)
        ended, under_way = count_batches(counted_parts(batch, (after,)), after, time_ms, under_way)
        periods += ended
        after, time_ms = batch.header.last_offset, max(time_ms, batch.header.timestamp_ms)
    return [*periods, *([under_way] if under_way is not None else [])], time_ms


def numbers(periods: Sequence[Period]) -> Numbers:
    found: Numbers = {}
    for minute in sorted({period.minute for period in periods}):
        whole = merged([each for each in periods if each.minute == minute], minute=minute, minutes=1)
        assert whole is not None
        found[minute] = whole.numbers
    return found


@settings(deadline=None)
@given(timed_partitions(), st.data())
def test_two_readers_count_the_same(records: list[Sent], data: st.DataObject) -> None:
    one, _ = folded(fetched(data, records, 0), NOTHING, 0)
    other, _ = folded(fetched(data, records, 0), NOTHING, 0)
    assert numbers(one) == numbers(other)


@settings(deadline=None)
@given(timed_partitions(), st.data())
def test_a_reader_that_goes_on_anywhere_counts_the_rest(records: list[Sent], data: st.DataObject) -> None:
    whole, _ = folded(assembled(records), NOTHING, 0)
    batches = fetched(data, records, 0)
    stop = data.draw(st.integers(0, len(batches)))
    first, time_ms = folded(batches[:stop], NOTHING, 0)
    applied = first[-1].last if first else NOTHING
    was_cut: bool = data.draw(st.booleans())
    if first and was_cut:
        # The last fold ended inside of its batch, as at a barrier.
        cut = Offset(data.draw(st.integers(first[-1].first, applied)))
        headers = [part for stored in batches[:stop] for part in counted_parts(decode_batch(stored), (cut,))]
        first = [each for each in count_pieces(headers, start=Offset(0), ends=[cut]) if each.last <= cut]
        applied = cut
        time_ms = first[-1].minute * MINUTE_MS
    rest, _ = folded(fetched(data, records, applied + 1), applied, time_ms)
    assert numbers([*first, *rest]) == numbers(whole)


@settings(deadline=None)
@given(timed_partitions(), st.data())
def test_the_log_s_pieces_are_what_a_replica_counted_up_to_anywhere(records: list[Sent], data: st.DataObject) -> None:
    whole, _ = folded(assembled(records), NOTHING, 0)
    last = whole[-1].last
    ends = [Offset(each) for each in data.draw(st.lists(st.integers(0, last), max_size=4))]
    headers = [part for stored in fetched(data, records, 0) for part in counted_parts(decode_batch(stored), ends)]
    pieces = list(count_pieces(headers, start=Offset(0), ends=ends))
    assert numbers(pieces) == numbers(whole)
    assert not any(piece.first <= end < piece.last for piece in pieces for end in ends)


def one_by_one(batches: Sequence[bytes]) -> list[BatchHeader]:
    found: list[BatchHeader] = []
    for stored in batches:
        batch = decode_batch(stored)
        found += counted_parts(batch, map(Offset, range(batch.header.base_offset, batch.header.last_offset)))
    return found


def test_a_record_of_others_that_was_lost_is_found_with_its_offset() -> None:
    ours = sent_batch(Columns([b"a", b"b"], [b"1", b"2"]), producer_id=7, sequence=40)
    theirs = [foreign(b"k%d" % number, b"v%d" % number) for number in range(9)]
    records = placed(theirs, ours, 3, [foreign(b"end", None)])
    headers = one_by_one(assembled(records))
    (written,) = count_pieces(headers, start=Offset(0), ends=())
    lost = [header for header in headers if header.base_offset != 4]
    (counted,) = count_pieces(lost, start=Offset(0), ends=())
    assert find_missing(headers, written=written, counted=counted) == (4, 4)


def test_every_part_of_a_record_counts() -> None:
    def count(record: Sent) -> Period:
        headers = one_by_one(assembled(placed([record])))
        (period,) = count_pieces(headers, start=Offset(0), ends=())
        return period

    seen = [foreign(b"ab", b"c"), foreign(b"a", b"bc"), foreign(b"ab", b"d"), foreign(b"ab", None), foreign(None, b"c")]
    assert len({count(record).checksum for record in seen}) == len(seen)
    assert count(foreign(None, b"c")).checksum == count(foreign(None, b"d")).checksum, "its value is a reason in words"
