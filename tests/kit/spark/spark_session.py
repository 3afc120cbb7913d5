"""One Spark per pytest process, for tests marked `spark`.

A session takes some ten seconds to start, so it is shared by all tests of a process; a test that needs another setting
sets it and puts it back. Ports are free ones, the UI is off, and everything that Spark writes lies below one temporary
folder.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from kit.deadlines import patience_s
from kit.spark.class_archive import archive_option, make_archive
from spark_bulk.spark_session import java_problem

__all__ = ["prepare_starts", "spark", "start_spark"]

QUICK_START: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""A Java process of a test lives for seconds: the optimizing compiler costs it more than its code gains."""

_OPTIONS: Final = "SPARK_SUBMIT_OPTS"
"""Spark's starter gives these to the Java process of every session: of this process, and of those that it starts."""

os.environ.setdefault(_OPTIONS, f"{QUICK_START} {archive_option()}".strip())


def prepare_starts() -> None:
    """Make the archive of Spark's classes where there is none, for this process and what it starts."""
    if os.environ[_OPTIONS] == QUICK_START:
        make_archive(QUICK_START)
        os.environ[_OPTIONS] = f"{QUICK_START} {archive_option()}".strip()


def start_spark(folder: Path, *, master: str = "local[2, 3]", **settings: str) -> Any:
    """A session that keeps everything below `folder`. A task may fail twice in `local[2, 3]` before its job does."""
    from pyspark.sql import SparkSession

    folder.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    # Its workers run this Python, which has our packages; the setting of the same name is not looked at everywhere.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    every = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.local.dir": str(folder / "local"),
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={folder / 'derby'} -Djava.io.tmpdir={folder}",
        "spark.executor.extraJavaOptions": QUICK_START,
        "spark.sql.streaming.stopTimeout": "30s",
        **{name.replace("_", "."): value for name, value in settings.items()},
    }
    builder = SparkSession.builder.master(master).appName("duramen-tests")
    for name, value in every.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The process's Spark, with the data source `duramen` registered; skipped with a message where there is no Java."""
    reason = java_problem()
    if reason:
        pytest.skip(reason)
    import spark_bulk

    session = start_spark(tmp_path_factory.mktemp("spark"))
    spark_bulk.register(session)
    yield session
    gateway = session.sparkContext._gateway
    session.stop()
    # The Java process belongs to this one; its pipes are closed with it.
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(patience_s(30))
