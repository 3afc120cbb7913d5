"""`duramen log dump`: what it shows of good files, and what it says about bad ones."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from kit.flight_rows import FLIGHT_SCHEMA, flight_key

import duramen
from duramen.cli import run

pytestmark = pytest.mark.embedded_log_only


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data folder with a table of one partition that holds every kind of record, closed cleanly."""
    folder = tmp_path / "data"
    with duramen.open(folder) as database:
        table = database.create_table("flights", partitions=1)
        table.put(b"UA1545", b"departed")
        table.put(b"UA1545", b"landed", if_version=0, ttl=60)
        table.update(b"seats", add=-1)
        table.delete(b"UA1545")
        table.batch().put(b"a", b"\xff").put(b"b", b"2", if_absent=True).commit()
    return folder


def segment(data: Path) -> Path:
    """The table's only segment; the other one is the catalog's."""
    (found,) = (path for path in data.rglob("*.log") if b"UA1545" in path.read_bytes())
    return found


def dump(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> list[dict[str, Any]]:
    assert run(["log", "dump", *arguments, "--json"]) == code
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_everything_that_is_there(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tables = {one["table"] for one in dump(capsys, str(data)) if one["kind"] == "segment"}
    assert tables == {"flights", "_duramen_catalog"}
    start, *batches, end = dump(capsys, str(segment(data)), "--records")
    assert (start["kind"], start["table"], start["partition"], start["base_offset"]) == ("segment", "flights", "0", 0)
    assert start["file"] == str(segment(data))
    assert [(batch["kind"], batch["base_offset"], batch["last_offset"]) for batch in batches] == [
        ("batch", 0, 0),
        ("batch", 1, 1),
        ("batch", 2, 2),
        ("batch", 3, 3),
        ("batch", 4, 5),
    ]
    assert [batch["position"] for batch in batches] == sorted(batch["position"] for batch in batches)
    contents = [record for batch in batches for record in batch["contents"]]
    assert [(r["offset"], r["operation"], r["key"], r["value"], r["notes"]) for r in contents] == [
        (0, "put", "UA1545", "departed", []),
        (1, "put", "UA1545", "landed", ["if version 0", "expires after 60000 ms"]),
        (2, "add", "seats", "-1", []),
        (3, "delete", "UA1545", None, []),
        (4, "put", "a", "base64:/w==", []),
        (5, "put", "b", "2", ["if absent", "with the one before"]),
    ]
    assert end["kind"] == "end"


def test_for_people(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["log", "dump", str(segment(data)), "--records"]) == 0
    shown = capsys.readouterr().out
    assert "(flights/0, from offset 0)" in shown
    assert "UA1545\tdeparted" in shown
    assert "[if version 0, expires after 60000 ms]" in shown


def test_it_changes_nothing(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path: path.read_bytes() for path in data.rglob("*") if path.is_file()}
    dump(capsys, str(data), "--records")
    assert {path: path.read_bytes() for path in data.rglob("*") if path.is_file()} == before


def test_a_flipped_bit_is_damage_and_what_follows_is_shown(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = segment(data)
    whole = dump(capsys, str(file))
    second = whole[2]
    content = bytearray(file.read_bytes())
    content[second["position"] + 70] ^= 1
    file.write_bytes(content)
    found = dump(capsys, str(file), code=1)
    (damage,) = [one for one in found if one["kind"] == "damage"]
    assert (damage["position"], damage["offset"]) == (second["position"], 1)
    assert "checksum" in damage["message"]
    assert [one["base_offset"] for one in found if one["kind"] == "batch"] == [0, 2, 3, 4]


def test_a_torn_tail_is_no_damage(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = segment(data)
    last = dump(capsys, str(file))[-2]
    content = file.read_bytes()
    # Zeros at the end are room that nobody has written to yet.
    size = len(content[last["position"] :][:44].rstrip(b"\0"))
    file.write_bytes(content[: last["position"] + size])
    found = dump(capsys, str(file))
    assert [one["base_offset"] for one in found if one["kind"] == "batch"] == [0, 1, 2, 3]
    assert found[-1]["kind"] == "end"
    assert found[-1]["position"] == last["position"]
    assert f"{size} bytes are no whole batch" in found[-1]["message"]


def test_nothing_to_show(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "notes.log").write_text("x")
    for path in (tmp_path, tmp_path / "notes.log", tmp_path / "missing"):
        assert run(["log", "dump", str(path)]) == 2
        assert "there is no segment of a log at" in capsys.readouterr().err


def test_keys_of_fields_are_shown_as_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By the catalog's files, which lie next to the table's; without them as bytes."""
    folder = tmp_path / "data"
    with duramen.open(folder) as database:
        database.create_table("flights", row=FLIGHT_SCHEMA, key=("carrier", "flight"), partitions=1).put(
            {"carrier": "UA", "flight": 1545, "tailnum": None, "dep_delay": 0.0}
        )
    (found,) = (path for path in folder.rglob("*.log") if flight_key("UA", 1545) in path.read_bytes())
    for path in (found, folder):
        batches = [one for one in dump(capsys, str(path), "--records") if one["kind"] == "batch"]
        keys = {record["key_text"] for batch in batches for record in batch["contents"]}
        assert keys - {""} == {'["UA",1545]'}
    assert run(["log", "dump", str(found), "--records"]) == 0
    assert '["UA",1545]' in capsys.readouterr().out
    alone = tmp_path / "alone"
    shutil.copytree(found.parent.parent, alone / found.parent.parent.name)
    assert run(["log", "dump", str(alone), "--records"]) == 0
    assert "base64:" in capsys.readouterr().out
