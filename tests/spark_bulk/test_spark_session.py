"""The session of a command, as a user starts it: without the settings of these tests."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from kit.deadlines import patience_s

from spark_bulk.spark_session import START_OPTIONS, java_problem

_PROGRAM = """
from pathlib import Path
from spark_bulk.spark_session import local_session
with local_session("test", master="local[1]") as spark:
    java = spark.sparkContext._gateway.proc.pid
    print(Path(f"/proc/{java}/cmdline").read_text().replace("\\0", "\\n"))
    print("rows", spark.range(3).count())
"""


@pytest.mark.spark
@pytest.mark.parametrize("chosen", [None, "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"])
def test_java_starts_with_options_for_short_lives_or_with_those_of_the_user(chosen: str | None) -> None:
    if reason := java_problem():
        pytest.skip(reason)
    environment = {name: value for name, value in os.environ.items() if name != "SPARK_SUBMIT_OPTS"}
    if chosen is not None:
        environment["SPARK_SUBMIT_OPTS"] = chosen
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        env=environment,
        capture_output=True,
        text=True,
        timeout=patience_s(100),
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines[-1] == "rows 3", done.stdout
    found = {each for each in lines if each in {*START_OPTIONS.split(), *(chosen or "").split()}}
    assert found == set((START_OPTIONS if chosen is None else chosen).split()), done.stdout
