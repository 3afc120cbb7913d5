"""What a newcomer does wrong gets one line that says what to do, and never a traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from kit.client.command_line import run_here
from kit.deadlines import patience_s

pytestmark = pytest.mark.embedded_log_only

# A Python in which the packages of the extra `spark` are not installed: neither their files nor their metadata.
_WITHOUT_SPARK = """
import importlib.metadata, sys
for missing in ("pyspark", "pyarrow", "pandas"):
    sys.modules[missing] = None
found = importlib.metadata.version
def version(name):
    if name in ("pyspark", "pyarrow", "pandas"):
        raise importlib.metadata.PackageNotFoundError(name)
    return found(name)
importlib.metadata.version = version
from duramen.cli import run
sys.exit(run(sys.argv[1:]))
"""


@pytest.mark.parametrize(
    "command",
    [
        ["bulk", "build", "ships", "ships.parquet", "--key", "id", "--url", "bulk/1"],
        ["repush", "ships", "--url", "bulk/2"],
        ["export", "ships", "exports/ships"],
        ["export", "ships", "exports/ships", "--changes"],
    ],
    ids=lambda command: " ".join(command[:2]),
)
def test_commands_of_spark_without_the_extra(command: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT_SPARK, *command],
        capture_output=True,
        text=True,
        timeout=patience_s(60),
        check=False,
    )
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: the package pyspark is not installed: pip install 'duramen[spark]'")


def test_an_option_before_its_command() -> None:
    done = run_here("--at", "localhost:7070", "get", "flights", "UA1545")
    assert done.returncode == 2
    assert done.stderr == "error: No such option: --at: options stand behind the command (see `duramen --help`)\n"


@pytest.mark.parametrize("nodes", [[], ["--nodes", "3"]], ids=["one process", "a cluster"])
def test_a_folder_that_cannot_be_made(nodes: list[str], tmp_path: Path) -> None:
    """/proc/self takes no folder from anybody, root included."""
    done = run_here("up", *nodes, "--data", "/proc/self/nothing", "--port", "0")
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: ")
    assert "/proc/self/nothing" in line
    assert "try again" in line or "choose another folder" in line


def test_a_table_is_not_cut_where_nobody_sees_its_width(tmp_path: Path) -> None:
    """Piped into another program, 80 columns would cost an address its port."""
    program = (
        "from duramen.cli.terminal.output import say_table\n"
        "say_table(['node', 'address'], [['n1', 'replica-1.serving.example.org:41231' + 'x' * 80]])"
    )
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=True)
    assert "replica-1.serving.example.org:41231" + "x" * 80 in done.stdout
    narrow = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env={**environment, "COLUMNS": "40"},
        check=True,
    )
    assert "…" not in narrow.stdout
    assert max(map(len, narrow.stdout.splitlines())) <= 40
