"""From Kafka records to stored batches: a function of the records, however fetches cut them, whatever others wrote."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.kafka.kafka_partitions import partitions
from kit.kafka.kafka_records import Sent, assembled, foreign, forged, placed, records_of, sent_batch, what_folds_see

from log_tier.kafka.records.assembly import Assembly
from log_tier.model.batch import Columns, decode_batch, encode_batch
from log_tier.model.batch_header import read_header
from log_tier.model.identifiers import Offset
from log_tier.model.record import GROUPED, KEY_BYTES_MAX, VALUE_BYTES_MAX, Expiry, Operation, attribute_of

VOID = int(Operation.VOID)


def reasons(batches: list[bytes]) -> dict[int, str]:
    """Offset → why it is void."""
    void = [record for record in records_of(batches) if record[3] == VOID]
    return {int(str(offset)): bytes.decode(value) for offset, _, value, *_ in void}  # type: ignore[arg-type]


def test_a_batch_comes_back_as_it_was() -> None:
    attributes = [attribute_of(Operation.PUT, expiry=Expiry.TTL), int(Operation.DELETE), int(Operation.ADD)]
    for columns in (
        Columns([b"a", b"b"], [b"1", b""]),
        Columns([b"a", b"b", b"c"], [b"1", b"", b"5"], attributes, None, [9, 0, 0]),
        Columns([b""], [b'{"v":1,"version":2,"job":3}'], [int(Operation.BARRIER)]),
        Columns([b"a", b"b"], [b"\1patch", b"1"], [int(Operation.PATCH), 1]),
    ):
        (stored,) = assembled(placed(sent_batch(columns, producer_id=7, sequence=40), start=5), start=5)
        assert stored[40:] == encode_batch(columns, producer_id=7, sequence=40)[40:]
        header = read_header(stored)
        assert (header.base_offset, header.timestamp_ms) == (5, 1000)


def test_a_set_is_given_when_it_is_whole() -> None:
    assembly = Assembly(Offset(0))
    records = [sent.read() for sent in placed(sent_batch(Columns([b"a", b"b", b"c"], [b"1", b"2", b"3"])))]
    assert assembly.take(records[:1]) == assembly.take(records[1:2]) == []
    assert assembly.end(Offset(2)) == []
    assert len(assembly.take(records[2:])) == 1


def test_foreign_records_are_puts_and_deletes() -> None:
    batches = assembled(placed([foreign(b"a", b"1"), foreign(b"b", None), foreign(b"c", b"")]))
    assert [record[:4] for record in records_of(batches)] == [
        (0, b"a", b"1", 1),
        (1, b"b", b"", int(Operation.DELETE)),
        (2, b"c", b"", 1),
    ]
    assert len(batches) == 1


def test_a_foreign_delete_keeps_its_own_time() -> None:
    batches = assembled(placed([foreign(b"a", b"1", 10), foreign(b"b", b"2", 30), foreign(b"a", None, 20)]))
    assert [(decode_batch(b).header.records, read_header(b).timestamp_ms) for b in batches] == [(2, 30), (1, 20)]


def test_offsets_without_a_record_are_occupied() -> None:
    records = placed(3, [foreign(b"a", b"1")], 70_000, [foreign(b"b", b"2")])
    batches = assembled(records)
    shape = [(h.base_offset, h.span, h.records) for h in map(read_header, batches)]
    assert shape == [(0, 3, 0), (3, 1, 1), (4, 65_536, 0), (65_540, 4_464, 0), (70_004, 1, 1)]
    assembly = Assembly(Offset(7))
    (shell,) = assembly.end(Offset(9))
    assert (read_header(shell).base_offset, read_header(shell).span, assembly.next_offset) == (7, 2, 9)


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (foreign(None, b"1"), "no key"),
        (foreign(b"", b"1"), "no key"),
        (foreign(b"k" * (KEY_BYTES_MAX + 1), b"1"), "512 bytes"),
        (foreign(b"k", b"v" * (VALUE_BYTES_MAX + 1)), "its value has"),
        (Sent(b"k", b"v", b"what is this"), "header"),
        (Sent(b"k", b"v", forged(attribute=0x8001)), "0x8001"),
        (Sent(b"k", b"v", forged(attribute=VOID)), "0x0008"),
        (Sent(b"k", b"v", b"\1" + forged(attribute=int(Operation.PATCH))[1:]), "0x000a"),
        (Sent(b"k", b"v", forged(attribute=attribute_of(Operation.PUT, expiry=Expiry.TTL))), "not one that"),
    ],
)
def test_what_no_table_can_hold_is_void_and_its_neighbours_are_not(sent: Sent, reason: str) -> None:
    batches = assembled(placed([foreign(b"a", b"1")], [sent], [foreign(b"b", b"2")]))
    assert {offset: reason in text for offset, text in reasons(batches).items()} == {1: True}
    assert [record[1] for record in records_of(batches) if record[3] == 1] == [b"a", b"b"]


def _group(count: int, producer_id: int = 7) -> list[Sent]:
    attributes = [1, *[1 | GROUPED] * (count - 1)]
    columns = Columns([b"k%d" % n for n in range(count)], [b"v"] * count, attributes)
    return sent_batch(columns, producer_id=producer_id, sequence=40)


def test_a_torn_group_is_void_and_does_not_use_up_its_sequences() -> None:
    batches = assembled(placed(_group(3)[:2], [foreign(b"x", b"1")], _group(3)[2:]))
    assert reasons(batches) == dict.fromkeys((0, 1, 3), "a part of its atomic group is missing")
    assert {record[6] for record in records_of(batches)} == {0}
    assert reasons(assembled(placed(_group(3)))) == {}


def test_a_reader_that_begins_within_a_set_gets_the_rest() -> None:
    records = placed(sent_batch(Columns([b"a", b"b", b"c"], [b"1", b"2", b"3"]), producer_id=7, sequence=40))
    assert records_of(assembled(records[1:], start=1)) == records_of(assembled(records))[1:]
    group = placed(_group(3))
    assert reasons(assembled(group[1:], start=1)) == {}, "a watch that goes on inside of a group"


def test_a_set_without_its_end_is_given_when_that_shows() -> None:
    lost = sent_batch(Columns([b"a", b"b", b"c"], [b"1", b"2", b"3"]), producer_id=7, sequence=40)[:2]
    batches = assembled(placed(lost, [foreign(b"x", b"1")]))
    assert [record[1] for record in records_of(batches)] == [b"a", b"b", b"x"]


@settings(deadline=None)
@given(partitions(), st.data())
def test_how_the_records_were_cut_does_not_matter(records: list[Sent], data: st.DataObject) -> None:
    whole = assembled(records)
    assembly, cut = Assembly(Offset(0)), []
    rest = records
    while rest:
        count = data.draw(st.integers(1, len(rest)))
        cut += assembly.take([sent.read() for sent in rest[:count]])
        rest = rest[count:]
    assert what_folds_see(cut) == what_folds_see(whole)
    covered = [(h.base_offset, h.last_offset) for h in map(read_header, cut)]
    assert covered[0][0] == 0
    assert all(before[1] + 1 == after[0] for before, after in pairwise(covered))
    assert covered[-1][1] == records[-1].offset
