"""Stretches: records that are decided on in columns, compared with the same records one by one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.log.stored_log import Said, StoredLog, columns_of

import serving_tier.fold.grouped as grouped_module
from log_tier.model.batch import Columns, decode_batch
from log_tier.model.identifiers import NOTHING, Offset
from log_tier.model.record import VALUE_BYTES_MAX, Condition, Expiry, Operation
from log_tier.rows.definition import TableDefinition
from serving_tier.fold.effects import Effects
from serving_tier.fold.entry import LiveEntry, entry_of, stored_entry
from serving_tier.fold.fold import fold
from serving_tier.fold.producers import ProducerState
from serving_tier.fold.stretch import STRETCH_MIN, decide_stretch, stretch_end

NOW = 1_000_000
KEYS = [b"k%d" % number for number in range(12)]

Stored = dict[bytes, bytes]


def nothing_there(key: bytes) -> bytes | None:
    return None


class View:
    """An index that holds these entries, and knows no producers."""

    def __init__(self, held: Stored) -> None:
        self.held = held

    def stored(self, key: bytes, /) -> bytes | None:
        return self.held.get(key)

    kept = stored

    def changed_last(self, key: bytes, /) -> Offset:
        return NOTHING

    def with_value(self, value: bytes, /) -> Iterator[bytes]:
        return iter(())

    def producer(self, producer_id: int) -> ProducerState | None:
        return None

    def producer_count(self) -> int:
        return 0

    def producers_by_age(self) -> Iterator[int]:
        return iter(())


TEXTS = TableDefinition(key="str", value="str")


def folded(records: list[Said], held: Stored, least: int, definition: TableDefinition | None = None) -> Effects:
    """What the records make of an index in which `held` is, where so many in a row are decided on in columns."""
    log = StoredLog()
    log.next_offset, log.time_ms = 100, NOW
    batch = decode_batch(log.append(*records))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grouped_module, "STRETCH_MIN", least)
        return fold([batch], View(held), applied=Offset(99), log_time_ms=NOW, definition=definition)


ENTRIES = st.builds(
    stored_entry,
    st.sampled_from([b"", b"v", b"12"]),
    st.integers(0, 99),
    st.sampled_from([0, 0, 0, NOW - 5, NOW, NOW + 1, NOW + 500]),
)
OPERATIONS = st.sampled_from([Operation.PUT, Operation.DELETE, Operation.NOOP, Operation.APPEND])
CONDITIONS = st.sampled_from([*Condition, Condition.VERSION, Condition.ABSENT])


@st.composite
def groups(draw: st.DrawFn) -> tuple[list[Said], Stored]:
    """A few runs of records that ask for the same, most of them in one group, and what the index holds."""
    held: Stored = draw(st.dictionaries(st.sampled_from(KEYS), ENTRIES))
    records: list[Said] = []
    for _ in range(draw(st.integers(1, 3))):
        like = Said(
            draw(OPERATIONS),
            b"",
            condition=draw(CONDITIONS),
            expiry=draw(st.sampled_from([Expiry.NONE, Expiry.AT, *Expiry])),
        )
        for key in draw(st.lists(st.sampled_from(KEYS), max_size=8, unique=draw(st.booleans()))):
            there = held.get(key)
            right = 0 if there is None else entry_of(there).version
            records.append(
                replace(
                    like,
                    key=key,
                    value=draw(st.sampled_from([b"", b"x"])),
                    version=right if draw(st.integers(0, 9)) else draw(st.integers(0, 99)),
                    expiry_ms=draw(st.sampled_from([0, NOW, NOW + 1, NOW + 70])),
                    grouped=bool(records) and bool(draw(st.integers(0, 9))),
                )
            )
    return records, held


@settings(deadline=None)
@given(groups())
def test_a_stretch_is_what_its_records_are_one_by_one(given_: tuple[list[Said], Stored]) -> None:
    records, held = given_
    if records:
        assert folded(records, held, 1) == folded(records, held, 1000)


@settings(deadline=None)
@given(groups(), st.sets(st.integers(0, 23)))
def test_a_table_of_texts_is_judged_record_by_record(given_: tuple[list[Said], Stored], misfits: set[int]) -> None:
    """Whatever follows the plain put with which a group begins."""
    others, held = given_
    others = [replace(each, value=b"\xff") if at in misfits else each for at, each in enumerate(others)]
    records = [Said(Operation.PUT, KEYS[0], b"first"), *(replace(each, grouped=True) for each in others)]
    assert folded(records, held, 1, TEXTS) == folded(records, held, 1000, TEXTS)


def test_where_a_stretch_ends() -> None:
    attributes = [5, 5 | 1 << 12, 5 | 1 << 12, 6 | 1 << 12, 6 | 1 << 12]
    assert stretch_end(attributes, 0, 5) == 3
    assert stretch_end(attributes, 0, 2) == 2
    assert stretch_end(attributes, 1, 5) == 3
    assert stretch_end(attributes, 3, 5) == 5


def like(operation: Operation, condition: Condition, **how: int) -> Columns:
    return columns_of(
        [Said(operation, key, b"new", condition=condition, grouped=at > 0, **how) for at, key in enumerate(KEYS)]  # type: ignore[arg-type]
    )


def test_deletes_of_what_is_there_are_a_stretch() -> None:
    held = {key: stored_entry(b"old", 7, 0) for key in KEYS}
    columns = like(Operation.DELETE, Condition.VERSION, version=7)
    assert len(KEYS) >= STRETCH_MIN
    done = decide_stretch(columns, 0, len(KEYS), 100, (), held.get, NOW)
    assert done is not None
    assert done.entries == dict.fromkeys(KEYS)
    assert not done.hints
    held[KEYS[3]] = stored_entry(b"old", 8, 0)
    assert decide_stretch(columns, 0, len(KEYS), 100, (), held.get, NOW) is None


def test_puts_of_what_is_not_there_are_a_stretch() -> None:
    done = decide_stretch(like(Operation.PUT, Condition.ABSENT), 0, len(KEYS), 100, (), nothing_there, NOW)
    assert done is not None
    assert [entry_of(stored) for stored in done.entries.values() if stored is not None] == [
        LiveEntry(b"new", Offset(100 + at), 0) for at in range(len(KEYS))
    ]
    changed = {KEYS[5]: None}
    assert (
        decide_stretch(like(Operation.PUT, Condition.ABSENT), 0, len(KEYS), 100, (changed,), nothing_there, NOW) is None
    )


def test_appends_to_what_is_there_are_a_stretch() -> None:
    held = {key: stored_entry(b"old", 7, 0) for key in KEYS}
    columns = like(Operation.APPEND, Condition.VERSION, version=7)
    done = decide_stretch(columns, 0, len(KEYS), 100, (), held.get, NOW)
    assert done is not None
    assert [entry_of(stored) for stored in done.entries.values() if stored is not None] == [
        LiveEntry(b"oldnew", Offset(100 + at), 0) for at in range(len(KEYS))
    ]
    assert done.results == [(100 + at, b"6") for at in range(len(KEYS))]
    held[KEYS[3]] = stored_entry(b"x" * (VALUE_BYTES_MAX - 2), 7, 0)
    assert decide_stretch(columns, 0, len(KEYS), 100, (), held.get, NOW) is None, "the log says why it is too long"


def test_a_version_that_no_offset_has_is_no_version_with_flags() -> None:
    """The eighth byte of a stored entry holds its flags; a condition's version may have eight bytes."""
    held = {key: stored_entry(b"old", 7, NOW + 5) for key in KEYS}
    columns = like(Operation.DELETE, Condition.VERSION, version=7 | 1 << 56)
    assert decide_stretch(columns, 0, len(KEYS), 100, (), held.get, NOW) is None


def again(operation: Operation, **how: int) -> Columns:
    """Records without a condition on two keys in turn."""
    records = [Said(operation, KEYS[at % 2], b"%d" % at, grouped=True, **how) for at in range(12)]  # type: ignore[arg-type]
    return columns_of(records)


def test_puts_without_a_condition_on_keys_that_repeat_are_a_stretch() -> None:
    """What a pipeline of INCRs on few keys writes behind the first of each."""
    staged = {KEYS[0]: stored_entry(b"old", 90, 0), KEYS[1]: None}
    done = decide_stretch(again(Operation.PUT), 0, 12, 100, (staged, {}), nothing_there, NOW)
    assert done is not None
    assert done.entries == {KEYS[0]: stored_entry(b"10", 110, 0), KEYS[1]: stored_entry(b"11", 111, 0)}
    staged[KEYS[0]] = stored_entry(b"old", 90, NOW + 9)
    assert decide_stretch(again(Operation.PUT), 0, 12, 100, (staged, {}), nothing_there, NOW) is None, "a stale hint"


def test_puts_that_expire_at_one_time_on_keys_that_repeat_are_a_stretch() -> None:
    columns = columns_of(
        [Said(Operation.PUT, KEYS[at % 2], b"v", expiry=Expiry.AT, expiry_ms=NOW + 9, grouped=True) for at in range(12)]
    )
    staged = {KEYS[0]: stored_entry(b"old", 90, NOW + 9)}
    done = decide_stretch(columns, 0, 12, 100, (staged, {}), nothing_there, NOW)
    assert done is not None
    assert done.entries == {KEYS[0]: stored_entry(b"v", 110, NOW + 9), KEYS[1]: stored_entry(b"v", 111, NOW + 9)}
    assert done.hints == {(NOW + 9, KEYS[0]): True, (NOW + 9, KEYS[1]): True}
    staged[KEYS[0]] = stored_entry(b"old", 90, NOW + 8)
    assert decide_stretch(columns, 0, 12, 100, (staged, {}), nothing_there, NOW) is None, "a hint to strike out"


def test_appends_to_keys_that_repeat_are_a_stretch() -> None:
    held = {KEYS[0]: stored_entry(b"a", 90, 0), KEYS[1]: stored_entry(b"", 91, 0)}
    done = decide_stretch(again(Operation.APPEND), 0, 12, 100, (), held.get, NOW)
    assert done is not None
    assert done.entries == {
        KEYS[0]: stored_entry(b"a0246810", 110, 0),
        KEYS[1]: stored_entry(b"1357911", 111, 0),
    }
    assert [int(result) for _, result in done.results] == [2, 1, 3, 2, 4, 3, 5, 4, 6, 5, 8, 7]
    assert [offset for offset, _ in done.results] == list(range(100, 112))
    held[KEYS[1]] = stored_entry(b"x" * (VALUE_BYTES_MAX - 3), 91, 0)
    assert decide_stretch(again(Operation.APPEND), 0, 12, 100, (), held.get, NOW) is None, "too long"
