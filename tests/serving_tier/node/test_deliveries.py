"""What subscriptions were given is counted as replicas count: equal, or different at the offsets of what went wrong."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st
from kit.log.counted_headers import header, headers

from log_tier.model.batch_header import BatchHeader
from log_tier.model.identifiers import Offset, partition_id
from log_tier.tally.compare import compare, cuts, window_of
from log_tier.tally.count import count_pieces
from log_tier.tally.missing import find_missing
from log_tier.tally.period import MINUTE_MS, PartitionTally, Period
from serving_tier.node.deliveries import DELIVERED_MINUTES_KEPT, Deliveries, Delivery

PLACE = partition_id("AAAAAAAAAAAAAAAAAAAAAA", 0)


async def delivered(runs: Sequence[Sequence[BatchHeader]], since: int = 0, log_time_ms: int = 0) -> PartitionTally:
    delivery = Delivery(PLACE, Offset(since), log_time_ms)
    for run in runs:
        await delivery.passed_on(b"", run)
    return delivery.tally()


def pieces_of(log: Sequence[BatchHeader], tally: PartitionTally) -> list[Period]:
    return list(count_pieces(log, start=tally.since, ends=cuts([tally])))


@given(headers(at_least=1), st.data())
async def test_a_subscription_has_the_numbers_of_the_log(log: list[BatchHeader], data: st.DataObject) -> None:
    since = data.draw(st.integers(0, log[-1].last_offset))
    rest = [each for each in log if each.last_offset >= since]
    runs = []
    while rest:
        size = data.draw(st.integers(1, len(rest)))
        runs.append(rest[:size])
        rest = rest[size:]
    before_ms = max((each.timestamp_ms for each in log if each.last_offset < since), default=0)
    tally = await delivered(runs, since, before_ms)
    later = [each for each in log if each.last_offset >= tally.since]
    lines = compare(pieces_of(later, tally), {"watch 1": tally}, lowest=Offset(0))
    assert {line.verdict for line in lines} <= {"equal"}
    assert len(tally.periods) <= DELIVERED_MINUTES_KEPT + 2
    assert tally.applied == log[-1].last_offset
    assert sum(period.offsets for period in tally.periods) == tally.applied - tally.since + 1


async def test_a_batch_that_is_skipped_or_comes_twice_is_found_with_its_offsets() -> None:
    log = [header(number * 3, 3, 1000 + number) for number in range(9)]
    skipped = await delivered([log[:4], log[5:]])
    (line,) = compare(pieces_of(log, skipped), {"w": skipped}, lowest=Offset(0))
    found = line.replicas["w"]
    assert (found.verdict, found.written is not None) == ("different", True)
    assert found.written is not None
    assert find_missing(log, written=found.written, counted=found.counted) == (12, 14)

    doubled = await delivered([log[:5], log[4:]])
    (line,) = compare(pieces_of(log, doubled), {"w": doubled}, lowest=Offset(0))
    found = line.replicas["w"]
    assert found.verdict == "different"
    assert found.written is not None
    assert find_missing(log, written=found.written, counted=found.counted) == (12, 14)


async def test_a_subscription_keeps_ten_minutes() -> None:
    log = [header(number, 1, number * MINUTE_MS) for number in range(40)]
    tally = await delivered([[each] for each in log])
    assert (tally.since, tally.applied) == (39 - DELIVERED_MINUTES_KEPT, 39)
    assert [period.minute for period in tally.periods] == list(range(39 - DELIVERED_MINUTES_KEPT, 40))
    assert window_of(tally, 0) == tally


async def test_who_has_ended_is_not_kept() -> None:
    deliveries = Deliveries()
    one, other = deliveries.begin(), deliveries.begin()
    assert one != other
    counts = {name: Delivery(PLACE, Offset(0)) for name in (one, other)}
    for name, delivery in counts.items():
        deliveries.note(name, delivery)
        assert name not in dict(deliveries.of(PLACE)), "it was given nothing yet"
        await delivery.passed_on(b"", [header(0, 2, 1000)])
    assert sorted(dict(deliveries.of(PLACE))) == sorted((one, other))
    deliveries.end(one, counts[one])
    deliveries.end(one, counts[one])
    assert list(dict(deliveries.of(PLACE))) == [other]
    deliveries.end(other, counts[other])
    assert dict(deliveries.of(PLACE)) == {}
