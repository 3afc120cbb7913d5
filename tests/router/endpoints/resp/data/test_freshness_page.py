"""The page of a table: what the server notes, a reader sees."""

from __future__ import annotations

import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from log_tier.model.identifiers import NOTHING, Offset, Partition, TableId
from log_tier.model.table_ref import TableRef
from router.endpoints.resp.data.freshness_page import FreshnessPage, FreshnessPages
from router.endpoints.resp.readers.reader_table import ReaderTable, ReaderTables

REF = TableRef(TableId("BBBBBBBBBBBBBBBBBBBBBA"), "flights", 4)


@pytest.fixture
def pages() -> Iterator[FreshnessPages]:
    made = FreshnessPages(2)
    yield made
    made.close()
    assert not made.folder.exists()


def described(pages: FreshnessPages) -> tuple[FreshnessPage, ReaderTable]:
    page = pages.make(REF)
    assert page is not None
    page.describe([None] * 4)
    table = ReaderTables(pages.folder).at(page.number)
    assert table is not None
    return page, table


def test_a_new_page_asks_for_nothing(pages: FreshnessPages) -> None:
    _, table = described(pages)
    assert table.is_current
    assert (table.partitions, table.replicas) == (4, [None] * 4)
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
    tables = ReaderTables(pages.folder)
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
    assert second.replicas == [None] * 4, "a folder that holds no index is not read"
    page.close()
    page.close()
    assert not second.is_current
    assert tables.at(page.number) is None
    page.wrote([b"k"], Offset(1))
    page.raise_floor(Partition(0), Offset(1))


def test_a_description_of_another_generation_is_not_believed(pages: FreshnessPages) -> None:
    """The server has raised the generation, and its new description is not there yet."""
    page, _ = described(pages)
    page._cells[1] += 1
    assert ReaderTables(pages.folder).at(page.number) is None


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
