"""Every disk call with which a serving node takes its folder fails once, in a real process: it ends with a typed error
that names the file, and the next start on a whole disk is the same node."""

from __future__ import annotations

import errno
import json
import sys
from pathlib import Path

import pytest
from kit.deadlines import patience_s
from kit.disk_calls.call_faults import CallFault, CallPoint, DiskCalls
from kit.warm.warm_process import run_warm

pytestmark = pytest.mark.embedded_log_only

ERRORS = (errno.EIO, errno.ENOSPC, errno.EACCES)
CODES = {"disk_failed", "disk_full", "folder_read_only"}


def start(root: Path, calls: DiskCalls | None = None) -> tuple[int, dict[str, str]]:
    """A node whose log does not answer: it takes its folder first, and then says that. Its exit code and its error.

    `calls` are put between the process and its disk when it begins, so it is no fork; without them it is one.
    """
    command = f"-m duramen serve node --id n2 --data {root} --log grpc://127.0.0.1:9 --port 0 --json"
    environment = None if calls is None else calls.environment()
    done = run_warm([sys.executable, *command.split()], env=environment, text=True, timeout=patience_s(60))
    (line,) = done.stderr.splitlines()
    error: dict[str, str] = json.loads(line)
    return done.returncode, error


def test_a_node_whose_folder_fails_says_which_file(tmp_path: Path) -> None:
    healthy = DiskCalls(tmp_path / "healthy", tmp_path / "calls")
    assert start(healthy.root, healthy)[1]["error"] == "disconnected"
    points = sorted(healthy.points())
    assert {("open", "node.lock"), ("sync", "node.json.new"), ("rename", "node.json.new")} <= set(points)
    for number, (call, kind) in enumerate(points):
        fault = CallFault(CallPoint(call, kind, 0), ERRORS[number % len(ERRORS)])
        calls = DiskCalls(tmp_path / f"n{number}", tmp_path / f"calls{number}", fault)
        code, error = start(calls.root, calls)
        (failed,) = calls.failed()
        assert code > 0
        assert error["error"] in CODES, f"{fault}: {error}"
        assert str(Path(failed).parent) in error["message"], f"{fault}: {error}"
        assert "the node did not start" in error["message"]
        assert start(calls.root)[1]["error"] == "disconnected"
        assert json.loads((calls.root / "node.json").read_bytes())["id"] == "n2"
