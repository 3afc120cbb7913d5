"""The page of a table: what the server notes, a reader sees."""

from __future__ import annotations

import asyncio
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from log_tier.model.identifiers import NOTHING, Offset, Partition, TableId
from log_tier.model.table_ref import TableRef
from router.endpoints.resp.data.floors import Floors
from router.endpoints.resp.data.freshness_page import FreshnessPage, FreshnessPages
from router.endpoints.resp.data.openings import OPENED_MAX, Openings
from router.endpoints.resp.data.served_tables import ServedTable
from router.endpoints.resp.data.value_cache import CacheBudget
from router.endpoints.resp.readers.reader_table import ReaderTable, ReaderTables
from serving_tier.index.lmdb.lmdb_index import LmdbIndex
from serving_tier.index.lmdb.shared_reader import IndexReader

REF = TableRef(TableId("BBBBBBBBBBBBBBBBBBBBBA"), "flights", 4)


@pytest.fixture
def pages() -> Iterator[FreshnessPages]:
    made = FreshnessPages(2)
    yield made
    made.close()
    assert not made.folder.exists()


class LaterTurns:
    """An event loop that begins its next turn when it is asked to."""

    def __init__(self) -> None:
        self._scheduled: list[Callable[[], None]] = []

    def call_soon(self, callback: Callable[[], None], /) -> object:
        self._scheduled.append(callback)
        return None

    def turn(self) -> None:
        scheduled, self._scheduled = self._scheduled, []
        for callback in scheduled:
            callback()


def described(pages: FreshnessPages) -> tuple[FreshnessPage, ReaderTable]:
    page = pages.make(REF)
    assert page is not None
    page.describe([None] * 4)
    return page, found(pages, page)


def found(pages: FreshnessPages, page: FreshnessPage) -> ReaderTable:
    """The table as a reader that comes now finds it."""
    table = ReaderTables(pages.folder, Openings(LaterTurns().call_soon)).at(page.number)
    assert table is not None
    return table


async def test_indexes_that_leave_together_are_described_once(
    pages: FreshnessPages, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Readers stop at the first of them; what follows is written for all."""
    page, table = described(pages)
    served = ServedTable(REF, None, CacheBudget(0), Floors(4, page))
    written: list[int] = []
    describe = FreshnessPage.describe

    def counted(mine: FreshnessPage, indexes: Sequence[Path | None]) -> None:
        written.append(len(indexes))
        describe(mine, indexes)

    monkeypatch.setattr(FreshnessPage, "describe", counted)
    for _ in range(2):
        assert table.is_current
        for _ in range(4):
            served.replica_left()
            assert not table.is_current
        assert written == []
        await asyncio.sleep(0)
        assert written == [4]
        written.clear()
        table = found(pages, page)


def test_a_new_page_asks_for_nothing(pages: FreshnessPages) -> None:
    _, table = described(pages)
    assert table.is_current
    assert (table.partitions, list(table.replicas)) == (4, [None] * 4)
    assert table.needed(Partition(1), [b"a", b"b"]) == NOTHING


def test_what_was_acknowledged_is_needed(pages: FreshnessPages) -> None:
    page, table = described(pages)
    page.wrote([b"k", b"{k}2"], Offset(7))
    assert table.needed(table.partition_of(b"k"), [b"k"]) == 7
    assert table.needed(table.partition_of(b"k"), [b"other", b"{k}3"]) == 7, "one slot"
    page.wrote([b"k"], Offset(9))
    assert table.fresh[0].get(b"k", NOTHING) == 9
    page.raise_floor(Partition(2), Offset(5))
    page.raise_floor(Partition(2), Offset(4))
    assert list(table.floor) == [NOTHING, NOTHING, 5, NOTHING]
    assert table.needed(Partition(2), [b"z"]) == 5


def test_another_generation_ends_the_one_before(pages: FreshnessPages, tmp_path: Path) -> None:
    page, table = described(pages)
    tables = ReaderTables(pages.folder, Openings(LaterTurns().call_soon))
    first = tables.at(page.number)
    assert first is tables.at(page.number)
    page.describe([tmp_path / "nowhere", None, None, None])
    assert first is not None
    assert not first.is_current
    assert not table.is_current
    second = tables.at(page.number)
    assert second is not None
    assert second is not first
    assert second.is_current
    assert list(second.replicas) == [None] * 4, "a folder that holds no index is not read"
    page.close()
    page.close()
    assert not second.is_current
    assert tables.at(page.number) is None
    page.wrote([b"k"], Offset(1))
    page.raise_floor(Partition(0), Offset(1))


def test_a_turn_opens_few_files(pages: FreshnessPages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader process opened the files of all partitions in the turn in which it met the table."""
    opened: list[Path] = []
    original = IndexReader.open

    def counted(path: Path, **how: Any) -> IndexReader:
        opened.append(path)
        return original(path, **how)

    monkeypatch.setattr(IndexReader, "open", counted)
    ref = TableRef(REF.id, "flights", 12)
    paths = [tmp_path / str(number) for number in range(ref.partitions)]
    for number, path in enumerate(paths):
        LmdbIndex.open(path, partition=ref.partition(number)).close()
    page = pages.make(ref)
    assert page is not None
    page.describe(paths)
    turns = LaterTurns()
    tables = ReaderTables(pages.folder, Openings(turns.call_soon))
    table = tables.at(page.number)
    assert table is not None
    assert opened == [], "a file is opened when a key of its partition is read"
    assert table.replicas[3] is not None
    assert table.replicas[3] is table.replicas[3]
    assert opened == [paths[3]]
    for expected in (OPENED_MAX, 2 * OPENED_MAX, 3 * OPENED_MAX):
        assert sum(replica is not None for replica in table.replicas) == len(opened) == expected
        turns.turn()
    tables.close()
    assert list(table.replicas) == [None] * 12, "LMDB must not have a file open twice"


def test_a_file_that_is_made_later_is_read_then(pages: FreshnessPages, tmp_path: Path) -> None:
    """An index that nobody has used yet has no file; its path is known already."""
    page = pages.make(REF)
    assert page is not None
    page.describe([tmp_path / "new", None, None, None])
    turns = LaterTurns()
    tables = ReaderTables(pages.folder, Openings(turns.call_soon))
    table = tables.at(page.number)
    assert table is not None
    assert table.replicas[0] is None
    assert not (tmp_path / "new").exists()
    LmdbIndex.open(tmp_path / "new", partition=REF.partition(0)).close()
    turns.turn()
    assert table.replicas[0] is not None
    assert table.is_current
    tables.close()


def test_a_description_of_another_generation_is_not_believed(pages: FreshnessPages) -> None:
    """The server has raised the generation, and its new description is not there yet."""
    page, _ = described(pages)
    page._cells[1] += 1
    assert ReaderTables(pages.folder, Openings(LaterTurns().call_soon)).at(page.number) is None


def test_tables_whose_partitions_follow_from_something_else(pages: FreshnessPages) -> None:
    assert pages.make(TableRef(REF.id, "theirs", 4, "murmur2", over="theirs")) is None


def test_nobody_else_may_look(pages: FreshnessPages) -> None:
    assert stat.S_IMODE(pages.folder.stat().st_mode) == 0o700


def test_what_a_killed_server_left_is_removed_by_the_next(pages: FreshnessPages) -> None:
    program = (
        "import os, sys; from router.endpoints.resp.data.freshness_page import FreshnessPages; "
        "print(FreshnessPages(1).folder); sys.stdout.flush(); os._exit(9)"
    )
    killed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    left = Path(killed.stdout.strip())
    assert left.exists()
    another = FreshnessPages(1)
    assert not left.exists()
    assert pages.folder.exists(), "that one's server lives"
    another.close()
    another.close()


def test_the_tally(pages: FreshnessPages) -> None:
    pages.tally.cells[0] += 3
    pages.tally.cells[1] += 4
    assert pages.tally.total() == 7
