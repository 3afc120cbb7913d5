"""Which records a compaction drops, record by record."""

from __future__ import annotations

import pytest
from kit.log.stored_log import Said, StoredLog, add, delete, put

from log_tier.embedded.upkeep.compaction import CompactionPlan
from log_tier.model.batch import Batch, decode_batch
from log_tier.model.record import Condition, Expiry, Operation


def kept(batches: list[Batch], *, from_start: bool = True, now_ms: int = 0) -> list[list[int]]:
    """For each batch, 1 for every record that stays."""
    plan = CompactionPlan(now_ms=now_ms, tombstone_ms=1, from_start=from_start)
    for batch in batches:
        plan.survey(batch.header)
    for batch in reversed(batches):
        plan.judge(batch)
    return [list(plan.kept(each.header) or b"\1" * each.header.records) for each in batches]


def stored_alone(*records: Said) -> list[Batch]:
    log = StoredLog()
    return [decode_batch(log.append(record)) for record in records]


def stored_together(*records: Said) -> list[Batch]:
    return [decode_batch(StoredLog().append(*records))]


OVERWRITES = [
    put(b"k", b"2"),
    put(b"k", b"2", expiry=Expiry.TTL, expiry_ms=5),
    put(b"k", b"2", expiry=Expiry.AT, expiry_ms=5),
    delete(b"k"),
]
READS = [
    put(b"k", b"2", expiry=Expiry.KEEP),
    put(b"k", b"2", condition=Condition.ABSENT),
    put(b"k", b"2", condition=Condition.PRESENT),
    put(b"k", b"2", condition=Condition.VERSION, version=0),
    delete(b"k", condition=Condition.PRESENT),
    add(b"k", b"2"),
    Said(Operation.APPEND, b"k", b"2"),
    Said(Operation.PATCH, b"k", b"2"),
]


@pytest.mark.parametrize("last", OVERWRITES)
def test_what_leaves_the_same_whatever_was_there_covers_it(last: Said) -> None:
    assert kept(stored_alone(put(b"k", b"1"), put(b"other"), last)) == [[0], [1], [1]]
    assert kept(stored_together(put(b"k", b"1"), put(b"other"), last)) == [[0, 1, 1]]


@pytest.mark.parametrize("last", READS)
def test_what_looks_at_what_was_there_covers_nothing(last: Said) -> None:
    assert kept(stored_alone(put(b"k", b"1"), last)) == [[1], [1]]
    assert kept(stored_together(put(b"k", b"1"), put(b"other"), last)) == [[1, 1, 1]]


def test_plain_puts_leave_the_last_of_each_key() -> None:
    first, second = StoredLog(), StoredLog()
    second.next_offset = 4
    batches = [
        decode_batch(first.append(put(b"a"), put(b"b"), put(b"a"), put(b"c"))),
        decode_batch(second.append(put(b"b"), put(b"b"))),
    ]
    assert kept(batches) == [[0, 0, 1, 1], [0, 1]]


def test_a_repeated_batch_loses_exactly_what_is_repeated() -> None:
    log = StoredLog()
    records = [put(b"a"), put(b"b"), put(b"c"), put(b"d")]
    batches = [
        decode_batch(log.append(*records[:3], producer_id=9, sequence=10)),
        decode_batch(log.append(*records[1:], producer_id=9, sequence=11)),
    ]
    assert kept(batches) == [[1, 1, 1], [0, 0, 1]]
    whole = decode_batch(log.append(*records[:3], producer_id=9, sequence=10))
    assert kept([*batches, whole]) == [[1, 1, 1], [0, 0, 1], [0, 0, 0]]


def test_the_batch_that_stays_for_a_producer_is_the_first_with_its_last_sequence() -> None:
    """A copy that comes later still is answered with the place of the first one."""
    log = StoredLog()
    batches = [
        decode_batch(log.append(put(b"a"), put(b"b"), producer_id=9, sequence=10)),
        decode_batch(log.append(put(b"a"), put(b"b"), producer_id=9, sequence=10)),
        decode_batch(log.append(put(b"a"), put(b"b"))),
    ]
    plan = CompactionPlan(now_ms=0, tombstone_ms=1, from_start=True)
    for batch in batches:
        plan.survey(batch.header)
    assert [plan.needs_shell(batch.header) for batch in batches] == [True, False, False]


def test_a_producers_record_that_may_be_void_covers_nothing() -> None:
    """The log no longer begins at its start: what the producer sent before is not known."""
    log = StoredLog()
    log.next_offset = 100
    batches = [
        decode_batch(log.append(put(b"k", b"1"))),
        decode_batch(log.append(put(b"k", b"2"), producer_id=9, sequence=10)),
    ]
    assert kept(batches, from_start=False) == [[1], [1]]
    assert kept(batches, from_start=True) == [[0], [1]]


def test_an_old_delete_goes_once_nothing_older_of_its_key_stays() -> None:
    batches = stored_alone(put(b"k", b"1"), delete(b"k"))
    young, old = batches[0].header.timestamp_ms + 1, batches[0].header.timestamp_ms + 2
    assert kept(batches, now_ms=young) == [[0], [1]]
    assert kept(batches, now_ms=old) == [[0], [0]]
    held = stored_alone(put(b"k", b"1"), add(b"k", b"2"), delete(b"k"))
    assert kept(held, now_ms=old)[-1] == [0], "what the delete covers goes with it"


def test_of_a_group_all_stays_or_all_that_is_covered_goes() -> None:
    group = [put(b"a", b"1"), put(b"b", b"2", grouped=True)]
    for later, stays in (([put(b"a"), put(b"b")], 0), ([put(b"a")], 1), ([put(b"b")], 1)):
        log = StoredLog()
        batches = [decode_batch(log.append(*group)), decode_batch(log.append(*later))]
        assert kept(batches) == [[stays, stays], [1] * len(later)]
