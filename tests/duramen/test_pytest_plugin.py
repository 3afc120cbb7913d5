"""The pytest plugin, as users have it: in a pytest of its own, without this repository's settings."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from kit.deadlines import patience_s

pytestmark = pytest.mark.embedded_log_only

TOP = Path(__file__).resolve().parents[2]

FIXTURES = """
def test_table(duramen_table, duramen_db, duramen_embedded):
    duramen_table.put(b"key", b"value")
    assert duramen_table.get(b"key") == b"value"
    assert duramen_embedded.restart().table("table").get(b"key") == b"value"

def test_an_empty_one_again(duramen_table):
    assert list(duramen_table.scan()) == []

def test_server(duramen_server):
    import duramen
    with duramen.connect(duramen_server.address) as database:
        assert database.tables() == []
"""

SEEDS = """
import random
from duramen import testing

@testing.simulated(seeds=3)
async def test_seeds():
    print("drawn", random.random())
"""

FAILS = """
from duramen import testing

@testing.simulated(seeds=9)
async def test_fails():
    async with testing.Cluster(nodes=1) as cluster:
        cluster.faults.kill("n1")
        await cluster.level()
"""


def run_pytest(
    folder: Path, text: str, *options: str, plugin: bool = True, path: Path = TOP
) -> subprocess.CompletedProcess[str]:
    """Run a test file. The plugin is named, as this repository need not be installed with its entry point."""
    (folder / "test_it.py").write_text(text)
    named = ["-p", "duramen.pytest_plugin"] if plugin else []
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-W", "error", "-p", "no:cacheprovider", "-q", *named, *options, "test_it.py"],
        cwd=folder,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(path), "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        timeout=patience_s(120),
        check=False,
    )


def test_the_fixtures(tmp_path: Path) -> None:
    done = run_pytest(tmp_path, FIXTURES)
    assert "3 passed" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize(("options", "times"), [((), 3), (("--duramen-seed", "7"), 1), (("--duramen-seeds", "12"), 12)])
def test_the_options(tmp_path: Path, options: tuple[str, ...], times: int) -> None:
    done = run_pytest(tmp_path, SEEDS, "-s", *options)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("drawn") == times


def test_a_failure_says_how_to_repeat_it(tmp_path: Path) -> None:
    done = run_pytest(tmp_path, FAILS)
    assert done.returncode == 1
    assert "n1 is down" in done.stdout
    assert "fault      kill n1" in done.stdout
    assert "--duramen-seed 0" in done.stdout
    again = run_pytest(tmp_path, FAILS, "--duramen-seed", "0")
    assert "n1 is down" in again.stdout


def test_without_the_plugin_the_kit_works(tmp_path: Path) -> None:
    done = run_pytest(tmp_path, SEEDS, plugin=False)
    assert "1 passed" in done.stdout, done.stdout + done.stderr
    done = run_pytest(tmp_path, FIXTURES, plugin=False)
    assert "fixture 'duramen_table' not found" in done.stdout


def test_a_run_without_fixtures_imports_neither_the_kit_nor_grpc(tmp_path: Path) -> None:
    looks = """
import sys

def test_it():
    for name in ("grpc", "lmdb", "duramen.testing", "duramen.client.database"):
        assert name not in sys.modules, name
"""
    done = run_pytest(tmp_path, looks)
    assert "1 passed" in done.stdout, done.stdout + done.stderr


def test_importing_duramen_does_not_import_the_kit() -> None:
    code = "import sys, duramen; assert not {'duramen.testing', 'duramen.pytest_plugin', 'pytest'} & sys.modules.keys()"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=patience_s(60)).returncode == 0
    # Nor does the kit need pytest.
    code = "import sys, duramen.testing; assert not {'duramen.pytest_plugin', 'pytest'} & sys.modules.keys()"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=patience_s(60)).returncode == 0


def test_the_environment_is_left_as_it_was(tmp_path: Path) -> None:
    """One process may run pytest twice."""
    (tmp_path / "test_it.py").write_text("def test_it(): pass")
    code = """
import os, sys, pytest
os.environ["DURAMEN_SEED"] = "3"
for options in (["--duramen-seed", "9", "--duramen-seeds", "8"], []):
    assert pytest.main(["-q", "-p", "duramen.pytest_plugin", "-p", "no:cacheprovider", *options, sys.argv[1]]) == 0
    assert os.environ["DURAMEN_SEED"] == "3" and "DURAMEN_SEEDS" not in os.environ
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(TOP), "PYTEST_ADDOPTS": ""},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=patience_s(60),
    )
    assert done.returncode == 0, done.stdout + done.stderr
