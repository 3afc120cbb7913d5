"""`duramen top`: as lines and on a real terminal, at a server that answers, falls silent, and comes back."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from kit.client.command_line import run_here
from kit.client.server_process import ServerProcess
from kit.deadlines import patience_s

from duramen.blocking import Database


class ScreenProcess:
    """A command on a terminal of 80 × 24, whose output is kept."""

    def __init__(self, *arguments: str) -> None:
        self.ours, theirs = pty.openpty()
        command = [sys.executable, "-m", "duramen", *arguments]
        environment = os.environ | {"TERM": "xterm", "COLUMNS": "80", "LINES": "24"}
        self.process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
        os.close(theirs)
        self.shown = b""

    def until(self, wanted: Callable[[bytes], bool]) -> None:
        """Read what it shows until that is `wanted`, or it ends."""
        deadline = time.monotonic() + patience_s(60)
        while not wanted(self.shown):
            assert time.monotonic() < deadline, self.shown[-2000:]
            if not select.select([self.ours], [], [], 0.2)[0]:
                continue
            try:
                received = os.read(self.ours, 1 << 16)
            except OSError:  # its other end is closed
                return
            if not received:
                return
            self.shown += received

    def type(self, keys: bytes) -> None:
        os.write(self.ours, keys)

    def close(self) -> None:
        with suppress(ProcessLookupError):
            self.process.kill()
        self.process.wait()
        os.close(self.ours)


@pytest.mark.embedded_log_only  # its figures of the log are of one in this process
def test_pages_one_below_the_other(server: ServerProcess, database: Database, table_name: str) -> None:
    table = database.create_table(table_name, partitions=2)
    table.get(b"k", after=table.put(b"k", b"v").token)
    done = run_here("top", "--count", "2", "--interval", "0.1", at=server.target)
    assert (done.returncode, done.stderr) == (0, "")
    first, second, rest = done.stdout.split("\n\nduramen ")[0], done.stdout.partition("\n\nduramen ")[2], done.stderr
    assert first.startswith("duramen ")
    assert rest == ""
    for page in (first, second):
        assert f"{table_name}/0" in page
        assert f"{table_name}/1" in page
    assert "syncs/s" not in first
    assert "syncs/s" in second


def test_nobody_answers_from_the_start() -> None:
    done = run_here("top", "--count", "1", at="127.0.0.1:1")
    assert (done.returncode, done.stdout) == (5, "")
    assert "127.0.0.1:1" in done.stderr


@pytest.mark.parametrize("wrong", [("--interval", "0"), ("--count", "-1"), ("--timeout", "0")])
def test_arguments_that_make_no_sense(wrong: tuple[str, str]) -> None:
    done = run_here("top", "--count", "1", *wrong, at="127.0.0.1:1")
    assert done.returncode in (1, 2)
    assert wrong[0] in done.stderr


@pytest.mark.parametrize(("keys", "code"), [(b"xyz", None), (b"q", 0), (b"xQ", 0), (b"", 130)])
def test_a_key_ends_it_and_the_terminal_is_as_it_was(server: ServerProcess, keys: bytes, code: int | None) -> None:
    terminal = ScreenProcess("top", "--at", server.target, "--interval", "0.2")
    try:
        terminal.until(lambda shown: shown.count(b"memory") >= 2)
        if keys:
            terminal.type(keys)
        else:
            terminal.process.send_signal(signal.SIGINT)
        seen = len(terminal.shown)
        terminal.until(lambda shown: b"\x1b[?1049l" in shown or (code is None and shown.count(b"memory", seen) > 2))
        if code is None:
            assert terminal.process.poll() is None, "a key that means nothing ended it"
            return
        assert terminal.process.wait(patience_s(30)) == code
        assert b"\x1b[?1049h" in terminal.shown, "it did not take the alternate screen"
        assert b"Traceback" not in terminal.shown
        assert b"\x1b[?25h" in terminal.shown, "the cursor is still hidden"
    finally:
        terminal.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_that_ends_it_leaves_the_terminal_as_it_was(server: ServerProcess, number: signal.Signals) -> None:
    terminal = ScreenProcess("top", "--at", server.target, "--interval", "0.2")
    try:
        before = termios.tcgetattr(terminal.ours)
        terminal.until(lambda shown: b"memory" in shown)
        assert termios.tcgetattr(terminal.ours) != before, "it takes single keys"
        terminal.process.send_signal(number)
        terminal.until(lambda shown: b"\x1b[?1049l" in shown)
        assert terminal.process.wait(patience_s(30)) == -number
        assert termios.tcgetattr(terminal.ours) == before
        assert b"\x1b[?25h" in terminal.shown, "the cursor is still hidden"
    finally:
        terminal.close()


def test_a_server_that_goes_away_and_comes_back(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path / "data", log=tmp_path / "log")
    terminal = ScreenProcess("top", "--at", server.target, "--interval", "0.1", "--timeout", "1")
    try:
        terminal.until(lambda shown: b"all is well" in shown)
        server.kill9()
        terminal.until(lambda shown: b"NO ANSWER for" in shown)
        silent = len(terminal.shown)
        server.restart()
        terminal.until(lambda shown: b"NO ANSWER" not in shown[silent:].rpartition(b"duramen 0")[2]
                       and shown[silent:].count(b"memory") > 2)  # fmt: skip
        terminal.type(b"q")
        assert terminal.process.wait(patience_s(30)) == 0
    finally:
        terminal.close()
        server.close()


def test_a_reader_that_has_seen_enough(server: ServerProcess) -> None:
    command = [sys.executable, "-m", "duramen", "top", "--at", server.target, "--interval", "0.1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith(b"duramen ")
        process.stdout.close()
        assert process.wait(patience_s(30)) == 1
        assert process.stderr is not None
        assert process.stderr.read() == b""


def test_help_names_the_keys() -> None:
    assert "`q` or Ctrl-C" in run_here("top", "--help").stdout
