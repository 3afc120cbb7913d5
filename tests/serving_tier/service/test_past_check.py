"""A change without its past entry is found, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kit.log.stored_log import PARTITION, TABLE, StoredLog, delete, put

from log_tier.model.identifiers import PartitionId
from log_tier.model.kept_history import KeptHistory
from log_tier.rows.definition import TableDefinition
from serving_tier.index.lmdb.lmdb_index import LmdbIndex
from serving_tier.index.number_keys import number_key
from serving_tier.service.entry_check import CheckedEntries
from serving_tier.service.past_check import PAST, check_past

Opened = Callable[[KeptHistory | None], LmdbIndex]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    made: list[LmdbIndex] = []

    def make(keeps: KeptHistory | None) -> LmdbIndex:
        definition = None if keeps is None else TableDefinition(keeps=keeps)
        made.append(LmdbIndex.open(tmp_path / "index", partition=PartitionId(TABLE, PARTITION), definition=definition))
        return made[-1]

    yield make
    for index in made:
        index.close()


def checked(index: LmdbIndex) -> CheckedEntries:
    with index.pinned() as pinned:
        return check_past(pinned)


def folded(index: LmdbIndex) -> None:
    log = StoredLog()
    for number in range(4):
        index.apply(log.append(put(b"a", b"%d" % number), put(b"b%d" % number, b"1"), later_ms=40))
        index.apply(log.append(delete(b"b0"), later_ms=10))


@pytest.mark.parametrize("keeps", [KeptHistory(), KeptHistory(versions=2), KeptHistory(age_ms=90)], ids=str)
def test_a_whole_past(opened: Opened, keeps: KeptHistory) -> None:
    index = opened(keeps)
    folded(index)
    found = checked(index)
    assert found.entries > 3
    assert (found.wrong, found.named) == (0, [])


def test_a_table_without_one(opened: Opened) -> None:
    index = opened(None)
    folded(index)
    assert checked(index).entries == 0


@pytest.mark.parametrize("lost", [0, 3, 9])
def test_what_is_lost_is_named(opened: Opened, lost: int) -> None:
    """The first entry of a key, one in the middle, and the newest."""
    index = opened(KeptHistory())
    folded(index)
    with index.pinned() as pinned:
        entry = pinned.past_entry(lost)  # type: ignore[arg-type]
    assert entry is not None
    with index._write() as txn:
        txn.delete(number_key(lost), db=index._databases.history)
        txn.delete(entry.key, number_key(lost), db=index._databases.past)
    found = checked(index)
    assert (found.wrong, [(each.index, each.key, each.problem) for each in found.named]) == (
        1,
        [(PAST, entry.key, "missing")],
    )
