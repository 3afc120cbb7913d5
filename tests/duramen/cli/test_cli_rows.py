"""The command line on tables with a definition: rows as JSON, keys by their fields."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kit.client.command_line import lines, run_here
from kit.client.server_process import ServerProcess

from duramen.blocking import Database

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

ROW = {"carrier": "UA", "flight": 1545, "gate": "B7", "delay": 2.5}

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(server: ServerProcess) -> Run:
    def run(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
        return run_here(*arguments, at=server.target, **options)

    return run


@pytest.fixture
def table(run: Run, table_name: str, tmp_path: Path) -> str:
    file = tmp_path / "departure.avsc"
    file.write_text(json.dumps(SCHEMA))
    created = run(
        *("table", "create", table_name, "-p", "2"),
        *("--schema", str(file), "--key", "carrier, flight", "--partition-by", "carrier"),
    )
    assert (created.returncode, created.stderr) == (0, "")
    return table_name


def put(run: Run, table: str, **changed: Any) -> None:
    done = run("put", table, json.dumps(ROW | changed))
    assert (done.returncode, done.stderr) == (0, "")


def test_a_row_goes_in_and_comes_out(run: Run, table: str) -> None:
    put(run, table)
    put(run, table, flight=7, gate=None)
    shown = json.dumps(ROW, separators=(",", ":"))
    assert run("get", table, "UA", "1545").stdout == shown + "\n"
    assert run("get", table, '["UA", 1545]').stdout == shown + "\n"
    both = run("get", table, "UA", "7", "UA", "1545")
    assert [json.loads(line)["flight"] for line in both.stdout.splitlines()] == [7, 1545]
    (entry,) = lines(run("get", table, '["UA",1545]', "--json"))
    assert (entry["key"], entry["value"]) == (["UA", 1545], ROW)
    absent = run("get", table, "UA", "9")
    assert (absent.returncode, absent.stderr) == (3, f'error: {table} has no key ["UA",9]\n')


def test_python_reads_what_the_command_line_writes(run: Run, table: str, database: Database) -> None:
    rows = database.table(table, row=SCHEMA)
    put(run, table)
    assert rows.get("UA", 1545, level="strong") == ROW
    rows.put(ROW | {"delay": float("nan")})
    assert '"delay":"NaN"' in run("get", table, "UA", "1545").stdout


def test_a_row_from_the_standard_input(run: Run, table: str) -> None:
    done = run("put", table, "-", "--json", stdin=json.dumps(ROW).encode() + b"\n")
    (said,) = lines(done)
    assert said["key"] == ["UA", 1545]
    assert run("get", table, "UA", "1545").returncode == 0


@pytest.mark.parametrize(
    ("row", "field", "message"),
    [
        ('{"carrier": "UA", "flight": "x"}', "flight", 'the field flight is "x", expected an int'),
        ('{"carrier": "UA"}', "flight", "the field flight is missing, expected int"),
        ('{"carrier": "UA", "flight": 1, "seat": 4}', "seat", "expected no such field in Departure"),
        ('{"carrier": "UA", "flight": 2147483648}', "flight", "expected a number from -2147483648 to 2147483647"),
        ("UA", "", "the row is no JSON"),
        ("\udcff", "", "the row is no UTF-8"),
    ],
)
def test_a_row_that_does_not_fit(run: Run, table: str, row: str, field: str, message: str) -> None:
    refused = run("put", table, row)
    assert refused.returncode == 2
    assert message in refused.stderr
    said = json.loads(run("put", table, row, "--json").stderr)
    assert (said["error"], said["fields"]["field"]) == ("invalid_row", field)
    assert run("scan", table).stdout == ""


def test_fields_are_updated(run: Run, table: str) -> None:
    put(run, table)
    done = run("update", table, "UA", "1545", "--set", "gate=12", "--add", "delay=1.5", "--json")
    (said,) = lines(done)
    assert (said["key"], "value" in said) == (["UA", 1545], False)
    assert json.loads(run("get", table, "UA", "1545").stdout) == ROW | {"gate": "12", "delay": 4.0}
    assert run("update", table, '["UA",1545]', "--set", "gate=null", "--max", "delay=9").returncode == 0
    assert json.loads(run("get", table, "UA", "1545").stdout) == ROW | {"gate": None, "delay": 9.0}
    watched = run("watch", table, "--from-start", "--limit", "3", "--json")
    assert [(each["operation"], each["value"]) for each in lines(watched)[1:]] == [
        ("patch", {"set": {"gate": "12"}, "add": {"delay": 1.5}}),
        ("patch", {"set": {"gate": None}, "max": {"delay": 9.0}}),
    ]
    shown = run("watch", table, "--from-start", "--limit", "2").stdout.splitlines()[-1]
    assert shown.endswith('["UA",1545]\t{"set": {"gate": "12"}, "add": {"delay": 1.5}}')


def test_updates_that_cannot_be(run: Run, table: str, table_name: str) -> None:
    put(run, table)
    for arguments, status, message in (
        (("UA", "1545", "--add", "gate=1"), 2, "the field gate: add is not for a union of null, string"),
        (("UA", "1545", "--add", "delay=late"), 2, 'the field delay is "late", expected a double'),
        (("UA", "1545", "--add", "1"), 2, "--add takes FIELD=VALUE in a table of rows"),
        (("UA", "1545", "--add", "delay=1", "--add", "delay=2"), 2, "--add delay is given twice"),
        (("UA", "1545", "--set", "carrier=AA"), 2, "the field carrier: it is a field of the key"),
        (("UA", "1545", "--if-absent", "--set", "gate=1"), 2, "leave --if-absent out"),
        (("UA", "1545"), 2, "an update changes 1 to 1024 fields, here are 0"),
        (("UA", "9", "--set", "gate=1"), 4, "there is no row with this key"),
    ):
        refused = run("update", table, *arguments)
        assert (refused.returncode, message in refused.stderr) == (status, True), refused.stderr
    plain = f"{table_name}-plain"
    assert run("table", "create", plain).returncode == 0
    assert "--set changes fields of a row" in run("update", plain, "k", "--set", "a=1").stderr
    assert "--add is given 2 times" in run("update", plain, "k", "--add", "1", "--add", "2").stderr


def test_arguments_that_are_no_row_and_no_key(run: Run, table: str) -> None:
    for arguments, message in (
        (("put", table, "UA", "1545", "x"), "put takes a row, which has its key in it"),
        (("get", table, "UA"), "the key has the fields carrier, flight, and 1 values are given"),
        (("get", table, "UA", "x"), 'the key\'s field flight is "x", expected a whole number'),
        (("get", table, "UA", "1", "AA"), "1 values are given"),
        (("delete", table, "UA", "1", "AA", "1"), "this command takes one key, and 2 are given"),
        (("scan", table, "--field", "flight=1"), "a scan needs the field carrier too"),
        (("scan", table, "--field", "gate=B7"), "gate is no field of the key (carrier, flight)"),
        (("scan", table, "--field", "carrier"), "--field takes NAME=VALUE"),
        (("scan", table, "--field", "carrier=UA", "--field", "carrier=AA"), "given twice"),
        (("scan", table, "--field", "carrier=UA", "--prefix", "[]"), "give --field, or --prefix"),
        (("update", table, "UA", "1", "--add", "1"), "rows"),
    ):
        refused = run(*arguments)
        assert refused.returncode in (2, 4), (arguments, refused)
        assert message in refused.stderr, arguments


def test_scan_by_fields(run: Run, table: str) -> None:
    for carrier in ("AA", "UA"):
        for flight in (-5, 7, 10, 1545):
            put(run, table, carrier=carrier, flight=flight)

    def flights(*arguments: str) -> list[tuple[str, int]]:
        done = run("scan", table, *arguments)
        assert done.returncode == 0, done.stderr
        return [(row["carrier"], row["flight"]) for row in map(json.loads, done.stdout.splitlines())]

    assert len(flights()) == 8
    assert flights("--field", "carrier=UA") == [("UA", each) for each in (-5, 7, 10, 1545)]
    assert flights("--field", "carrier=UA", "--field", "flight=7") == [("UA", 7)]
    assert flights("--field", "carrier=UA", "--field", "flight=7..1545") == [("UA", 7), ("UA", 10)]
    assert flights("--field", "flight=..7", "--field", "carrier=UA") == [("UA", -5)]
    assert flights("--field", "carrier=B..") == flights("--field", "carrier=UA")
    assert flights("--prefix", '["AA"]', "--reverse", "-n", "1") == [("AA", 1545)]
    assert flights("--start", '["AA",10]', "--end", '["UA",7]') == [("AA", 10), ("AA", 1545), ("UA", -5)]
    assert run("scan", table, "--keys", "-n", "1").stdout == '["AA",-5]\n'
    (entry,) = lines(run("scan", table, "--json", "-n", "1"))
    assert (entry["key"], entry["value"]["flight"]) == (["AA", -5], -5)


def test_watch_and_delete(run: Run, table: str) -> None:
    put(run, table)
    deleted = run("delete", table, "UA", "1545", "--if-present", "--json")
    assert lines(deleted)[0]["key"] == ["UA", 1545]
    assert run("delete", table, "UA", "1545", "--if-present").returncode == 4
    seen = lines(run("watch", table, "--from-start", "-n", "2", "--json"))
    assert [(each["operation"], each["key"], each["value"]) for each in seen] == [
        ("put", ["UA", 1545], ROW),
        ("delete", ["UA", 1545], None),
    ]
    first, second = run("watch", table, "--from-start", "-n", "2").stdout.splitlines()
    assert first.endswith(json.dumps(ROW, separators=(",", ":")))
    assert second.endswith('delete   ["UA",1545]')


def test_the_definition_is_shown(run: Run, table: str, table_name: str) -> None:
    shown = run("table", "describe", table).stdout
    assert "rows of Departure (schema 1, number " in shown
    assert "key (carrier, flight), partition by carrier" in shown
    part = lines(run("table", "describe", table, "--json"))[0]
    assert [each["name"] for each in part["definition"]["key"]] == ["carrier", "flight"]
    assert part["definition"]["partition_by"] == ["carrier"]
    printed = run("table", "schema", table)
    assert [each["name"] for each in json.loads(printed.stdout)["fields"]] == ["carrier", "flight", "gate", "delay"]
    assert run("table", "schema", table, "--version", "1").stdout == printed.stdout
    (said,) = lines(run("table", "schema", table, "--json"))
    assert said["version"] == 1
    assert said["schema"] == json.loads(printed.stdout)
    missing = run("table", "schema", table, "--version", "2")
    assert (missing.returncode, "there is no schema 2" in missing.stderr) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--schema", "{file}"), 2, "--schema FILE and --key NAMES go together"),
        (("--key", "carrier"), 2, "--schema FILE and --key NAMES go together"),
        (("--schema", "{file}", "--key", "wing"), 2, "the key's field wing: Departure has no such field"),
        (
            ("--schema", "{file}", "--key", "carrier", "--partition-by", "flight"),
            2,
            "partition_by= is the first fields",
        ),
        (("--schema", "{file}.not", "--key", "carrier"), 1, "No such file"),
        (("--schema", "-", "--key", "carrier"), 2, "it is no JSON"),
    ],
)
def test_tables_that_are_not_made(
    run: Run, table_name: str, tmp_path: Path, arguments: tuple[str, ...], code: int, message: str
) -> None:
    file = tmp_path / "departure.avsc"
    file.write_text(json.dumps(SCHEMA))
    refused = run("table", "create", table_name, *(each.format(file=file) for each in arguments), stdin=b"{")
    assert (refused.returncode, message in refused.stderr) == (code, True), refused.stderr
    assert run("table", "describe", table_name).returncode == 3


def test_tables_of_text_and_json_with_fields(run: Run, table_name: str, database: Database) -> None:
    events = database.create_table(table_name, key={"day": str, "number": int}, value="json", partitions=1)
    assert run("put", table_name, "mon", "5", '{"a":[1]}').returncode == 0
    assert events.get(("mon", 5), level="strong") == {"a": [1]}
    assert run("get", table_name, "mon", "5").stdout == '{"a":[1]}\n'
    assert run("scan", table_name).stdout == '["mon",5]\t{"a":[1]}\n'
    refused = run("put", table_name, "mon", "5", "{")
    assert (refused.returncode, "the value is no JSON" in refused.stderr) == (2, True)
    assert "values json, key (day, number)" in run("table", "describe", table_name).stdout
    assert "has no rows" in run("table", "schema", table_name).stderr


def test_a_table_gets_its_next_schema(run: Run, table: str, tmp_path: Path) -> None:
    put(run, table)
    file = tmp_path / "next.avsc"
    file.write_text(json.dumps({**SCHEMA, "fields": [*SCHEMA["fields"], {"name": "seats", "type": "int"}]}))
    for more in ((), ("--check",)):
        refused = run("table", "alter", table, "--schema", str(file), *more)
        assert refused.returncode == 2
        assert "the field seats: rows of the present one do not have it" in refused.stderr
    seats = {"name": "seats", "type": "int", "default": 9}
    file.write_text(json.dumps({**SCHEMA, "fields": [*SCHEMA["fields"], seats]}))
    checked = run("table", "alter", table, "--schema", str(file), "--check")
    assert (checked.returncode, checked.stderr) == (0, "")
    assert "may be the next one" in checked.stdout
    assert "(schema 1, number " in checked.stdout
    altered = run("table", "alter", table, "--schema", str(file))
    assert (altered.returncode, altered.stderr) == (0, "")
    assert f"table {table} has rows of Departure (schema 2, number " in altered.stdout
    assert json.loads(run("get", table, "UA", "1545").stdout) == {**ROW, "seats": 9}
    done = run("put", table, json.dumps({**ROW, "flight": 7, "seats": 3}))
    assert (done.returncode, done.stderr) == (0, "")
    shown = [json.loads(line) for line in run("scan", table).stdout.splitlines()]
    assert [(each["flight"], each["seats"]) for each in shown] == [(7, 3), (1545, 9)]
    (said,) = lines(run("table", "alter", table, "--schema", str(file), "--json"))
    assert (said["altered"], said["definition"]["number"], len(said["definition"]["schemas"])) == (True, 2, 2)
    lost = run("table", "alter", table, "--schema", str(file), "--check", "--compatibility", "sideways")
    assert "compatibility is one of backward" in lost.stderr


def test_a_watch_shows_rows_of_a_schema_that_came_later(run: Run, table: str, tmp_path: Path, db: Database) -> None:
    file = tmp_path / "next.avsc"
    file.write_text(
        json.dumps({**SCHEMA, "fields": [*SCHEMA["fields"], {"name": "seats", "type": "int", "default": 9}]})
    )
    put(run, table)
    assert run("table", "alter", table, "--schema", str(file)).returncode == 0
    assert run("put", table, json.dumps({**ROW, "seats": 3})).returncode == 0
    # Two partitions, a barrier in each of them.
    shown = lines(run("watch", table, "--from-start", "--limit", "4", "--json"))
    assert [each["value"]["seats"] for each in shown if each["operation"] == "put"] == [9, 3]
    assert [(each["key"], each["value"] is None) for each in shown if each["operation"] == "barrier"]
