"""`duramen history` and `duramen get --at-token`, at the command line."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kit.client.command_line import lines, run_here
from kit.client.server_process import ServerProcess

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(server: ServerProcess) -> Run:
    def run(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
        return run_here(*arguments, at=server.target, **options)

    return run


def test_a_key_as_it_was(run: Run, table_name: str) -> None:
    assert run("table", "create", table_name, "-p", "2", "--history", "100").returncode == 0
    first = run("put", table_name, "JFK", "100", "--token").stdout.strip()
    run("put", table_name, "JFK", "120")
    run("delete", table_name, "JFK")
    run("put", table_name, "JFK", "90")
    assert run("get", table_name, "JFK", "--at-token", first).stdout == "100\n"
    assert run("get", table_name, "JFK", "--at-time", "2001-01-01T00:00:00Z").returncode == 3
    assert run("get", table_name, "JFK", "--at-time", "2999-01-01T00:00:00").stdout == "90\n"
    shown = [line.split("\t") for line in run("history", table_name, "JFK").stdout.splitlines()]
    assert [(offset, value) for offset, _, value in shown] == [
        ("3", "90"),
        ("2", "(deleted)"),
        ("1", "120"),
        ("0", "100"),
    ]
    documents = lines(run("history", table_name, "JFK", "--json", "-n", "2"))
    assert [(each["value"], each["deleted"]) for each in documents] == [("90", False), (None, True)]
    assert run("get", table_name, "JFK", "--at-token", documents[0]["token"]).stdout == "90\n"
    found = json.loads(run("get", table_name, "JFK", "--at-token", first, "--json").stdout)
    assert (found["value"], found["version"]) == ("100", 0)
    assert run("history", table_name, "LGA").returncode == 3


def test_a_table_as_it_was(run: Run, table_name: str) -> None:
    assert run("table", "create", table_name, "-p", "1", "--history", "all").returncode == 0
    for word in ("JFK", "LGA"):
        token = run("put", table_name, word, "1", "--token").stdout.strip()
    run("put", table_name, "JFK", "2")
    run("delete", table_name, "LGA")
    assert run("scan", table_name).stdout == "JFK\t2\n"
    assert run("scan", table_name, "--at-token", token).stdout == "JFK\t1\nLGA\t1\n"
    assert run("scan", table_name, "--at-token", token, "--prefix", "L", "--keys").stdout == "LGA\n"
    assert run("scan", table_name, "--at-time", "2001-01-01T00:00:00Z").stdout == ""
    assert run("scan", table_name, "--at-time", "2999-01-01T00:00:00Z").stdout == "JFK\t2\n"
    refused = run("scan", table_name, "--at-token", token, "--after", token)
    assert (refused.returncode, "leave out --after" in refused.stderr) == (2, True)


def test_what_changed(run: Run, table_name: str) -> None:
    assert run("table", "create", table_name, "-p", "1", "--history", "all").returncode == 0
    for word in ("JFK", "LGA", "EWR"):
        token = run("put", table_name, word, "1", "--token").stdout.strip()
    run("put", table_name, "JFK", "2")
    run("delete", table_name, "LGA")
    middle = run("put", table_name, "SFO", "9", "--token").stdout.strip()
    run("put", table_name, "EWR", "3")
    run("put", table_name, "EWR", "1")
    shown = "- JFK\t1\n+ JFK\t2\n- LGA\t1\n+ SFO\t9\n"
    done = run("diff", table_name, token)
    assert (done.returncode, done.stdout, done.stderr) == (0, shown, "")
    assert run("diff", table_name, token, middle).stdout == shown
    assert run("diff", table_name, middle).stdout == ""
    assert run("diff", table_name, middle, token, "--prefix", "S").stdout == "- SFO\t9\n"
    assert run("diff", table_name, "2001-01-01", "-n", "1").stdout == "+ EWR\t1\n"
    assert run("diff", table_name, "2999-01-01T00:00:00Z").stdout == ""
    assert lines(run("diff", table_name, token, "--start", "L", "--json")) == [
        {"key": "LGA", "before": "1", "after": None},
        {"key": "SFO", "before": None, "after": "9"},
    ]


def test_what_changed_in_rows(run: Run, table_name: str, tmp_path: Path) -> None:
    schema = tmp_path / "price.avsc"
    fields = [{"name": "airport", "type": "string"}, {"name": "cents", "type": "long"}]
    schema.write_text(json.dumps({"type": "record", "name": "Price", "fields": fields}))
    created = run("table", "create", table_name, "--schema", str(schema), "--key", "airport", "--history", "10")
    assert created.returncode == 0, created.stderr
    for airport, cents in (("JFK", 100), ("LGA", 80)):
        assert run("put", table_name, json.dumps({"airport": airport, "cents": cents})).returncode == 0
    differences = lines(run("diff", table_name, "2001-01-01", "--field", "airport=JFK", "--json"))
    assert differences == [{"key": ["JFK"], "before": None, "after": {"airport": "JFK", "cents": 100}}]
    assert run("diff", table_name, "2001-01-01", "--prefix", '["LGA"]').stdout == '+ {"airport":"LGA","cents":80}\n'


def test_what_changes_replaced(run: Run, table_name: str) -> None:
    assert run("table", "create", table_name, "-p", "1", "--history", "2").returncode == 0
    for words in (("put", "JFK", "1"), ("put", "JFK", "2"), ("delete", "JFK")):
        assert run(words[0], table_name, *words[1:]).returncode == 0
    assert run("get", table_name, "JFK", "--level", "strong").returncode == 3
    changes = lines(run("watch", table_name, "--from-start", "-n", "3", "--json"))
    assert [each.get("before", "unknown") for each in changes] == ["unknown", "1", "2"]
    run("table", "create", f"{table_name}-plain")
    run("put", f"{table_name}-plain", "k", "v")
    (change,) = lines(run("watch", f"{table_name}-plain", "--from-start", "-n", "1", "--json"))
    assert "before" not in change
    run("table", "drop", f"{table_name}-plain", "--yes")


def test_a_token_of_a_whole_table(run: Run, table_name: str) -> None:
    assert run("table", "create", table_name, "-p", "4", "--history", "all").returncode == 0
    empty = run("token", table_name).stdout.strip()
    words = [f"k{number}" for number in range(12)]
    for word in words:
        run("put", table_name, word, "1")
    done = run("token", table_name, "--json")
    (document,) = lines(done)
    assert document == {"table": table_name, "token": run("token", table_name).stdout.strip()}
    for word in words[:4]:
        run("put", table_name, word, "2")
    assert run("scan", table_name, "--at-token", empty).stdout == ""
    assert run("scan", table_name, "--at-token", document["token"]).stdout == "".join(
        f"{w}\t1\n" for w in sorted(words)
    )
    assert run("diff", table_name, document["token"], "-n", "9").stdout.count("+") == 4
    watched = lines(run("watch", table_name, "--after", document["token"], "-n", "4", "--json"))
    assert {(each["key"], each["value"], each["before"]) for each in watched} == {(w, "2", "1") for w in words[:4]}
    assert run("token", f"{table_name}-none").returncode == 3


def test_mistakes(run: Run, table_name: str) -> None:
    refused = run("table", "create", table_name, "--history", "3y")
    assert (refused.returncode, "history= is a time" in refused.stderr) == (2, True)
    assert run("table", "create", table_name).returncode == 0
    token = run("put", table_name, "k", "v", "--token").stdout.strip()
    for words, why in (
        (("get", table_name, "k", "--at-token", token), "keeps no history"),
        (("history", table_name, "k"), "keeps no history"),
        (("get", table_name, "k", "--at-token", token, "--at-time", "2001-01-01"), "name two states"),
        (("get", table_name, "k", "--at-token", token, "--after", token), "leave out --after"),
        (("get", table_name, "k", "--at-time", "yesterday"), "takes a time"),
        (("diff", table_name, "2001-01-01"), "keeps no history"),
        (("diff", table_name, token), "keeps no history"),
        (("scan", table_name, "--at-token", token), "keeps no history"),
        (("diff", table_name, "2026-31-31"), "a token, or a time"),
        (("diff", table_name, "yesterday"), "token"),
        (("history", table_name, "k", "l"), "takes one key"),
    ):
        done = run(*words)
        assert done.returncode == 2, words
        assert why in done.stderr


def test_why_a_key_had_no_value_then(run: Run, table_name: str) -> None:
    assert run("table", "create", table_name, "-p", "1", "--history", "all").returncode == 0
    run("put", table_name, "JFK", "100")
    gone = run("delete", table_name, "JFK", "--token").stdout.strip()
    run("put", table_name, "JFK", "90")
    before = ("--at-time", "2001-01-01T00:00:00Z")
    for words, why in (
        (("JFK", *before), "had no value of JFK then: its first change came later, at offset 0, 2"),
        (("LGA", *before), "had no value of LGA then: it has had none since, either"),
        (("JFK", "--at-token", gone), "had no value of JFK then: it was deleted at offset 1, 2"),
    ):
        done = run("get", table_name, *words)
        assert (done.returncode, done.stdout) == (3, "")
        assert why in done.stderr
        assert len(done.stderr.splitlines()) == 1
    done = run("get", table_name, "JFK", "LGA", *before, "--json")
    assert (done.returncode, done.stderr) == (3, "")
    assert [json.loads(line)["value"] for line in done.stdout.splitlines()] == [None, None]


@pytest.mark.parametrize(
    ("history", "words"),
    [
        ("30d", "it keeps what keys had for 30d"),
        ("100", "of each key it keeps the newest 100 changes"),
        ("all", "it keeps what keys had at all times"),
        (None, ""),
    ],
)
def test_describe_names_what_is_kept(run: Run, table_name: str, history: str | None, words: str) -> None:
    options = () if history is None else ("--history", history)
    assert run("table", "create", table_name, "-p", "1", *options).returncode == 0
    (document,) = lines(run("table", "describe", table_name, "--json"))
    assert document["history"] == history
    first = run("table", "describe", table_name).stdout.splitlines()[0]
    assert words in first if words else "keeps what" not in first
