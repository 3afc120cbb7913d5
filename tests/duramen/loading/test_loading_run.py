"""Whole loads into an embedded database: counted, resumed, refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import duramen
from duramen.blocking import Database, Table, TableWriter
from duramen.loading import FileChanged, FileRefused, LoadOptions, LoadProgress, RejectsFile, RowRefused, load_file
from duramen.loading.rows import CHUNK_ROWS
from log_tier.model.errors import TableNotFound

pytestmark = pytest.mark.embedded_log_only  # a load is a client's writes

ID = LoadOptions(key_columns=("id",))
ROWS = 3 * CHUNK_ROWS + 11


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Database]:
    with duramen.open(tmp_path / "db") as database:
        yield database


@pytest.fixture
def table(opened: Database) -> Table:
    return opened.create_table("rows", partitions=4)


@pytest.fixture
def rows_csv(tmp_path: Path) -> Path:
    path = tmp_path / "rows.csv"
    path.write_text("id,n\n" + "".join(f"k{number},{number}\n" for number in range(ROWS)))
    return path


def records(table: Table) -> int:
    """How many records the table's log holds."""
    return sum(part.latest + 1 for part in table.describe().partitions)


def test_every_row_is_there_and_a_second_run_writes_none(table: Table, rows_csv: Path) -> None:
    seen: list[LoadProgress] = []
    first = load_file(table, rows_csv, "csv", ID, progress=seen.append)
    assert (first.written, first.skipped, first.rejected) == (ROWS, 0, 0)
    assert seen[-1].rows == ROWS
    assert seen[-1].position == seen[-1].size == rows_csv.stat().st_size
    found = dict(table.scan(after=first.token))
    assert len(found) == ROWS
    assert all(json.loads(value) == {"id": key.decode(), "n": key[1:].decode()} for key, value in found.items())
    second = load_file(table, rows_csv, "csv", ID)
    assert (second.written, second.skipped) == (0, ROWS)
    assert second.token == first.token
    assert records(table) == ROWS


def test_an_interrupted_load_goes_on(table: Table, rows_csv: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0
    put_rows = TableWriter.put_rows

    def interrupted(self: TableWriter, rows: object) -> None:
        nonlocal calls
        calls += 1
        put_rows(self, rows)  # type: ignore[arg-type]
        self.flush()
        if calls == 2:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(TableWriter, "put_rows", interrupted)
        with pytest.raises(KeyboardInterrupt):
            load_file(table, rows_csv, "csv", ID)
    summary = load_file(table, rows_csv, "csv", ID)
    assert (summary.written, summary.skipped) == (ROWS - 2 * CHUNK_ROWS, 2 * CHUNK_ROWS)
    assert records(table) == ROWS


def test_other_content_options_or_table_are_another_load(opened: Database, table: Table, rows_csv: Path) -> None:
    load_file(table, rows_csv, "csv", ID)
    assert load_file(table, rows_csv, "csv", LoadOptions(("id",), numbers=True)).written == ROWS
    opened.drop_table("rows")
    again = opened.create_table("rows", partitions=4)
    assert load_file(again, rows_csv, "csv", ID).written == ROWS
    rows_csv.write_text(rows_csv.read_text() + "last,1\n")
    assert load_file(again, rows_csv, "csv", ID).written == ROWS + 1


def test_a_bad_row_ends_the_load_with_an_exact_account(table: Table, rows_csv: Path, tmp_path: Path) -> None:
    lines = rows_csv.read_text().splitlines(keepends=True)
    bad = CHUNK_ROWS + 100  # a row number, from 1
    lines[bad] = "k,too,many\n"
    lines[bad + 10] = ",1\n"
    rows_csv.write_text("".join(lines))
    with pytest.raises(RowRefused) as caught:
        load_file(table, rows_csv, "csv", ID)
    error = caught.value
    assert error.fields == {
        "file": str(rows_csv),
        "row": bad,
        "line": bad + 1,
        "column": "n",
        "written": bad - 1,
        "skipped": 0,
    }
    assert f"rows before it that are in the table: {bad - 1} (" in error.message
    assert "--skip-bad" in error.message
    assert records(table) == bad - 1
    assert len(list(table.scan())) == bad - 1

    listed = tmp_path / "rejects.jsonl"
    with RejectsFile(listed) as rejects:
        summary = load_file(table, rows_csv, "csv", ID, rejects=rejects)
    assert (summary.written, summary.skipped, summary.rejected) == (ROWS - 2 - (bad - 1), bad - 1, 2)
    assert records(table) == ROWS - 2
    assert [json.loads(line) for line in listed.read_text().splitlines()] == [
        {
            "row": bad,
            "line": bad + 1,
            "column": "n",
            "reason": "the row has 3 fields, the header has 2",
            "text": "k,too,many",
        },
        {"row": bad + 10, "line": bad + 11, "column": "id", "reason": "the key is empty", "text": ",1"},
    ]


def test_no_rejects_no_rejects_file(table: Table, rows_csv: Path, tmp_path: Path) -> None:
    listed = tmp_path / "rejects.jsonl"
    with RejectsFile(listed) as rejects:
        load_file(table, rows_csv, "csv", ID, rejects=rejects)
    assert not listed.exists()


def test_a_file_that_grows_while_it_is_loaded(table: Table, rows_csv: Path) -> None:
    grown = False

    def grow(_: LoadProgress) -> None:
        nonlocal grown
        if not grown:
            grown = True
            with rows_csv.open("a") as file:
                file.write("late,1\n")

    with pytest.raises(FileChanged, match="changed while it was loaded"):
        load_file(table, rows_csv, "csv", ID, progress=grow)


def test_a_table_whose_keys_have_fields_is_refused_before_anything_is_written(opened: Database, tmp_path: Path) -> None:
    """Its records would be void, and counted as written."""
    opened.create_table("days", key={"day": str, "number": int}, value="json", partitions=1)
    days = opened.table("days")
    path = tmp_path / "days.csv"
    path.write_text("day,number\nmonday,1\n")
    with pytest.raises(FileRefused, match="the keys of that table have fields"):
        load_file(days, path, "csv", LoadOptions(key_columns=("day",)))
    assert records(days) == 0


def test_a_failure_of_the_table_carries_the_account_too(opened: Database, rows_csv: Path) -> None:
    with pytest.raises(TableNotFound):
        load_file(opened.table("nowhere"), rows_csv, "csv", ID)
    table = opened.create_table("dropped", partitions=1)

    def drop(progress: LoadProgress) -> None:
        if progress.rows == CHUNK_ROWS:
            opened.drop_table("dropped")

    with pytest.raises(TableNotFound) as caught:
        load_file(table, rows_csv, "csv", ID, progress=drop)
    assert caught.value.fields["written"] == 0
    assert "rows before it that are in the table: 0 (" in caught.value.message
