"""What is left of batches that are cut at an offset."""

from __future__ import annotations

from kit.log.stored_log import StoredLog, delete, put

from log_tier.model.batch import Batch, decode_batch
from log_tier.model.identifiers import Offset
from serving_tier.replica.pieces import cut_at

RECORDS = [put(b"a", b"1"), put(b"b", b"2"), delete(b"c", grouped=True), put(b"d", b"4", grouped=True), put(b"e")]
"""b, c and d take effect together."""


def stored_pair() -> list[Batch]:
    """The records at the offsets 10 to 14, and one more batch."""
    log = StoredLog()
    log.next_offset = 10
    return [decode_batch(log.append(*RECORDS)), decode_batch(log.append(put(b"f")))]


def test_a_cut_keeps_whole_groups() -> None:
    expected = {9: [], 10: [b"a"], 11: [b"a"], 12: [b"a"], 13: [b"a", b"b", b"c", b"d"]}
    for last, keys in expected.items():
        cut = cut_at(stored_pair(), Offset(last))
        assert [key for batch in cut for key in batch.columns.keys] == keys, last
        for batch in cut:
            columns = batch.columns
            assert columns.attributes is not None
            assert len(columns.keys) == len(columns.values) == len(columns.attributes) == batch.header.records
            assert batch.header.last_offset == last, "what is left out of a group is passed all the same"


def test_batches_up_to_the_cut_stay_as_they_are() -> None:
    pair = stored_pair()
    assert list(cut_at(pair, Offset(14))) == pair[:1]
    for last in (15, 16):
        assert list(cut_at(pair, Offset(last))) == pair
