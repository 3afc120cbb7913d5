"""Entries of ordered indexes are compared with the rows of the same pinned read: one that is wrong is named."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from kit.flight_rows import FLIGHTS, flight, flight_key
from kit.log.stored_log import PARTITION, TABLE, StoredLog, delete, put

from log_tier.model.errors import IndexDamaged, ShuttingDown
from log_tier.model.identifiers import PartitionId
from log_tier.model.record import Expiry
from log_tier.rows.elements import encode_element
from log_tier.rows.finding.conditions import conditions_of
from log_tier.rows.table_index import TableIndex
from serving_tier.index.lmdb.format import BUILDS
from serving_tier.index.lmdb.lmdb_index import LmdbIndex
from serving_tier.service.entry_check import NOTHING_CHECKED, CheckedEntries, WrongEntry, check_entries

BY_TAIL = TableIndex(1, "by_tail", ("tailnum", "dep_delay"))
BY_DELAY = TableIndex(5, "by_delay", ("dep_delay",))
INDEXED = replace(FLIGHTS, indexes=(BY_TAIL, BY_DELAY))


@pytest.fixture
def log() -> StoredLog:
    return StoredLog()


@pytest.fixture
def index(tmp_path: Path, log: StoredLog) -> Iterator[LmdbIndex]:
    opened = LmdbIndex.open(tmp_path / "index", partition=PartitionId(TABLE, PARTITION), definition=INDEXED)
    opened.apply(
        b"".join(
            log.append(put(flight_key("UA", number), flight("UA", number, f"N{number % 3}", float(number))))
            for number in range(20)
        )
    )
    yield opened
    opened.close()


def checked(index: LmdbIndex, **how: int) -> CheckedEntries:
    with index.pinned() as pinned:
        return check_entries(pinned, **how)  # type: ignore[arg-type]


def entry_of(number: int, of: TableIndex = BY_TAIL) -> bytes:
    fields = [encode_element(f"N{number % 3}")] if of is BY_TAIL else []
    return b"".join((of.number.to_bytes(2), *fields, encode_element(float(number)), flight_key("UA", number)))


def change(index: LmdbIndex, entry: bytes, length: bytes | None) -> None:
    """Change one entry behind the index's back, as a bug or a bad disk would."""
    with index._write("ordered") as txn:
        assert txn.delete(entry) if length is None else txn.put(entry, length)


def test_entries_of_a_life_are_right(index: LmdbIndex, log: StoredLog) -> None:
    assert checked(index) == CheckedEntries(40, 0, [])
    random = Random(7)
    for _ in range(60):
        number = random.randrange(20)
        key = flight_key("UA", number)
        said = put(key, flight("UA", number, random.choice([None, "N1"]), random.choice([0.0, float("nan"), 7.5])))
        index.apply(log.append(random.choice([said, said, delete(key)])))
        assert checked(index, check_every=3).wrong == 0
    index.apply(log.append(put(flight_key("UA", 3), flight("UA", 3), expiry=Expiry.TTL, expiry_ms=10)))
    log.time_ms += 50
    with index.pinned() as pinned:
        rows = len(list(pinned.pairs()))
    assert checked(index) == CheckedEntries(2 * rows, 0, []), "an entry of an expired row stays as long as the row"


@pytest.mark.parametrize("of", [BY_TAIL, BY_DELAY], ids=["one index", "another one"])
def test_an_entry_that_is_missing_is_named(index: LmdbIndex, of: TableIndex) -> None:
    change(index, entry_of(7, of), None)
    assert checked(index) == CheckedEntries(40, 1, [WrongEntry(of.name, flight_key("UA", 7), "missing")])


def test_an_entry_that_was_not_removed_is_named(index: LmdbIndex, log: StoredLog) -> None:
    """As a bug leaves it that does not remove what a row had before; and one whose row is gone."""
    stale = entry_of(7)
    index.apply(log.append(put(flight_key("UA", 7), flight("UA", 7, "N9", 7.0))))
    change(index, stale, len(flight_key("UA", 7)).to_bytes(2))
    assert checked(index) == CheckedEntries(40, 1, [WrongEntry("by_tail", flight_key("UA", 7), "stale")])
    index.apply(log.append(delete(flight_key("UA", 7))))
    assert checked(index) == CheckedEntries(38, 1, [WrongEntry("by_tail", flight_key("UA", 7), "stale")])


def test_one_that_is_missing_does_not_hide_one_that_is_stale(index: LmdbIndex) -> None:
    change(index, entry_of(7), None)
    change(index, entry_of(8)[:-1] + b"x", len(flight_key("UA", 8)).to_bytes(2))
    found = checked(index)
    assert (found.entries, found.wrong) == (40, 2)
    assert [each.problem for each in found.named] == ["missing", "stale"]


def test_an_entry_that_names_no_key_is_both(index: LmdbIndex) -> None:
    with index._write("ordered") as txn:
        assert txn.replace(entry_of(7), b"\0\0") == len(flight_key("UA", 7)).to_bytes(2)
    found = checked(index)
    assert [(each.key, each.problem) for each in found.named] == [(flight_key("UA", 7), "missing"), (b"", "stale")]


def test_an_index_that_is_being_built_is_left_out(index: LmdbIndex) -> None:
    change(index, entry_of(7), None)
    with index._write("meta") as txn:
        txn.put(BUILDS, b'{"building":{"1":""},"dropped":[]}')
    assert checked(index) == CheckedEntries(20, 0, [])


def test_so_many_are_named_and_all_are_counted(index: LmdbIndex) -> None:
    for number in range(20):
        change(index, entry_of(number), None)
    found = checked(index, named_max=3)
    assert (found.entries, found.wrong, len(found.named)) == (40, 20, 3)


def test_a_row_that_is_none_is_damage(index: LmdbIndex) -> None:
    with index._write("data") as txn:
        txn.put(flight_key("UA", 1), txn.get(flight_key("UA", 1))[:8] + b"\0\0\0\0\x09")
    with pytest.raises(IndexDamaged, match="no row of the table"):
        checked(index)


def test_a_check_that_nobody_wants_any_more_ends(index: LmdbIndex) -> None:
    left = [3]

    def check() -> None:
        left[0] -= 1
        if not left[0]:
            raise ShuttingDown("nobody wants it")

    with index.pinned() as pinned, pytest.raises(ShuttingDown):
        check_entries(pinned, check=check, check_every=5)
    assert left == [0]


def test_a_table_of_bytes_has_none(tmp_path: Path, log: StoredLog) -> None:
    plain = LmdbIndex.open(tmp_path / "plain", partition=PartitionId(TABLE, PARTITION))
    plain.apply(log.append(put(b"k", b"v")))
    assert checked(plain) == NOTHING_CHECKED
    plain.close()


def test_an_index_of_some_rows_is_judged_by_its_conditions(tmp_path: Path, log: StoredLog) -> None:
    """A row that meets them and has no entry, and one that has an entry and does not meet them."""
    late = TableIndex(2, "late", ("tailnum",), conditions_of({"dep_delay": (10.0, None)}, FLIGHTS))
    place = PartitionId(TABLE, PARTITION)
    opened = LmdbIndex.open(tmp_path / "late", partition=place, definition=replace(FLIGHTS, indexes=(late,)))
    with closing(opened):
        for number in range(20):
            opened.apply(log.append(put(flight_key("UA", number), flight("UA", number, "N1", float(number)))))
        assert checked(opened) == CheckedEntries(10, 0, [])
        met, unmet = (b"\0\2" + encode_element("N1") + flight_key("UA", number) for number in (12, 3))
        change(opened, met, None)
        change(opened, unmet, len(flight_key("UA", 3)).to_bytes(2))
        wrong = [WrongEntry("late", flight_key("UA", 12), "missing"), WrongEntry("late", flight_key("UA", 3), "stale")]
        assert checked(opened) == CheckedEntries(10, 2, wrong)


def test_two_rows_with_a_value_of_a_unique_index_are_named(tmp_path: Path, log: StoredLog) -> None:
    """As a replica would have them whose index was not looked at."""
    alone = TableIndex(1, "alone", ("carrier", "tailnum"), unique=True)
    definition = replace(FLIGHTS, indexes=(alone,))
    index = LmdbIndex.open(tmp_path / "unique", partition=PartitionId(TABLE, PARTITION), definition=definition)
    index.apply(
        log.append(
            put(flight_key("UA", 1), flight("UA", 1, "N1")),
            put(flight_key("UA", 2), flight("UA", 2, "N2")),
            put(flight_key("UA", 3), flight("UA", 3, None)),
            put(flight_key("UA", 4), flight("UA", 4, None)),
            put(flight_key("UA", 5), flight("UA", 5, "N2"), expiry=Expiry.TTL, expiry_ms=0),
        )
    )
    assert checked(index) == CheckedEntries(4, 0, [])
    with index._write("data") as txn:
        stored = txn.get(flight_key("UA", 1))
        txn.put(flight_key("UA", 9), stored[:8] + flight("UA", 9, "N1"))
    number, value = alone.number.to_bytes(2), encode_element("UA") + encode_element("N1")
    change(index, number + value + flight_key("UA", 9), len(flight_key("UA", 9)).to_bytes(2))
    assert checked(index) == CheckedEntries(5, 1, [WrongEntry("alone", flight_key("UA", 9), "doubled")])
    index.close()
