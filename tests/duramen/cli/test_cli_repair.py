"""`duramen log repair`: what it says, what it refuses, and that `log verify` names it."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

import duramen
from duramen.cli import run

pytestmark = pytest.mark.embedded_log_only


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with a table of one partition, closed cleanly."""
    folder = tmp_path_factory.mktemp("repair") / "data"
    with duramen.open(folder) as database:
        table = database.create_table("flights", partitions=1)
        for number in range(40):
            table.put(b"k%d" % number, b"x" * 200)
    return folder


@pytest.fixture
def data(closed: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(closed, tmp_path / "data"))


def segment_of(data: Path) -> Path:
    """The segment of the table."""
    return next(each for each in data.glob("log/topics/*/0/*.log") if b"k17" in each.read_bytes())


def damage(data: Path) -> Path:
    """Zeros in the middle of the segment."""
    segment = segment_of(data)
    content = segment.read_bytes()
    at = content.find(b"k17")
    segment.write_bytes(content[:at] + bytes(400) + content[at + 400 :])
    return segment


def lines(capsys: pytest.CaptureFixture[str], *words: object, code: int) -> list[dict[str, Any]]:
    assert run(["log", *map(str, words), "--json"]) == code
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def repair_named(capsys: pytest.CaptureFixture[str], data: Path) -> list[str]:
    """The commands that `log verify` names for what is damaged."""
    return [each["repair"] for each in lines(capsys, "verify", data, code=1) if each["kind"] == "damage"]


def test_what_is_damaged_is_repaired_from_a_copy(data: Path, closed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    segment = damage(data)
    bad = segment.read_bytes()
    assert repair_named(capsys, data) == [f"duramen log repair {data} --from COPY"]
    assert run(["log", "repair", str(data), "--from", str(closed), "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert "taken     flights/0: offset" in said
    assert "(not begun: a dry run)" in said
    assert segment.read_bytes() == bad
    assert run(["log", "repair", str(data), "--from", str(closed)]) == 0
    said = capsys.readouterr().out
    assert f"the old files are in {data / 'log' / 'repair-1'}" in said
    assert segment.read_bytes() == segment_of(closed).read_bytes()
    (old,) = (data / "log" / "repair-1").rglob("*.log")
    assert old.read_bytes() == bad
    assert lines(capsys, "verify", data, code=0)[-1]["damaged"] == 0
    assert not [each for each in lines(capsys, "dump", data, code=0) if "/repair-1/" in each.get("file", "")]
    with duramen.open(data) as database:
        assert sum(1 for _ in database.table("flights").scan()) == 40
    assert run(["log", "repair", str(data), "--from", str(closed)]) == 0
    assert capsys.readouterr().out == "nothing has to be repaired\n"


def test_what_no_copy_has_is_given_up_by_number(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    damage(data)
    *_, refused, summary = lines(capsys, "repair", data, code=1)
    assert (refused["kind"], refused["partition"], summary["done"]) == ("refused", "flights/0", True)
    ((first, last),) = refused["offsets"]
    assert refused["give_up"] == [f"flights/0:{first}-{last}"]
    assert run(["log", "repair", str(data)]) == 1
    said = capsys.readouterr().out
    assert f"to go on without them: --give-up flights/0:{first}-{last}" in said
    assert run(["log", "repair", str(data), "--give-up", refused["give_up"][0]]) == 2
    assert "say --yes" in capsys.readouterr().err
    steps = lines(capsys, "repair", data, "--give-up", refused["give_up"][0], "--yes", code=0)
    assert ["given_up", [[first, last]]] in [[each["kind"], each.get("offsets")] for each in steps]
    noted = [each["message"] for each in lines(capsys, "verify", data, code=0) if each["kind"] == "note"]
    assert any(f"a repair gave up offsets {first} to {last}" in each for each in noted)
    with duramen.open(data) as database:
        table = database.table("flights")
        left = {key for key, _ in table.scan(level="strong")}
        assert left == {b"k%d" % number for number in range(40) if not first <= number <= last}
        table.put(b"k17", b"again")
        assert table.get(b"k17") == b"again"


def test_a_damaged_index_is_moved_away(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (index,) = data.glob("index/*/0")
    os.truncate(index / "data.mdb", 8192)
    assert repair_named(capsys, data) == [f"duramen log repair {data}"]
    assert run(["log", "repair", str(data)]) == 0
    assert "it is moved away, and the node makes it anew" in capsys.readouterr().out
    assert not index.exists()
    assert index.with_name("0.damaged-1").is_dir()
    assert lines(capsys, "verify", data, code=0)[-1]["damaged"] == 0
    with duramen.open(data) as database:
        assert sum(1 for _ in database.table("flights").scan(level="strong")) == 40


def test_folders_that_are_open_and_folders_that_are_none(
    data: Path, closed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damage(data)
    copy = Path(shutil.copytree(closed, tmp_path / "copy"))
    with duramen.open(copy):
        assert run(["log", "repair", str(data), "--from", str(copy)]) == 7
        assert f"the copy {copy / 'log'} is open in another Duramen, process {os.getpid()}" in capsys.readouterr().err
    with duramen.open(tmp_path / "other"):
        assert run(["log", "repair", str(tmp_path / "other"), "--from", str(closed)]) == 7
        assert "is open in another Duramen" in capsys.readouterr().err
    (tmp_path / "link").symlink_to(data)
    for words, said in (
        ([data, "--from", tmp_path / "link"], "is " + str(data) + " itself: name another folder"),
        ([data, "--from", tmp_path / "none"], "is no copy of a log: it has no duramen.json"),
        ([tmp_path / "none"], "is no data folder"),
        ([data, "--from", tmp_path / "other"], "name a copy of this log"),
        ([data, "--give-up", "flights/0"], "is no FIRST-LAST, like 5-7 or 12; like flights/0:18-19"),
        ([data, "--give-up", "flights:1-2"], "names no partition"),
        ([data, "--give-up", "flights/9:1-2"], "flights/9 is no partition of this log"),
    ):
        assert run(["log", "repair", *map(str, words)]) == 2, words
        assert said in capsys.readouterr().err
