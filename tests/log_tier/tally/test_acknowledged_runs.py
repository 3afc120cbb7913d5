"""What was acknowledged is in the log, whatever else is there, and however often it was written."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from log_tier.model.batch import Columns, encode_batch
from log_tier.model.batch_header import BatchHeader, place_of, read_header, stamp_batch
from log_tier.model.identifiers import Offset, partition_id
from log_tier.tally.acknowledged import AckRun, find_runs, joined_runs
from log_tier.tally.period import MINUTE_MS

PLACE = partition_id("AAAAAAAAAAAAAAAAAAAAAA", 0)


class SentCopies(NamedTuple):
    data: bytes
    copies: int
    """How often the log holds it."""
    is_acknowledged: bool
    others: int
    """Batches of others between it and the next one."""
    minute: int


def sent(
    producer: int, sequence: int, records: int, *, copies: int = 1, is_acknowledged: bool = True, others: int = 0
) -> SentCopies:
    columns = Columns([b"k%d" % (sequence + at) for at in range(records)], [b"v"] * records)
    return SentCopies(
        encode_batch(columns, producer_id=producer, sequence=sequence), copies, is_acknowledged, others, sequence // 7
    )


@st.composite
def histories(draw: st.DrawFn) -> list[SentCopies]:
    """What two producers of a client have sent, in any order between them."""
    found: list[SentCopies] = []
    following = {7: 0, 9: 0}
    for _ in range(draw(st.integers(1, 12))):
        producer, records = draw(st.sampled_from([7, 9])), draw(st.integers(1, 3))
        acknowledged = draw(st.booleans())
        copies = draw(st.integers(1 if acknowledged else 0, 2))
        others = draw(st.integers(0, 2))
        found.append(
            sent(
                producer, following[producer], records, copies=copies, is_acknowledged=acknowledged, others=others
            )._replace(minute=len(found) // 3)
        )
        following[producer] += records
    return found


def written(history: list[SentCopies]) -> tuple[list[BatchHeader], list[AckRun]]:
    """The log of a history, and the runs that its client has counted."""
    log: list[BatchHeader] = []
    runs: dict[int, list[AckRun]] = {}
    offset = 0
    for batch in history:
        header = read_header(batch.data)
        for copy in range(batch.copies):
            stored = stamp_batch(
                batch.data,
                base_offset=Offset(offset),
                timestamp_ms=batch.minute * MINUTE_MS,
                unsynced=0,
                place=place_of(PLACE),
            )
            log.append(read_header(stored))
            if copy == batch.copies - 1 and batch.is_acknowledged:
                own = runs.setdefault(header.producer_id, [])
                noted = (PLACE, batch.data[:64], Offset(offset), batch.minute * MINUTE_MS, batch.copies > 1)
                run, goes_on = joined_runs(own[-1] if own else None, noted)
                own[len(own) - 1 if goes_on else len(own) :] = [run]
            offset += header.span
        for other in range(batch.others):
            stored = stamp_batch(
                encode_batch(Columns([b"other"], [b"%d" % other])),
                base_offset=Offset(offset),
                timestamp_ms=batch.minute * MINUTE_MS,
                unsynced=0,
                place=place_of(PLACE),
            )
            log.append(read_header(stored))
            offset += 1
    return log, [run for own in runs.values() for run in own]


@given(histories())
def test_all_that_was_acknowledged_is_found(history: list[SentCopies]) -> None:
    log, runs = written(history)
    start = min((run.first for run in runs), default=Offset(0))
    found = find_runs([each for each in log if each.base_offset >= start], runs)
    assert [each.run for each in found] == runs
    assert all(each.is_equal() and each.lacks is None for each in found)
    assert sum(run.records for run in runs) == sum(
        read_header(each.data).records for each in history if each.is_acknowledged
    )
    assert all(run.first <= each.first <= each.last <= run.last for run, each in zip(runs, found, strict=True))


def test_what_was_acknowledged_and_is_not_there_is_named_by_its_neighbours() -> None:
    log, (run,) = written([sent(7, number * 2, 2, others=1)._replace(minute=0) for number in range(6)])
    lost = [each for each in log if each.base_offset != 6]
    (found,) = find_runs(lost, [run])
    assert (found.is_equal(), found.records, found.lacks) == (False, 10, (5, 8))
    (found,) = find_runs(log[:-2], [run])
    assert found.lacks == (14, run.last)
    (found,) = find_runs([], [run])
    assert (found.records, found.lacks) == (0, (0, run.last))


def test_other_records_in_the_place_of_those_that_were_acknowledged_are_different() -> None:
    log, (run,) = written([sent(7, 0, 2), sent(7, 2, 2)])
    (found,) = find_runs([log[0], log[1]._replace(checksum=log[1].checksum ^ 1)], [run])
    assert (found.is_equal(), found.lacks) == (False, None)
    assert found.is_equal(by_checksum=False)


def test_what_was_not_acknowledged_ends_a_run() -> None:
    _, runs = written([sent(7, 0, 2), sent(7, 2, 1, is_acknowledged=False), sent(7, 3, 2)])
    assert [(run.sequence, run.records) for run in runs] == [(0, 2), (3, 2)]
