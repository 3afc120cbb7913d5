"""`duramen load` and `duramen export` of a table of rows: files of every format, both ways, and what is refused."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
from kit.client.command_line import run_here
from kit.client.server_process import ServerProcess

SCHEMA = {
    "type": "record",
    "name": "Departure",
    "fields": [
        {"name": "carrier", "type": "string"},
        {"name": "flight", "type": "int"},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "gate", "type": ["null", "string"], "default": None},
        {"name": "price", "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}]},
        {"name": "legs", "type": {"type": "array", "items": "string"}},
    ],
}

CSV = """carrier,flight,day,gate,price,legs
AA,1,2013-01-01,,,"[""JFK"",""LAX""]"
UA,1545,2013-01-01,"",9.90,[]
UA,1546,2013-01-02,B7,-1.05,[]
"""

ROWS = [
    {"carrier": "AA", "flight": 1, "day": "2013-01-01", "gate": None, "price": None, "legs": ["JFK", "LAX"]},
    {"carrier": "UA", "flight": 1545, "day": "2013-01-01", "gate": "", "price": "9.90", "legs": []},
    {"carrier": "UA", "flight": 1546, "day": "2013-01-02", "gate": "B7", "price": "-1.05", "legs": []},
]

Duramen = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def command(server: ServerProcess) -> Duramen:
    def command(*arguments: str | Path, code: int = 0) -> subprocess.CompletedProcess[str]:
        done = run_here(*map(str, arguments), at=server.target)
        assert done.returncode == code, done.stderr
        return done

    return command


@pytest.fixture
def departures(command: Duramen, table_name: str, tmp_path: Path) -> str:
    schema = tmp_path / "departure.avsc"
    schema.write_text(json.dumps(SCHEMA))
    command("table", "create", table_name, "-p", "2", "--schema", schema, "--key", "carrier,flight")
    return table_name


def rows_of(command: Duramen, table: str) -> list[Any]:
    return [json.loads(line) for line in command("scan", table, "--level", "strong").stdout.splitlines()]


@pytest.mark.parametrize(
    "name", ["rows.csv", "rows.csv.gz", "rows.jsonl", "rows.jsonl.gz", "rows.parquet", "rows.arrow"]
)
def test_a_file_goes_in_and_comes_out(command: Duramen, departures: str, tmp_path: Path, name: str) -> None:
    first, file = tmp_path / "first.csv", tmp_path / name
    first.write_text(CSV)
    done = command("load", departures, first)
    assert done.stdout.startswith(f"wrote 3 rows to {departures}")
    assert rows_of(command, departures) == ROWS
    done = command("export", departures, file, "--json")
    assert json.loads(done.stdout)["rows"] == 3
    content = file.read_bytes()
    for key in (["AA", "1"], ["UA", "1545"]):
        command("delete", departures, *key)
    summary = json.loads(command("load", departures, file, "--json").stdout)
    assert (summary["written"], summary["rejected"]) == (3, 0)
    assert rows_of(command, departures) == ROWS
    assert json.loads(command("load", departures, file, "--json").stdout)["skipped"] == 3
    again = tmp_path / f"again.{name.partition('.')[2]}"
    command("export", departures, again)
    assert again.read_bytes() == content


def test_a_line_that_does_not_fit_is_named(command: Duramen, departures: str, tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text(CSV.replace("1546", "many").replace("-1.05", "1.005"))
    failed = command("load", departures, file, code=1)
    assert "row 3" in failed.stderr
    assert "(line 4, column 'flight'): the field flight is \"many\", expected an int" in failed.stderr
    assert "rows before it that are in the table: 2" in failed.stderr
    done = command("load", departures, file, "--skip-bad", "--json")
    summary = json.loads(done.stdout)
    assert (summary["skipped"], summary["rejected"]) == (2, 1)
    (reject,) = [json.loads(line) for line in Path(summary["rejects"]).read_text().splitlines()]
    assert (reject["row"], reject["line"], reject["column"]) == (3, 4, "flight")


def test_columns_that_are_not_the_tables_are_refused(command: Duramen, departures: str, tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text(CSV.replace("day,", "date,"))
    assert "has a column 'date', which is no field of Departure" in command("load", departures, file, code=1).stderr
    file.write_text(CSV.replace(",legs", ""))
    assert "has no column 'legs', and the field has no default" in command("load", departures, file, code=1).stderr
    frame = pyarrow.table({"carrier": ["UA"], "flight": [1.5], "day": [None], "price": [None]})
    parquet = tmp_path / "rows.parquet"
    pyarrow.parquet.write_table(frame, parquet)
    assert "legs: it is missing" in command("load", departures, parquet, code=1).stderr
    pyarrow.parquet.write_table(frame.append_column("legs", pyarrow.array([["a"]])), parquet)
    failed = command("load", departures, parquet, code=1)
    assert "column 'flight'): the field flight is 1.5 (double), expected int" in failed.stderr
    assert rows_of(command, departures) == []


def test_which_load_and_which_export_it_is(command: Duramen, departures: str, tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text(CSV)
    assert "the keys of that table have fields" in command("load", departures, file, "-k", "carrier", code=1).stderr
    assert "name a key column" in command("load", departures, file, "--create", code=2).stderr
    command("table", "create", f"{departures}-bytes")
    assert "say which columns are the key" in command("load", f"{departures}-bytes", file, code=2).stderr
    assert "is there already" in command("export", departures, file, code=2).stderr
    command("export", departures, file, "--overwrite")
    assert file.read_text().startswith("carrier,flight,day")
    command("table", "drop", f"{departures}-bytes", "--yes")


@pytest.mark.parametrize("name", ["rows.csv", "rows.parquet"])
def test_a_table_as_it_was_goes_into_a_file(command: Duramen, table_name: str, tmp_path: Path, name: str) -> None:
    schema, first, file = tmp_path / "departure.avsc", tmp_path / "first.csv", tmp_path / name
    schema.write_text(json.dumps(SCHEMA))
    made = ("table", "create", table_name, "--schema", schema, "--key", "carrier,flight", "-p", "1", "--history", "all")
    command(*made)
    first.write_text(CSV)
    command("load", table_name, first)
    gone = command("delete", table_name, "AA", "1", "--token").stdout.strip()
    command("delete", table_name, "UA", "1545")
    exported = command("export", table_name, file, "--at-token", gone, "--json").stdout
    assert json.loads(exported)["rows"] == 2
    copy = f"{table_name}-copy"
    command("table", "create", copy, "--schema", schema, "--key", "carrier,flight")
    command("load", copy, file)
    assert rows_of(command, copy) == ROWS[1:]
    early = command("export", table_name, file, "--overwrite", "--at-time", "2001-01-01T00:00:00Z", "--json").stdout
    assert json.loads(early)["rows"] == 0
    before = file.read_bytes()
    for words, why in (
        (("--at-token", gone, "--at-time", "2001-01-01"), "name two states"),
        (("--at-token", gone, "--token", gone), "leave out --token"),
        (("--at-time", "yesterday"), "takes a time"),
        (("--at-token", "d1.nonsense"), "token"),
    ):
        assert why in command("export", table_name, file, "--overwrite", *words, code=2).stderr
    assert "keeps no history" in command("export", copy, file, "--overwrite", "--at-time", "2999-01-01", code=2).stderr
    assert file.read_bytes() == before, "a file is replaced when the new one is whole"
    folder = tmp_path / "folder"
    assert "one file" in command("export", table_name, folder, "--at-token", gone, code=2).stderr
    command("table", "drop", copy, "--yes")
