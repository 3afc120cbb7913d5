from __future__ import annotations

import pytest
from kit.log.stored_log import Said, StoredLog, noop, put

from log_tier.embedded.upkeep.compaction import shrink_batch
from log_tier.model.batch import Columns, check_batch, decode_batch, encode_batch
from log_tier.model.batch_cut import cut_batch
from log_tier.model.identifiers import Offset
from log_tier.model.record import Operation
from serving_tier.fold.last_batch import LastBatch

RECORDS = [put(b"a", b"1"), put(b"b", b"2"), put(b"c", b"3")]


def stored(*records: Said, later_ms: int = 0, producer_id: int = 7, sequence: int = 40) -> bytes:
    log = StoredLog()
    log.next_offset = 100
    return log.append(*records, later_ms=later_ms, producer_id=producer_id, sequence=sequence)


def last_of(batch: bytes) -> LastBatch:
    return LastBatch.of(decode_batch(batch))


THIS = stored(*RECORDS)


def test_a_batch_does_not_differ_from_itself() -> None:
    assert last_of(THIS)[:5] == (100, 3, 1_000_000, 7, 40)
    assert not last_of(THIS).differs(last_of(THIS))


@pytest.mark.parametrize(
    "other",
    [
        stored(*RECORDS, producer_id=8),
        stored(*RECORDS, sequence=41),
        stored(*RECORDS, later_ms=1),
        stored(*RECORDS, later_ms=1, producer_id=0, sequence=0),
        cut_batch(stored(*RECORDS, *RECORDS, sequence=41), Offset(102)),
    ],
    ids=["producer", "sequence", "time", "no producer", "a longer one"],
)
def test_another_batch_differs(other: bytes) -> None:
    assert last_of(THIS).differs(last_of(other))
    assert last_of(other).differs(last_of(THIS))


@pytest.mark.parametrize(
    "other",
    [put(b"c", b"4"), put(b"d", b"3"), Said(Operation.DELETE, b"c", b"3")],
    ids=["value", "key", "operation"],
)
def test_without_a_producer_the_record_is_compared(other: Said) -> None:
    mine, theirs = (last_of(stored(*RECORDS[:2], each, producer_id=0, sequence=0)) for each in (RECORDS[2], other))
    assert not mine.differs(mine)
    assert mine.differs(theirs)


def test_no_ops_without_a_producer_differ_by_their_time() -> None:
    mine, other = (stored(noop(), later_ms=later_ms, producer_id=0, sequence=0) for later_ms in (0, 1))
    assert last_of(mine).differs(last_of(other))


@pytest.mark.parametrize("mask", [b"\1\1\0", b"\0\0\1", b"\1\0\0", b"\0\0\0"])
def test_compaction_changes_nothing(mask: bytes) -> None:
    compacted = shrink_batch(decode_batch(THIS), bytearray(mask))
    assert not last_of(THIS).differs(last_of(compacted))
    assert not last_of(compacted).differs(last_of(THIS))
    other = last_of(stored(*RECORDS, producer_id=8))
    assert other.differs(last_of(compacted)), "what is left still says whose it was"


def test_a_part_of_a_batch_is_the_same_part() -> None:
    """A fold is cut at a pinned read or a barrier; Kafka may give the rest of a set."""
    part = last_of(cut_batch(THIS, Offset(101)))
    assert not part.differs(last_of(cut_batch(THIS, Offset(101))))
    rest = stored(put(b"b", b"2"), producer_id=7, sequence=41)
    rest_there = last_of(rest)._replace(base_offset=Offset(101))
    assert not part.differs(rest_there)


def test_foreign_records_may_be_put_together_in_another_way() -> None:
    """Kafka's fetches decide where a run ends, and the time of a run is the largest of its records'."""
    run = last_of(stored(*RECORDS, producer_id=0, sequence=0))
    alone = last_of(stored(RECORDS[-1], later_ms=-5, producer_id=0, sequence=0))._replace(base_offset=Offset(102))
    assert not run.differs(alone)
    assert run.differs(last_of(stored(put(b"c", b"4"), producer_id=0, sequence=0))._replace(base_offset=Offset(102)))


def test_a_void_record_is_compared_with_nothing() -> None:
    void = last_of(stored(Said(Operation.VOID, b"c", b"it has no key"), producer_id=0, sequence=0))
    assert void.checksum == 0
    assert not void.differs(last_of(THIS))
    assert not last_of(THIS).differs(void)


def test_a_batch_of_no_record_is_compared_with_nothing() -> None:
    """A client that is not ours may append one, with the column of deltas too."""
    empty = encode_batch(Columns([], [], deltas=[]), span=1)
    check_batch(empty)
    assert last_of(empty).checksum == 0
