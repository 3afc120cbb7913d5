"""`duramen log verify`: a data folder with log, indexes and snapshots, whole and damaged."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kit.deadlines import wait_until
from kit.index.marker import change_marker

import duramen
from duramen.blocking import Table
from duramen.cli import run

pytestmark = pytest.mark.embedded_log_only


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with a table of two partitions, closed cleanly, with a snapshot of each."""
    folder = tmp_path_factory.mktemp("verify") / "data"
    with duramen.open(folder, snapshot_every_s=0.1) as database:
        table = database.create_table("flights", partitions=2)
        for number in range(40):
            table.put(b"k%d" % number, b"x" * 200)
        # Two of each: one whose check goes on when the database is closed is removed.
        wait_until(lambda: _has_snapshots(folder, table))
    return folder


def _has_snapshots(folder: Path, table: Table) -> bool:
    """Write more, for another snapshot, until each partition has two."""
    for number in range(40):
        table.put(b"k%d" % number, b"x" * 200)
    found = Counter(path.parts[-3] for path in folder.glob("snapshots/*/*/*/manifest.json"))
    return min(found["0"], found["1"]) >= 2


@pytest.fixture
def data(closed: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(closed, tmp_path / "data"))


def verify(capsys: pytest.CaptureFixture[str], data: Path, *, code: int) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    assert run(["log", "verify", str(data), "--json"]) == code
    *findings, summary = map(json.loads, capsys.readouterr().out.splitlines())
    return findings, summary


def content(data: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in data.rglob("*") if path.is_file()}


def test_nothing_is_damaged_and_nothing_is_changed(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = content(data)
    for path in (data, *data.rglob("*")):
        os.chmod(path, 0o555 if path.is_dir() else 0o444)
    findings, summary = verify(capsys, data, code=0)
    assert findings == []
    assert (summary["partitions"], summary["indexes"]) == (3, 2)
    assert summary["snapshots"] == len(list(data.glob("snapshots/*/*/*")))
    assert summary["damaged"] == 0
    assert summary["bytes"] > 40 * 200
    assert content(data) == before
    assert run(["log", "verify", str(data)]) == 0
    assert capsys.readouterr().out.startswith("nothing is damaged: 3 partitions, 3 segments with ")


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 4
    path.write_bytes(data)


def one(data: Path, pattern: str) -> Path:
    return max(data.glob(pattern))


DAMAGES: dict[str, tuple[str, Callable[[Path], object], str]] = {
    "a segment's first batch": ("log/topics/*/1/*.log", lambda path: flip(path, 90), "is damaged at byte 0"),
    "a topic's file": ("log/topics/*/topic.json", lambda path: flip(path, 30), "topic.json"),
    "an index's meta pages": ("index/*/1/data.mdb", lambda path: flip(path, 20), "The log has everything"),
    "an index that was cut": ("index/*/0/data.mdb", lambda path: os.truncate(path, 8192), "The log has everything"),
    "an index's marker": ("index/*/0/index.json", lambda path: path.write_bytes(b"{"), "The log has everything"),
    "a snapshot's data": ("snapshots/*/0/*/data.mdb", lambda path: flip(path, 9000), "use another snapshot"),
    "a snapshot's manifest": ("snapshots/*/1/*/manifest.json", lambda path: flip(path, 60), "use another snapshot"),
    "the log's marker": ("log/duramen.json", Path.unlink, "restore it from a copy"),
}


@pytest.mark.parametrize("what", DAMAGES)
def test_what_is_damaged(data: Path, capsys: pytest.CaptureFixture[str], what: str) -> None:
    pattern, damage, message = DAMAGES[what]
    path = one(data, pattern)
    damage(path)
    findings, summary = verify(capsys, data, code=1)
    (found,) = (finding for finding in findings if finding["kind"] == "damage")
    assert summary["damaged"] == 1
    assert str(found["file"]) in (str(path), str(path.parent))
    assert message in found["message"]
    assert str(path.parent) in found["message"]
    assert run(["log", "verify", str(data)]) == 1
    assert capsys.readouterr().out.startswith("DAMAGED  ")


def test_a_folder_that_is_open(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with duramen.open(data):
        assert run(["log", "verify", str(data)]) == 7
        said = capsys.readouterr()
        assert said.out == ""
        assert (
            f"{data} is open in another Duramen, process {os.getpid()}, and nothing was verified: stop that" in said.err
        )
        assert "or verify a snapshot of the file system" in said.err
        assert run(["log", "verify", str(data / "log"), "--json"]) == 7
        assert json.loads(capsys.readouterr().err)["error"] == "folder_in_use"
    assert run(["log", "verify", str(data)]) == 0


WRITER = """
import sys, duramen
with duramen.open(sys.argv[1]) as database:
    table = database.table("flights")
    for number in range(1_000_000):
        table.put(b"k%d" % (number % 500), b"x" * 300)
        print(number, flush=True)
"""


def test_files_of_one_point_in_time_are_whole_while_a_process_writes(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A snapshot of the file system, as far as the files go: the writer stands still while they are copied."""
    with subprocess.Popen([sys.executable, "-c", WRITER, str(data)], stdout=subprocess.PIPE, text=True) as writer:
        try:
            assert writer.stdout is not None
            last = 0
            for turn in range(3):
                while last < 200 * (turn + 1):
                    last = int(writer.stdout.readline())
                writer.send_signal(signal.SIGSTOP)
                wait_until(lambda: Path(f"/proc/{writer.pid}/stat").read_text().rpartition(") ")[2][0] == "T")
                copy = shutil.copytree(data, data.parent / f"copy{turn}")
                writer.send_signal(signal.SIGCONT)
                findings, summary = verify(capsys, copy, code=0)
                assert summary["damaged"] == 0
                assert {finding["kind"] for finding in findings} <= {"note"}
                assert summary["bytes"] > last * 300
                with duramen.open(copy) as database:
                    assert database.table("flights").get(b"k%d" % (last % 500)) is not None
        finally:
            writer.kill()


def test_a_folder_of_something_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["log", "verify", str(tmp_path)]) == 2
    assert "is no data folder: name the one that `duramen up --data`" in capsys.readouterr().err


def test_an_index_that_was_in_use_when_the_machine_stopped(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change_marker(one(data, "index/*/0"), lambda fields: fields.update(clean=False, boot_id="another"))
    findings, summary = verify(capsys, data, code=0)
    assert [finding["kind"] for finding in findings] == ["note"]
    assert "was in use when the machine stopped" in findings[0]["message"]
    assert summary["damaged"] == 0
