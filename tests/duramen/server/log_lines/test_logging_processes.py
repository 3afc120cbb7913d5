"""`--log-format json`: every line that a server's processes log is JSON."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from kit.client.command_line import run_here
from kit.client.server_process import START_SECONDS_MAX, ServerProcess, read_line
from kit.deadlines import patience_s
from kit.warm.warm_process import WarmProcess

from duramen.server.log_lines.json_lines import JsonLines
from duramen.server.log_lines.setup import log_format, log_level

pytestmark = pytest.mark.embedded_log_only

FORMAT = ("--log-format", "json", "--log-level", "debug")


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_a_server_logs_json(tmp_path: Path) -> None:
    log = tmp_path / "log"
    server = ServerProcess(tmp_path / "data", log=log, arguments=FORMAT)
    server.close()
    found = lines(log.read_text())
    assert found, "at this level a server says something"
    assert {line["process"] for line in found} == {server.process.pid}


def test_the_processes_of_a_cluster_log_json(tmp_path: Path) -> None:
    data = tmp_path / "data"
    command = [
        sys.executable,
        "-m",
        "duramen",
        "up",
        "--nodes",
        "1",
        "--data",
        str(data),
        "--port",
        "0",
        "--json",
        *FORMAT,
    ]
    names = []
    with (
        (tmp_path / "log").open("wb") as log,
        WarmProcess[bytes](command, stdout=subprocess.PIPE, stderr=log) as process,
    ):
        try:
            while (event := json.loads(read_line(process, START_SECONDS_MAX)))["event"] != "started":
                names.append(event["name"])
        finally:
            process.terminate()
            process.wait(patience_s(60))
    assert sorted(names) == ["log", "n1", "router"]
    for file in (*data.rglob("*.err"), tmp_path / "log"):
        found = lines(file.read_text())
        assert found or file.suffix != ".err", f"{file.name}: at this level a process says something"
        assert {line["level"] for line in found} <= {"debug", "info", "warning", "error"}
    assert len(list(data.rglob("*.err"))) == 3


UNCAUGHT = """
import asyncio, sys, threading, warnings
from duramen.server.log_lines.setup import set_up_logging

set_up_logging("warning", "json")

def fail():
    raise ValueError("in a\\nthread")

class Half:
    def __del__(self):
        raise KeyError("gone")

    def __repr__(self):
        raise OSError("not even shown")

thread = threading.Thread(target=fail, name="follower")
thread.start()
thread.join()
warnings.warn("old\\nfashion", DeprecationWarning)
Half()

async def main():
    asyncio.get_running_loop().call_soon(fail)
    await asyncio.sleep(0)

asyncio.run(main())
raise RuntimeError("the\\nend")
"""


def test_what_python_writes_itself_is_json_too() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "always", "-c", UNCAUGHT], capture_output=True, text=True, timeout=patience_s(60)
    )
    assert done.returncode == 1
    found = lines(done.stderr)
    assert [line["level"] for line in found] == ["error", "warning", "error", "error", "critical"]
    thread, warning, destructor, _, end = found
    assert thread["message"] == "thread follower ended: nobody caught ValueError"
    assert thread["traceback"].endswith("ValueError: in a\nthread")
    assert "old\nfashion" in warning["message"]
    assert "KeyError" in destructor["message"]
    assert end["traceback"].endswith("RuntimeError: the\nend")


def test_another_format_is_refused(tmp_path: Path) -> None:
    for role in (("up",), ("serve", "log")):
        done = run_here(*role, "--data", str(tmp_path / "data"), "--port", "0", "--log-format", "xml")
        assert done.returncode == 2, role
        assert "log" in done.stderr
        assert "json" in done.stderr


@pytest.mark.parametrize(("formatter", "form"), [(JsonLines(), "json"), (logging.Formatter("%(message)s"), "plain")])
def test_a_child_is_asked_to_log_alike(
    monkeypatch: pytest.MonkeyPatch, formatter: logging.Formatter, form: str
) -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(formatter)
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [handler])
    monkeypatch.setattr(root, "level", logging.INFO)
    assert (log_level(), log_format()) == ("info", form)
