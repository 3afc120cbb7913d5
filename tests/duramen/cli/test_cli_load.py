"""`duramen load`: counts, errors, and a kill in the middle."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from kit.client.command_line import run_here
from kit.client.server_process import ServerProcess
from kit.deadlines import patience_s, wait_until
from kit.warm.warm_process import WarmProcess

from duramen.blocking import Database

pytestmark = pytest.mark.embedded_log_only

ROWS = 60_000


@pytest.fixture
def rows_csv(tmp_path: Path) -> Path:
    path = tmp_path / "rows.csv"
    path.write_text("id,n\n" + "".join(f"key{number:06},{number}\n" for number in range(ROWS)))
    return path


def records(database: Database, table: str) -> int:
    return sum(part.latest + 1 for part in database.describe_table(table).partitions)


def test_load_and_load_again(server: ServerProcess, table_name: str, rows_csv: Path) -> None:
    first = run_here("load", table_name, str(rows_csv), "-k", "id", "--create", "-p", "3", at=server.target)
    assert first.returncode == 0, first.stderr
    assert first.stdout.startswith(f"wrote {ROWS:,} rows to {table_name} in ")
    again = run_here("load", table_name, str(rows_csv), "-k", "id", "--json", at=server.target)
    summary = json.loads(again.stdout)
    assert (summary["written"], summary["skipped"], summary["rejected"]) == (0, ROWS, 0)
    got = run_here("get", table_name, "key000007", "--after", summary["token"], at=server.target)
    assert got.stdout == '{"id":"key000007","n":"7"}\n'


def test_a_killed_load_goes_on_and_writes_each_row_once(
    server: ServerProcess, database: Database, table_name: str, rows_csv: Path
) -> None:
    database.create_table(table_name, partitions=3)
    command = [sys.executable, "-m", "duramen", "load", table_name, str(rows_csv), "-k", "id", "--at", server.target]
    process = WarmProcess(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_until(
            lambda: records(database, table_name) > 0 or process.poll() is not None, what="the load has begun to write"
        )
    finally:
        process.kill()
        process.wait(patience_s(30))
    before = records(database, table_name)
    done = run_here("load", table_name, str(rows_csv), "-k", "id", "--json", at=server.target)
    summary = json.loads(done.stdout)
    assert summary["written"] + summary["skipped"] == ROWS
    assert summary["skipped"] >= before > 0
    found = list(database.table(table_name).scan(after=summary["token"]))
    assert [key for key, _ in found] == [b"key%06d" % number for number in range(ROWS)]


def test_a_bad_row(server: ServerProcess, table_name: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.csv"
    path.write_text("id,n\na,1\nb,2,3\nc,3\n")
    arguments = ["load", table_name, str(path), "--key", "id", "--create"]
    stopped = run_here(*arguments, at=server.target)
    assert stopped.returncode == 1
    assert stopped.stdout == ""
    assert stopped.stderr.startswith(f"error: row 2 of {path} (line 3, column 'n'): the row has 3 fields")
    assert "rows before it that are in the table: 1 (1 by this run, 0 by earlier ones)" in stopped.stderr
    problem = json.loads(run_here(*arguments, "--json", at=server.target).stderr)
    assert problem["error"] == "row_refused"
    assert problem["fields"] == {
        "file": str(path),
        "row": 2,
        "line": 3,
        "column": "n",
        "written": 0,
        "skipped": 1,
    }
    skipped = run_here(*arguments, "--skip-bad", at=server.target)
    assert skipped.returncode == 0
    assert f"rejected 1 row: see {path}.rejects.jsonl" in skipped.stdout
    assert json.loads(Path(f"{path}.rejects.jsonl").read_text())["row"] == 2
    assert run_here("scan", table_name, "--keys", "--level", "strong", at=server.target).stdout == "a\nc\n"


@pytest.mark.parametrize(
    ("content", "arguments", "code", "message"),
    [
        ("id\na\n", ["--key", "nope"], 1, "no column 'nope'"),
        ("", ["--key", "id"], 1, "is empty"),
        ("id\na\n", [], 2, "say which columns are the key: --key COLUMN"),
        ("id\na\n", ["--key", "id", "--format", "xml"], 2, "xml"),
        ("id\na\n", ["--key", "id", "--delimiter", ""], 2, "delimiter"),
        ("id\na\n", ["--key", "id", "--format", "parquet"], 1, "no Parquet file"),
    ],
)
def test_loads_that_cannot_begin(
    server: ServerProcess,
    database: Database,
    table_name: str,
    tmp_path: Path,
    content: str,
    arguments: list[str],
    code: int,
    message: str,
) -> None:
    database.create_table(table_name, partitions=1)
    path = tmp_path / "rows.csv"
    path.write_text(content)
    done = run_here("load", table_name, str(path), *arguments, at=server.target)
    assert done.returncode == code
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert records(database, table_name) == 0


def test_a_table_that_is_missing(server: ServerProcess, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("id\na\n")
    done = run_here("load", "no-such-table", str(path), "-k", "id", at=server.target)
    assert done.returncode == 3
    assert "no table 'no-such-table'" in done.stderr
