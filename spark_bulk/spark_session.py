"""A SparkSession for the command line: quiet, local by default, refused with a reason where it cannot run.

Programs bring their own session; `spark-submit` makes one. Nothing in the other modules opens any.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from log_tier.model.errors import InvalidRequest
from spark_bulk import register

__all__ = ["JAVA_MIN", "START_OPTIONS", "java_problem", "local_session"]

JAVA_MIN: Final = 17
"""Spark 4 runs on no older Java."""

START_OPTIONS: Final = (
    "-XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000 -XX:Tier4CompileThreshold=150000 "
    "-XX:Tier4BackEdgeThreshold=400000"
)
"""Java's optimizing compiler begins after ten times as many calls and loops as by default. A command lives for seconds,
and the compiler took a third of its processor time for code that runs while Spark starts. What a large build repeats
passes these thresholds within seconds as well. The variable SPARK_SUBMIT_OPTS replaces them."""

_INSTALL: Final = "install one (Debian: apt-get install openjdk-17-jre-headless) or set JAVA_HOME"

_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')


def java_problem() -> str:
    """Why Spark cannot start here, with what to do; empty where it can. Starts `java -version` once."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which(str(Path(home) / "bin" / "java")) if home else shutil.which("java")
    if java is None:
        where = f"JAVA_HOME={home} has none" if home else "there is none in PATH"
        return f"Spark needs Java {JAVA_MIN} or newer, and {where}: {_INSTALL}"
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False, timeout=30).stderr
    found = _VERSION.search(said)
    if found is None or int(found[1]) < JAVA_MIN:
        is_ = f"Java {found[1]}" if found else "not one that says its version"
        return f"Spark needs Java {JAVA_MIN} or newer, and {java} is {is_}: {_INSTALL}"
    return ""


@contextmanager
def local_session(app: str, *, master: str | None = None, progress: bool = False) -> Iterator[Any]:
    """A session with the data source registered, stopped at the end. `master`: None takes what `spark-submit` or
    spark-defaults say, else all processors of this machine.

    Raises `InvalidRequest` where Java or PySpark is missing. What Spark refuses in the block, and what fails in its
    tasks, is raised as an error of ours, in one sentence.
    """
    problem = java_problem()
    if problem:
        raise InvalidRequest(problem)
    try:
        from pyspark.sql import SparkSession

        from spark_bulk.runtime.spark_failures import one_line_failures
    except ImportError as error:
        raise InvalidRequest(f"Spark is not installed here: pip install 'duramen[spark]' ({error})") from error
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(app)
    if master is not None:
        builder = builder.master(master)
    if master is None or master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        os.environ.setdefault("SPARK_SUBMIT_OPTS", START_OPTIONS)
        # No dashboard on an open port for a command that ends.
        builder = builder.config("spark.ui.enabled", "false").config("spark.driver.bindAddress", "127.0.0.1")
    builder = builder.config("spark.ui.showConsoleProgress", str(progress).lower())
    with _quiet():
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    # PySpark writes what it refuses to stderr as well, with all of its stack.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    context: Any = session.sparkContext
    gateway = context._gateway
    try:
        register(session)
        with one_line_failures():
            yield session
    finally:
        session.stop()
        gateway.shutdown()
        process = getattr(gateway, "proc", None)
        if process is not None:
            process.stdin.close()
            process.wait(30)


@contextmanager
def _quiet() -> Iterator[None]:
    """Drop the line about its log file that Spark's starter prints before a level can be set."""
    sys.stderr.flush()
    kept = os.dup(2)
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    os.close(null)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
