"""Faults of the process and the machine around it, with real processes, real files and real full disks.

`make test` runs a short version of what is marked `campaign`; with `DURAMEN_CAMPAIGN=1` it runs at full length.
"""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from kit.client.server_process import ServerProcess, run_duramen
from kit.deadlines import wait_until

import duramen
from duramen.blocking import Database, Table
from log_tier.model.errors import DiskFull, Unavailable, WriteUnknown
from log_tier.model.partitioner import partition_of

FULL = os.environ.get("DURAMEN_CAMPAIGN") == "1"
KILLS_PUTS = 50 if FULL else 3
KILLS_LOAD = 60 if FULL else 3

# A kill comes when this many writes were acknowledged, or rows loaded: from "in the first sync" to "well under way".
ACKNOWLEDGED_MAX = 400
ROWS = 40_000

NewServer = Callable[[Path], ServerProcess]


def run_up(data: Path, *, port: int = 0) -> subprocess.CompletedProcess[str]:
    """A server that is expected to refuse to start."""
    return run_duramen("up", "--data", str(data), "--port", str(port))


class TestStartAndStop:
    def test_sigterm_and_sigint_stop_cleanly(self, new_server: NewServer, tmp_path: Path) -> None:
        server = new_server(tmp_path / "data")
        with server.connect() as database:
            database.create_table("t", partitions=2).put(b"k", b"v")
        for number in (signal.SIGTERM, signal.SIGINT):
            code, said = server.stop(number)
            assert (code, said) == (0, [{"event": "stopping", "signal": number.name}, {"event": "stopped"}])
            server.start()
            assert server.announcement["recovery"] == {"cuts": [], "damages": [], "notes": []}
            assert [table["table"] for table in server.announcement["tables"]] == ["t"]
            with server.connect() as database:
                assert database.table("t").get(b"k", level="strong") == b"v"

    def test_sigterm_ends_a_watch_and_keeps_what_was_written(self, new_server: NewServer, tmp_path: Path) -> None:
        server = new_server(tmp_path / "data")
        with server.connect(timeout=5) as database:
            table = database.create_table("t", partitions=1)
            changes = table.watch(start="earliest")
            done = table.put(b"k", b"v")
            assert next(changes).offset == done.offset
            assert server.stop()[0] == 0
            server.start(port=server.announcement["port"])
            again = table.put(b"k", b"w")
            assert next(changes).offset == again.offset == done.offset + 1
            changes.close()

    def test_the_banner_for_people(self, tmp_path: Path) -> None:
        command = [sys.executable, "-m", "duramen", "up", "--port", "0", "--data", str(tmp_path / "data")]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            banner = ""
            while "stop" not in banner:
                line = process.stdout.readline()
                assert line, banner
                banner += line
            process.terminate()
            rest = process.stdout.read()
        assert process.returncode == 0
        assert rest == "SIGTERM: stopping\nstopped cleanly\n"
        assert str(tmp_path / "data") in banner
        assert "nothing to recover" in banner
        assert "duramen.connect(" in banner

    @pytest.mark.own_log
    def test_a_second_server_on_the_same_folder(self, new_server: NewServer, tmp_path: Path) -> None:
        server = new_server(tmp_path / "data")
        done = run_up(server.data)
        assert done.returncode == 1
        assert done.stdout == ""
        (line,) = done.stderr.splitlines()
        assert line.startswith("error: ")
        assert f"is open in another Duramen, process {server.process.pid}" in line
        with pytest.raises(duramen.FolderInUse):
            duramen.open(server.data)
        with server.connect() as database:
            database.create_table("t").put(b"k", b"v")

    def test_a_port_in_use(self, tmp_path: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
            done = run_up(tmp_path / "data", port=port)
        assert done.returncode == 1
        (line,) = done.stderr.splitlines()
        assert line.startswith(f"error: port {port} on 127.0.0.1 cannot be ")
        assert "--port" in line
        assert not (tmp_path / "data").exists()

    @pytest.mark.parametrize("what", ["foreign folder", "file", "foreign log"])
    def test_a_folder_of_somebody_else(self, tmp_path: Path, what: str) -> None:
        data = tmp_path / "data"
        if what == "file":
            data.write_text("x")
        elif what == "foreign log":
            (data / "log").mkdir(parents=True)
            (data / "log" / "access.log").write_text("x")
        else:
            data.mkdir()
            (data / "photo.jpg").write_text("x")
        before = sorted(str(path) for path in tmp_path.rglob("*"))
        done = run_up(data)
        assert done.returncode == 1
        (line,) = done.stderr.splitlines()
        assert line.startswith("error: ")
        assert "folder" in line
        assert sorted(str(path) for path in tmp_path.rglob("*")) == before


def mounted(folder: Path, *options: str) -> None:
    """Mount a small tmpfs, or skip the test saying what it needs."""
    if os.geteuid() != 0:
        pytest.skip("needs root: it mounts a small file system")
    folder.mkdir(exist_ok=True)
    done = subprocess.run(
        ["mount", "-t", "tmpfs", *options, "tmpfs", str(folder)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.skip(f"needs the right to mount a tmpfs: {done.stderr.strip()}")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 24 MiB, unmounted at the end."""
    folder = tmp_path / "disk"
    mounted(folder, "-o", "size=24m")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


class TestDisks:
    @pytest.mark.own_log
    def test_a_read_only_file_system(self, new_server: NewServer, small_disk: Path) -> None:
        data = small_disk / "data"
        server = new_server(data)
        with server.connect() as database:
            database.create_table("t", partitions=1).put(b"k", b"v")
        server.stop()
        subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
        try:
            for folder in (data, small_disk / "new"):
                done = run_up(folder)
                assert done.returncode == 1, done.stderr
                (line,) = done.stderr.splitlines()
                assert line.startswith("error: ")
                assert "cannot be opened or written: Read-only file system" in line
        finally:
            subprocess.run(["mount", "-o", "remount,rw", str(small_disk)], check=True)
        server.start()
        with server.connect() as database:
            assert database.table("t").get(b"k", level="strong") == b"v"

    @pytest.mark.own_log
    def test_a_full_disk_serves_reads_and_takes_writes_again_when_space_returns(
        self, new_server: NewServer, small_disk: Path
    ) -> None:
        server = new_server(small_disk / "data")
        acknowledged: dict[bytes, int] = {}
        value = b"x" * 50_000
        with server.connect(timeout=10) as database:
            table = database.create_table("t", partitions=1)
            ballast = small_disk / "ballast"
            free = os.statvfs(small_disk)
            ballast.write_bytes(bytes(free.f_bavail * free.f_frsize - 6 * 1024 * 1024))
            with pytest.raises(DiskFull, match="free space"):
                fill(table, value, acknowledged)
            refused = run_duramen("put", "t", "k", "v" * 50_000, "--timeout", "3", at=server.target)
            assert refused.returncode == 5, refused.stderr

            done = dict(acknowledged)
            key, offset = next(iter(done.items()))
            # The index is on the same disk: it may lack room for the newest writes, which a session's read waits for.
            entry = table.get_entry(key, level="eventual")
            assert entry is not None
            assert (entry.value, entry.version) == (value, offset)

            ballast.unlink()
            wait_until(lambda: writes(table, b"after", value), what="writes are taken again")
            assert table.get(b"after", level="strong") == value
            check_acknowledged(table, done)
        server.restart()
        with server.connect() as database:
            check_acknowledged(database.table("t"), done)


def fill(table: Table, value: bytes, acknowledged: dict[bytes, int]) -> None:
    for number in range(1000):
        key = b"fill%05d" % number
        acknowledged[key] = table.put(key, value).offset
    pytest.fail("the disk took 50 MB more than it has room for")


def writes(table: Table, key: bytes, value: bytes) -> bool:
    try:
        table.put(key, value)
    except (Unavailable, WriteUnknown):
        return False
    return True


def check_acknowledged(table: Table, acknowledged: dict[bytes, int]) -> None:
    """Every key is there, last written at exactly the offset that its writer was told."""
    assert acknowledged
    for key, offset in acknowledged.items():
        entry = table.get_entry(key, level="strong")
        assert entry is not None, f"{key!r}, acknowledged at {offset}, is gone"
        assert entry.version == offset, f"{key!r} was acknowledged at {offset} and has {entry.version}"


WRITER = """
import sys, duramen
database = duramen.connect(sys.argv[1], timeout=30)
table = database.table("t")
number = 0
while True:
    key = b"%s-%d" % (sys.argv[2].encode(), number)
    try:
        done = table.put(key, key)
    except duramen.DuramenError as error:
        print("error", error.code, key.decode(), flush=True)
    else:
        print(done.partition, done.offset, key.decode(), flush=True)
    number += 1
"""


@pytest.mark.campaign
@pytest.mark.timeout(3600 if FULL else 180)
def test_kill_9_while_others_put(new_server: NewServer, tmp_path: Path) -> None:
    """Writers in processes of their own; after each kill every acknowledged write is at its offset in the log."""
    server = new_server(tmp_path / "data")
    with server.connect() as database:
        database.create_table("t", partitions=3)
    acknowledged: dict[tuple[int, int], bytes] = {}
    chance = random.Random(20131231)
    for kill in range(KILLS_PUTS):
        before = len(acknowledged)
        writers = [Writer(server.target, f"{kill}-{number}") for number in range(2)]
        try:
            moment = chance.randint(2, ACKNOWLEDGED_MAX)
            wait_until(partial(acknowledgements_reach, writers, moment), what=f"{moment} writes are acknowledged")
            server.kill9()
        finally:
            for writer in writers:
                writer.stop()
        for line in (line for writer in writers for line in writer.lines):
            partition, offset, key = line.split()
            if partition != "error":
                assert (int(partition), int(offset)) not in acknowledged, f"offset {offset} was given away twice"
                acknowledged[int(partition), int(offset)] = key.encode()
        assert len(acknowledged) > before
        server.restart()
        assert server.announcement["recovery"]["damages"] == []
        with server.connect() as database:
            check_log(database, "t", acknowledged)


class Writer:
    """A process that puts for as long as it lives; its acknowledgements, line by line."""

    def __init__(self, target: str, name: str) -> None:
        self.lines: list[str] = []
        self._process = subprocess.Popen(
            [sys.executable, "-c", WRITER, target, name], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.lines.append(line)

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()
        if self.lines and not self.lines[-1].endswith("\n"):
            self.lines.pop()


def check_log(database: Database, name: str, acknowledged: dict[tuple[int, int], bytes]) -> None:
    """Every acknowledged write is in the change feed at its place, once, and its key has that version."""
    table = database.table(name)
    ends: dict[int, int] = {part.partition: part.latest for part in table.describe().partitions}
    found: dict[tuple[int, int], bytes] = {}
    changes = table.watch(start="earliest")
    missing = set(acknowledged)
    assert all(offset <= ends[partition] for partition, offset in missing)
    while missing:
        change = next(changes)
        place = (change.partition, change.offset)
        assert place not in found
        found[place] = change.key
        missing.discard(place)
    changes.close()
    assert {place: found[place] for place in acknowledged} == acknowledged
    versions = {key: offset for (_, offset), key in acknowledged.items()}
    for key in random.Random(1).sample(sorted(versions), min(200, len(versions))):
        entry = table.get_entry(key, level="strong")
        assert entry is not None
        assert (entry.value, entry.version) == (key, versions[key])


@pytest.mark.campaign
@pytest.mark.timeout(3600 if FULL else 180)
def test_kill_9_during_load(new_server: NewServer, tmp_path: Path) -> None:
    """The server is killed while `duramen load` runs, which waits for it or is run again: each row is there once."""
    server = new_server(tmp_path / "data")
    chance = random.Random(336776)
    interrupted = 0
    for kill in range(KILLS_LOAD):
        name = f"t{kill}"
        path = tmp_path / f"{name}.csv"
        path.write_text("id,n\n" + "".join(f"{name}-{number:06},{number}\n" for number in range(ROWS)))
        with server.connect() as database:
            database.create_table(name, partitions=3)
        arguments = ["load", name, str(path), "-k", "id", "--json", "--at", server.target]
        load = subprocess.Popen([sys.executable, "-m", "duramen", *arguments], stdout=subprocess.PIPE)
        try:
            moment = chance.randint(1, ROWS * 3 // 4)
            with server.connect() as database:
                wait_until(partial(records_reach, database, name, moment), what=f"{moment} rows are loaded")
            interrupted += load.poll() is None
            server.restart()
            output, _ = load.communicate(timeout=120)
        finally:
            if load.poll() is None:
                load.kill()
                load.communicate()
        if load.returncode:
            output = run_duramen(*arguments).stdout.encode()
        summary = json.loads(output)
        assert summary["written"] + summary["skipped"] == ROWS
        with server.connect() as database:
            table = database.table(name)
            found = list(table.scan(after=summary["token"]))
            assert [key for key, _ in found] == [b"%s-%06d" % (name.encode(), number) for number in range(ROWS)]
            # Each row took effect once: what a retry wrote again is void and no change.
            taken = [0] * 3
            for key, _ in found:
                taken[partition_of(key, 3)] += 1
            assert [part.keys for part in table.describe().partitions] == taken
            assert count_changes(table) == ROWS
        path.unlink()
        with server.connect() as database:
            database.drop_table(name)
    assert interrupted >= KILLS_LOAD // 2, f"only {interrupted} of {KILLS_LOAD} kills came before the load had ended"


def acknowledgements_reach(writers: list[Writer], count: int) -> bool:
    return sum(len(writer.lines) for writer in writers) >= count


def records_reach(database: Database, name: str, count: int) -> bool:
    return sum(part.latest + 1 for part in database.describe_table(name).partitions) >= count


def count_changes(table: Table) -> int:
    """Changes from the beginning up to one that was put last as a mark in every partition."""
    marks: dict[int, bytes] = {}
    for number in range(1000):
        key = b"mark%d" % number
        marks.setdefault(partition_of(key, 3), key)
    for key in marks.values():
        table.put(key, b"")
    left, count = set(marks.values()), 0
    changes = table.watch(start="earliest")
    while left:
        change = next(changes)
        if change.key in left:
            left.discard(change.key)
        else:
            count += 1
    changes.close()
    return count
