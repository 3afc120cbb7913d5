"""From messages to stored batches: sets are held until they are whole, and how a fetch cut them does not matter."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from kit.kafka.kafka_partitions import partitions
from kit.kafka.kafka_records import Message, Sent, assembled, foreign, placed, records_of, sent_batch, what_folds_see

from log_tier.kafka.reading.record_filter import RecordFilter
from log_tier.kafka.records.header import pack_header
from log_tier.model.batch import Columns
from log_tier.model.identifiers import Offset, Partition


def new_intake() -> RecordFilter:
    return RecordFilter("flights", Partition(0), Offset(0))


def test_a_set_is_held_until_its_end_is_here() -> None:
    records = placed(sent_batch(Columns([b"a", b"b", b"c"], [b"1", b"2", b"3"])))
    intake = new_intake()
    assert intake.take([Message(sent) for sent in records[:2]]) == []
    assert intake.end(Offset(2)) == [], "what is held is to be read still"
    assert (intake.position, intake.next_offset) == (2, 0)
    (batch,) = intake.take([Message(records[2])])
    assert batch == assembled(records)[0]
    assert intake.next_offset == 3


def test_what_was_taken_is_not_taken_again() -> None:
    records = placed([foreign(b"a", b"1"), foreign(b"b", b"2")])
    intake = new_intake()
    intake.take([Message(records[0])])
    assert intake.take([Message(records[0])]) == []
    assert [record[1] for record in records_of(intake.take([Message(sent) for sent in records]))] == [b"b"]


def test_the_end_covers_offsets_that_hold_nothing() -> None:
    intake = new_intake()
    intake.take([Message(placed([foreign(b"a", b"1")])[0])])
    batches = intake.end(Offset(5))
    assert records_of(batches) == []
    assert (intake.position, intake.next_offset) == (5, 5)
    assert intake.end(Offset(3)) == [], "an end of before"
    assert intake.position == 5


def test_a_record_of_a_later_version_ends_reading() -> None:
    later = bytes([3]) + pack_header(1, 0, 0, 0, 0)[1:]
    records = placed([foreign(b"a", b"1"), Sent(b"b", b"2", later), foreign(b"c", b"3")])
    intake = new_intake()
    assert [record[1] for record in records_of(intake.take([Message(sent) for sent in records]))] == [b"a"]
    assert intake.unreadable is not None
    assert str(intake.unreadable).startswith("flights/0 at offset 1: ")
    assert intake.unreadable.fields["offset"] == 1


@settings(deadline=None)
@given(partitions(), st.data())
def test_the_short_way_gives_the_same(records: list[Sent], data: st.DataObject) -> None:
    """Sets of plain puts go column by column; everything else, record by record."""
    intake = new_intake()
    cut: list[bytes] = []
    rest = records
    while rest:
        count = data.draw(st.integers(1, len(rest)))
        cut += intake.take([Message(sent) for sent in rest[:count]])
        rest = rest[count:]
    assert what_folds_see(cut) == what_folds_see(assembled(records))
    assert intake.next_offset == intake.position == records[-1].offset + 1, "nothing is held"
