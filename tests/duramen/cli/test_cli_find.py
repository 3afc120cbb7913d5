"""`duramen find`: rows by their fields, at the command line."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from kit.client.command_line import run_here
from kit.client.server_process import ServerProcess

SCHEMA = {
    "type": "record",
    "name": "Departure",
    "fields": [
        {"name": "carrier", "type": "string"},
        {"name": "flight", "type": "int"},
        {"name": "gate", "type": ["null", "string"], "default": None},
        {"name": "delay", "type": "double", "default": 0.0},
    ],
}


class FoundTable:
    """A table with indexes, and the command line on it."""

    def __init__(self, server: ServerProcess, name: str, folder: Path) -> None:
        self._server, self.name, self._schema = server, name, folder / "departure.avsc"
        self._schema.write_text(json.dumps(SCHEMA))

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return run_here(*arguments, at=self._server.target)

    def create(self, *indexes: str) -> subprocess.CompletedProcess[str]:
        options = [word for each in indexes for word in ("--index", each)]
        schema = ("--schema", str(self._schema), "--key", "carrier,flight")
        return self.run("table", "create", self.name, "-p", "2", *schema, *options)

    def find(self, *words: str) -> list[Any]:
        done = self.run("find", self.name, *words)
        assert (done.returncode, done.stderr) == (0, "")
        return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture
def found(server: ServerProcess, table_name: str, tmp_path: Path) -> FoundTable:
    table = FoundTable(server, table_name, tmp_path)
    done = table.create("by_gate=gate, delay", "by_delay=delay")
    assert (done.returncode, done.stderr) == (0, "")
    for number in range(6):
        row = {"carrier": "UA", "flight": number, "gate": "B7" if number % 2 else None, "delay": number / 2}
        assert table.run("put", table_name, json.dumps(row)).returncode == 0
    return table


def test_rows_are_found_by_value_range_and_null(found: FoundTable) -> None:
    assert [row["flight"] for row in found.find("--field", "gate=B7")] == [1, 3, 5]
    down = found.find("--field", "gate=B7", "--field", "delay=1..", "--order", "-delay", "-n", "1")
    assert down == [{"carrier": "UA", "flight": 5, "gate": "B7", "delay": 2.5}]
    assert [row["flight"] for row in found.find("--field", "gate")] == [0, 2, 4]
    assert [row["flight"] for row in found.find("--field", "delay=1.0..2.0")] == [2, 3]
    assert [
        row["value"]["flight"] for row in found.find("--field", "carrier=UA", "--field", "flight=..2", "--json")
    ] == [0, 1]


def test_explain(found: FoundTable) -> None:
    done = found.run("find", found.name, "--field", "gate=B7", "--explain")
    assert done.stdout == "the index by_gate (gate, delay): 2 partitions asked, 3 entries read, 3 rows\n"
    sorted_rows = ("--field", "gate=B7", "--order", "-flight")
    assert [row["flight"] for row in found.find(*sorted_rows, "-n", "2")] == [5, 3]
    explained = found.run("find", found.name, *sorted_rows, "--explain").stdout
    assert explained.endswith("3 rows, sorted by -flight when all have come\n")
    (shown,) = found.find("--field", "delay=1..", "--field", "gate=none", "--explain", "--json")
    assert (shown["index"], shown["entries"], shown["rows"]) == ("by_gate", 0, 0)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--field", "remark=late"), "no row is found by 'remark'"),
        (("--field", "delay=late"), "the condition on delay: it is"),
        (("--field", "gate=1", "--field", "gate=2"), "has two conditions"),
        (("--field", "flight=1"), "no index serves this: one of the fields (flight) would"),
        (("--order", "-flight"), "one of the fields (flight) would"),
    ],
)
def test_what_cannot_be_found_is_refused_by_name(found: FoundTable, words: tuple[str, ...], why: str) -> None:
    done = found.run("find", found.name, *words)
    assert done.returncode == 2
    assert why in done.stderr


def test_the_table_shows_its_indexes(found: FoundTable) -> None:
    assert "indexes by_gate (gate, delay), by_delay (delay)" in found.run("table", "describe", found.name).stdout
    shown = json.loads(found.run("table", "describe", found.name, "--json").stdout.splitlines()[0])
    assert shown["definition"]["indexes"][1] == {"name": "by_delay", "fields": ["delay"]}


@pytest.mark.parametrize(
    ("index", "why"), [("by_gate", "write NAME=FIELDS"), ("by_x=x", "has no field x"), ("=gate", "a name has")]
)
def test_an_index_that_is_none_is_refused(
    server: ServerProcess, table_name: str, tmp_path: Path, index: str, why: str
) -> None:
    done = FoundTable(server, table_name, tmp_path).create(index)
    assert done.returncode == 2
    assert why in done.stderr


def test_a_table_of_bytes_has_no_fields(server: ServerProcess, table_name: str, tmp_path: Path) -> None:
    table = FoundTable(server, table_name, tmp_path)
    table.run("table", "create", table_name)
    done = table.run("find", table_name, "--field", "a=1")
    assert done.returncode == 2
    assert "rows alone are found by their fields" in done.stderr


def test_indexes_come_and_go(found: FoundTable) -> None:
    name = found.name
    made = found.run("table", "index", "create", name, "by_seat", "flight", "gate")
    assert (made.returncode, made.stderr) == (0, "")
    assert made.stdout.strip() == f"table {name} has the index by_seat (flight, gate)"
    assert [row["flight"] for row in found.find("--field", "flight=2..4")] == [2, 3]
    listed = found.run("table", "index", "list", name).stdout.splitlines()
    assert listed == ["by_gate (gate, delay)", "by_delay (delay)", "by_seat (flight, gate)"]
    (*_, last) = found.run("table", "index", "list", name, "--json").stdout.splitlines()
    assert json.loads(last) == {"name": "by_seat", "fields": ["flight", "gate"], "in_service": True}
    assert "by_seat (flight, gate)" in found.run("table", "describe", name).stdout
    other = found.run("table", "index", "create", name, "by_seat", "gate")
    assert (other.returncode, "one of that name already, by flight, gate" in other.stderr) == (2, True)
    gone = found.run("table", "index", "drop", name, "by_seat")
    assert (gone.returncode, gone.stdout.strip()) == (0, f"table {name} has no index by_seat any more")
    assert found.run("table", "index", "drop", name, "by_seat").returncode == 2
    late = found.run("table", "index", "create", name, "late", "flight", "--where", "delay=1..", "--where", "gate=B7")
    assert (late.returncode, late.stdout.strip()) == (
        0,
        f"table {name} has the index late (flight) where delay=1.., gate=B7",
    )
    assert (
        found.run("table", "index", "list", name).stdout.splitlines()[-1] == "late (flight) where delay=1.0.., gate=B7"
    )
    (*_, last) = found.run("table", "index", "list", name, "--json").stdout.splitlines()
    assert json.loads(last)["where"] == ["delay=1.0..", "gate=B7"]
    assert "late (flight) where delay=1.0.., gate=B7" in found.run("table", "describe", name).stdout
    explained = found.run("find", name, "--field", "delay=2..", "--field", "gate=B7", "--order", "flight", "--explain")
    assert "late (flight) where delay=1.0.., gate=B7" in explained.stdout
    assert found.run("table", "index", "drop", name, "late").returncode == 0
    assert "no index serves this" in found.run("find", name, "--field", "flight=2").stderr


def test_a_unique_index_comes_with_its_table(server: ServerProcess, table_name: str, tmp_path: Path) -> None:
    name = f"{table_name}_alone"
    table = FoundTable(server, name, tmp_path)
    refused = table.create("by_gate=gate:unique")
    assert refused.returncode == 2, refused
    assert "has not the fields that decide the partition (carrier, flight)" in refused.stderr
    options = ("--schema", str(tmp_path / "departure.avsc"), "--key", "carrier,flight", "--partition-by", "carrier")
    made = table.run("table", "create", name, "-p", "2", *options, "--index", "by_gate=carrier,gate:unique")
    assert (made.returncode, made.stderr) == (0, "")
    assert table.run("table", "index", "list", name).stdout == "unique by_gate (carrier, gate)\n"
    (shown,) = map(json.loads, table.run("table", "index", "list", name, "--json").stdout.splitlines())
    assert shown == {"name": "by_gate", "fields": ["carrier", "gate"], "in_service": True, "unique": True}
    rows = [json.dumps({"carrier": "UA", "flight": number, "gate": "B7", "delay": 0.0}) for number in (1, 2)]
    assert table.run("put", name, rows[0]).returncode == 0
    second = table.run("put", name, rows[1])
    assert second.returncode != 0
    assert 'the row with the key ["UA",1] has the values of carrier, gate' in second.stderr
    again = table.run("table", "index", "create", name, "by_gate", "carrier", "gate", "--unique")
    assert (again.returncode, again.stderr) == (0, "")
    later = table.run("table", "index", "create", name, "by_delay", "carrier", "delay", "--unique")
    assert later.returncode != 0
    assert "comes with its table" in later.stderr
