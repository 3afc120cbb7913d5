"""A process that is forked from a warm one is what a cold start gives."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from kit.deadlines import patience_s
from kit.warm.warm_process import WarmProcess, run_warm

SEEN = """
import gc, json, os, resource, sys
print(json.dumps({
    "arguments": sys.argv,
    "name": __name__,
    "path": sys.path[0],
    "environment": dict(os.environ),
    "folder": os.getcwd(),
    "parent": os.getppid(),
    "files": resource.getrlimit(resource.RLIMIT_NOFILE),
    "mask": os.umask(0),
    "open": sorted(os.listdir("/proc/self/fd"))[:-1],
    "collects": gc.isenabled(),
    "unread": sys.stdin.read(),
    "warm": "duramen.server.roles.all_in_one" in sys.modules,
}))
print("of errors", file=sys.stderr)
sys.exit(3)
"""

PLACES = [[sys.executable, "-c", SEEN, "one", "two"], [sys.executable, "-S", "-c", SEEN, "one", "two"]]
"""The first one is forked. The second has an option of the interpreter."""


def seen(command: list[str], folder: Path, **options: Any) -> dict[str, Any]:
    done = run_warm(command, given=b"what is given", timeout=patience_s(60), cwd=folder, **options)
    assert (done.returncode, done.stderr) == (3, b"of errors\n")
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


def test_it_is_as_one_that_was_started(tmp_path: Path) -> None:
    environment = {**os.environ, "OF_THIS_TEST": "1"}
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    before = os.umask(0o027)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft - 1, hard))
        warm, cold = (seen(command, tmp_path, env=environment) for command in PLACES)
    finally:
        os.umask(before)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert (warm.pop("warm"), cold.pop("warm")) == (True, False)
    assert warm == cold
    assert (warm["parent"], warm["mask"], warm["files"]) == (os.getpid(), 0o027, [soft - 1, hard])
    assert warm["environment"]["OF_THIS_TEST"] == "1"


def test_variables_that_are_read_at_the_start_start_one(tmp_path: Path) -> None:
    found = seen(PLACES[0], tmp_path, env={**os.environ, "PYTHONHASHSEED": "7"})
    assert not found["warm"]


def test_a_signal_ends_it() -> None:
    code = "import signal; print('ready', flush=True); signal.pause()"
    for number in (signal.SIGTERM, signal.SIGKILL):
        with WarmProcess[bytes]([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            assert process.poll() is None
            process.send_signal(number)
            assert process.wait(patience_s(60)) == -number


def test_an_interrupt_is_one_of_the_keyboard() -> None:
    code = """
import signal
try:
    print("ready", flush=True)
    signal.pause()
except KeyboardInterrupt:
    print("interrupted")
"""
    with WarmProcess[bytes]([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGINT)
        assert process.stdout.read() == b"interrupted\n"
    assert process.returncode == 0


def test_it_is_warm_where_the_tests_have_another_environment_by_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command that ran here may have set a variable for gRPC: later starts are forks of a process that has it."""
    assert seen(PLACES[0], tmp_path)["warm"]
    monkeypatch.setenv("GRPC_OF_A_TEST", "1")
    found = seen(PLACES[0], tmp_path)
    assert (found["warm"], found["environment"]["GRPC_OF_A_TEST"]) == (True, "1")
    monkeypatch.undo()
    assert seen(PLACES[0], tmp_path)["warm"]


def test_what_a_forked_process_leaves_is_no_child_of_the_tests() -> None:
    """It would stay, ended, until somebody waits for it, and look as if it ran."""
    code = "import os, time; print(os.fork() or time.sleep(600), flush=True); os._exit(0)"
    with WarmProcess[str]([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        left = int(process.stdout.readline())
        process.wait(patience_s(60))
        parent = int(Path(f"/proc/{left}/stat").read_text().rpartition(")")[2].split()[1])
        os.kill(left, signal.SIGKILL)
    assert parent not in (os.getpid(), process.pid)


@pytest.mark.parametrize("command", [["true"], [sys.executable, "-c"], f"{sys.executable} -c pass"])
def test_any_other_command_is_started(command: list[str] | str) -> None:
    shell = isinstance(command, str)
    assert WarmProcess[bytes](command, shell=shell, stderr=subprocess.DEVNULL).wait(patience_s(60)) in (0, 2)
