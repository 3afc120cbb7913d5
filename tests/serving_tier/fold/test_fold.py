"""What the golden scripts cannot say: formats from later versions, limits, and what another version has decided."""

from __future__ import annotations

from dataclasses import replace

import pytest
from kit.log.stored_log import StoredLog, put

from log_tier.model.batch import Batch, decode_batch
from log_tier.model.errors import UnknownFormat
from log_tier.model.identifiers import Offset
from log_tier.model.record import VALUE_BYTES_MAX, Condition, Expiry, Operation
from serving_tier.fold.decision import KeyChange, Record, Rejection, decide
from serving_tier.fold.entry import NEVER, stored_entry
from serving_tier.fold.fold import fold
from serving_tier.fold.verdicts import Verdict
from serving_tier.index.memory_index import MemoryIndex


def plain_batch() -> Batch:
    """Puts of a, b and c at the offsets 10 to 12."""
    log = StoredLog()
    log.next_offset = 10
    return decode_batch(log.append(put(b"a", b"1"), put(b"b", b"2"), put(b"c", b"3")))


def test_an_index_of_another_version_leaves_out_exactly_what_the_live_one_left_out() -> None:
    keys = {10: b"a", 11: b"b", 12: b"c"}
    for decided in (set(), {9}, {10}, {11}, {12}, {13}, {10, 12}, {10, 11, 12}):
        effects = fold(
            [plain_batch()], MemoryIndex(), applied=Offset(9), log_time_ms=0, decided={Offset(each) for each in decided}
        )
        assert set(effects.entries) == {key for offset, key in keys.items() if offset not in decided}, decided
        assert effects.applied == 12, "what is left out is applied too"


@pytest.mark.parametrize(("flags", "reserved"), [(0x80, 0), (0, 1), (0x80, 1)])
def test_a_batch_of_a_later_format_is_not_folded(flags: int, reserved: int) -> None:
    batch = plain_batch()
    later = replace(batch, header=batch.header._replace(flags=flags, reserved=reserved))
    with pytest.raises(UnknownFormat) as caught:
        fold([later], MemoryIndex(), applied=Offset(9), log_time_ms=0)
    assert caught.value.fields["offset"] == 10


def test_an_append_fills_a_value_to_its_limit_and_not_beyond() -> None:
    held = stored_entry(bytes(VALUE_BYTES_MAX - 2), Offset(3), NEVER)

    def appended(value: bytes) -> KeyChange | Rejection | None:
        record = Record(Offset(7), Operation.APPEND, Condition.NONE, Expiry.NONE, b"k", value, 0, 0)
        return decide(record, held, 0)

    full = appended(b"ab")
    assert isinstance(full, KeyChange)
    assert full.result == b"%d" % VALUE_BYTES_MAX
    assert appended(b"abc") == Rejection(Verdict.RESULT_TOO_LARGE)
