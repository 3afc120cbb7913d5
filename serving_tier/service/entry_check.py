"""Are the entries of a replica's ordered indexes those of its rows? All of both are read, at one offset.

A row and its entries are written in one transaction, so a difference is damage, or a bug of ours. It shows in no digest
of rows and in no get; a find by that index misses rows, or comes upon an entry that has none.

Pure but for the pinned read. Some 1.5 µs for a row, and as much for each of its entries: run it in a thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final, Literal, NamedTuple, TypeVar

from log_tier.rows.index_entries import IndexEntries, has_null
from log_tier.rows.table_index import INDEX_NUMBER_BYTES, TableIndex
from serving_tier.fold.entry import is_live
from serving_tier.fold.index_changes import KEY_LENGTH_BYTES, entries_of_stored
from serving_tier.index.lmdb.pinned_read import PinnedRead

__all__ = ["NOTHING_CHECKED", "WRONG_NAMED_MAX", "CheckedEntries", "WrongEntry", "check_entries", "checking"]

WRONG_NAMED_MAX: Final = 100
"""What is named. Where more entries are wrong, the replica is to be built anew and not to be studied."""

_CHECK_EVERY: Final = 4096

_T = TypeVar("_T")


EntryProblem = Literal["missing", "stale", "doubled"]


@dataclass(frozen=True, slots=True)
class WrongEntry:
    """An entry that is not as the rows have it."""

    index: str
    key: bytes
    """Of its row."""
    problem: EntryProblem
    """`missing`: the row is there and the entry is not. `stale`: the entry is there, and no such row. `doubled`: the
    index is unique, and another row has the same values."""


class CheckedEntries(NamedTuple):
    """What a look at all entries came to."""

    entries: int
    """How many there should be, in those indexes that the file holds whole."""
    wrong: int
    named: Sequence[WrongEntry]
    """The first ones of those that are wrong."""


NOTHING_CHECKED: Final = CheckedEntries(0, 0, ())


def check_entries(
    pinned: PinnedRead,
    *,
    check: Callable[[], None] = lambda: None,
    check_every: int = _CHECK_EVERY,
    named_max: int = WRONG_NAMED_MAX,
) -> CheckedEntries:
    """Compare the entries of a pinned read with its rows, the expired ones included: an entry stays as long as its row
    is stored. An index that is still being built is left out. `check` is called every `check_every` rows or entries and
    may raise. Raises `IndexDamaged`.
    """
    definition, builds = pinned.definition()
    rows = None if definition is None else definition.judge.entries
    if definition is None or rows is None:
        return NOTHING_CHECKED
    whole = {
        each.number.to_bytes(INDEX_NUMBER_BYTES): each
        for each in definition.indexes
        if each.number not in builds.building
    }
    wrong = _Wrong(named_max)
    due, missing = dict.fromkeys(whole, 0), dict.fromkeys(whole, 0)
    for key, stored in checking(pinned.pairs(), check, check_every):
        length = len(key).to_bytes(KEY_LENGTH_BYTES)
        for entry in entries_of_stored(key, stored, rows):
            number = entry[:INDEX_NUMBER_BYTES]
            if number not in whole:
                continue
            due[number] += 1
            if pinned.entry(entry) != length:
                missing[number] += 1
                wrong.add(whole[number].name, key, "missing")
    for number, index in whole.items():
        there = sum(1 for _ in checking(pinned.entries(index), check, check_every))
        if there != due[number] - missing[number]:
            _name_stale(pinned, index, rows, wrong, check, check_every)
        if index.unique:
            _name_doubled(pinned, index, wrong, check, check_every)
    return CheckedEntries(sum(due.values()), wrong.count, wrong.named)


def _name_stale(
    pinned: PinnedRead,
    index: TableIndex,
    rows: IndexEntries,
    wrong: _Wrong,
    check: Callable[[], None],
    check_every: int,
) -> None:
    for entry, length in checking(pinned.entries(index), check, check_every):
        key = entry[len(entry) - int.from_bytes(length) :]
        stored = pinned.stored(key) if key else None
        if stored is None or entry not in entries_of_stored(key, stored, rows):
            wrong.add(index.name, key, "stale")


def _name_doubled(
    pinned: PinnedRead, index: TableIndex, wrong: _Wrong, check: Callable[[], None], check_every: int
) -> None:
    """Rows with the same values are neighbours in the index. One that has expired has none."""
    before, held = b"", False
    for entry, length in checking(pinned.entries(index), check, check_every):
        place = len(entry) - int.from_bytes(length)
        value, key = entry[:place], entry[place:]
        if value != before:
            before, held = value, False
        if has_null(value):
            continue
        stored = pinned.stored(key) if key else None
        if stored is not None and is_live(stored, pinned.log_time_ms):
            if held:
                wrong.add(index.name, key, "doubled")
            held = True


def checking(items: Iterator[_T], check: Callable[[], None], check_every: int) -> Iterator[_T]:
    """The items; `check` is called before each run of `check_every` of them."""
    while some := list(islice(items, check_every)):
        check()
        yield from some


class _Wrong:
    def __init__(self, named_max: int) -> None:
        self.count = 0
        self.named: list[WrongEntry] = []
        self._named_max = named_max

    def add(self, index: str, key: bytes, problem: EntryProblem) -> None:
        self.count += 1
        if len(self.named) < self._named_max:
            self.named.append(WrongEntry(index, key, problem))
