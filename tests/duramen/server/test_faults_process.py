"""Faults of the machine around a server, with real processes: stops, ports and folders in use, full disks."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kit.client.command_line import run_here
from kit.client.server_process import ServerProcess
from kit.deadlines import wait_until

import duramen
from duramen.blocking import Table
from log_tier.model.errors import DiskFull, Unavailable, WriteUnknown

NewServer = Callable[[Path], ServerProcess]


def run_up(data: Path, *, port: int = 0) -> subprocess.CompletedProcess[str]:
    """A server that is expected to refuse to start."""
    return run_here("up", "--data", str(data), "--port", str(port))


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
        with server.connect(timeout=60) as database:  # longer than the server is away, on a busy machine too
            table = database.create_table("t", partitions=1)
            changes = table.watch(start="earliest")
            done = table.put(b"k", b"v")
            assert next(changes).offset == done.offset
            assert server.stop()[0] == 0
            server.start()
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

    @pytest.mark.embedded_log_only
    def test_a_second_server_on_the_same_folder(self, new_server: NewServer, tmp_path: Path) -> None:
        server = new_server(tmp_path / "data")
        done = run_up(server.data)
        assert done.returncode == 7
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
    def test_a_folder_of_another_user(self, tmp_path: Path, what: str) -> None:
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
        assert done.returncode in (1, 2)  # 2: with a log elsewhere, one in the folder is a mistake of the call
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
    @pytest.mark.embedded_log_only
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

    @pytest.mark.embedded_log_only
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
            refused = run_here("put", "t", "k", "v" * 50_000, "--timeout", "3", at=server.target)
            assert refused.returncode == 5, refused.stderr

            done = dict(acknowledged)
            key, offset = next(iter(done.items()))
            # The index is on the same disk: it may be too full for the newest writes, which a session's read waits for.
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
    """Every key is there, last written at exactly the offset that its writer got."""
    assert acknowledged
    for key, offset in acknowledged.items():
        entry = table.get_entry(key, level="strong")
        assert entry is not None, f"{key!r}, acknowledged at {offset}, is gone"
        assert entry.version == offset, f"{key!r} was acknowledged at {offset} and has {entry.version}"
