"""From a batch to Kafka records: one operation, one record; a set is cut between groups only."""

from __future__ import annotations

import pytest

from log_tier.kafka.records.encoding import RecordSet, cut_sets
from log_tier.kafka.records.header import OPEN_GROUP, PLAIN_SET, RecordHeader, read_header
from log_tier.model.batch import Columns
from log_tier.model.errors import LimitExceeded
from log_tier.model.record import Condition, Expiry, Operation, attribute_of


def _sets(columns: Columns, size_max: int = 1 << 20) -> list[RecordSet]:
    return list(cut_sets(columns, producer_id=7, sequence=40, size_max=size_max))


def _headers(records: RecordSet) -> list[RecordHeader]:
    found = [read_header(header) for _, _, header in records.records()]
    assert None not in found
    return [header for header in found if header is not None]


def test_plain_puts_are_key_and_value() -> None:
    (records,) = _sets(Columns([b"a", b"b", b"c"], [b"1", b"", b"3"]))
    assert [(key, value) for key, value, _ in records.records()] == [(b"a", b"1"), (b"b", b""), (b"c", b"3")]
    headers = _headers(records)
    assert [(h.flags, h.before, h.after, h.producer_id, h.sequence) for h in headers] == [
        (PLAIN_SET, 0, 2, 7, 40),
        (PLAIN_SET, 1, 1, 7, 41),
        (PLAIN_SET, 2, 0, 7, 42),
    ]


def test_a_delete_has_no_value_and_a_noop_no_key() -> None:
    attributes = [int(Operation.DELETE), int(Operation.NOOP), int(Operation.PUT)]
    (records,) = _sets(Columns([b"a", b"", b"b"], [b"", b"", b""], attributes))
    assert [(key, value) for key, value, _ in records.records()] == [(b"a", None), (None, None), (b"b", b"")]


def test_versions_and_expiries_travel_where_they_mean_something() -> None:
    attributes = [
        attribute_of(Operation.PUT, condition=Condition.VERSION),
        attribute_of(Operation.PUT, expiry=Expiry.TTL),
        attribute_of(Operation.ADD),
    ]
    (records,) = _sets(Columns([b"a", b"b", b"c"], [b"1", b"2", b"3"], attributes, [9, 8, 7], [6, 5, 4]))
    headers = _headers(records)
    assert [(h.attribute, h.version, h.expiry) for h in headers] == [
        (attributes[0], 9, 0),
        (attributes[1], 0, 5),
        (attributes[2], 0, 0),
    ]


def test_a_set_is_cut_where_it_is_full_and_never_in_a_group() -> None:
    grouped = attribute_of(Operation.PUT, grouped=True)
    attributes = [1, 1, grouped, grouped, 1, 1]
    columns = Columns([b"%d" % n for n in range(6)], [b"x" * 100] * 6, attributes)
    one = _sets(Columns([b"0"], [b"x" * 100]))[0].size
    cut = _sets(columns, one * 3)
    assert [(each.part.start, each.part.stop) for each in cut] == [(0, 1), (1, 4), (4, 6)]
    assert all(each.size == one * each.count for each in cut)
    flags = [[header.flags for header in _headers(each)] for each in cut]
    assert flags == [[0], [OPEN_GROUP, OPEN_GROUP, 0], [0, 0]]
    sequences = [[header.sequence for header in _headers(each)] for each in cut]
    assert sequences == [[40], [41, 42, 43], [44, 45]]


def test_a_group_that_fits_nowhere_is_refused() -> None:
    grouped = attribute_of(Operation.PUT, grouped=True)
    columns = Columns([b"a", b"b", b"c"], [b"x" * 100] * 3, [1, 1, grouped])
    with pytest.raises(LimitExceeded, match=r"max\.message\.bytes") as caught:
        _sets(columns, 250)
    assert caught.value.fields["limit"] == 250
