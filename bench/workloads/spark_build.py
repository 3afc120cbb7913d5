"""Building a version by Spark, compared with Spark writing the same sorted rows to Parquet, and with loading them
through the log. And what its workers need of memory.

The rows lie in Parquet files before the clock starts: each side reads them, sorts them, and writes them into four
partitions. One session on two threads for each run, which shares this machine's cores with the server.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any, Final

from bench.callers import run_async
from bench.drivers.duramen import PARTITIONS, TABLE, Duramen
from bench.workload import Bar, Measurement, RunSettings, Side, Workload
from bench.workloads.spark_source import BOTH_NEEDS, NEEDS, made_rows, standby_version

__all__ = ["SPARK_BUILD"]

_ROWS: Final = 10_000_000
_MANY_ROWS: Final = 40_000_000
_QUICK_DIVISOR: Final = 10

_LOOK_S: Final = 0.2


@contextmanager
def _peak_of_workers() -> Iterator[list[float]]:
    """The most that one of Spark's Python workers had in memory, in MiB, mapped pages included; read at the end."""
    peak, stop = [0.0], threading.Event()

    def look() -> None:
        while not stop.wait(_LOOK_S):
            for process in Path("/proc").glob("[0-9]*"):
                try:
                    if b"pyspark.daemon" not in (process / "cmdline").read_bytes():
                        continue
                    for line in (process / "status").read_text().splitlines():
                        if line.startswith("VmHWM:"):
                            peak[0] = max(peak[0], int(line.split()[1]) / 1024)
                except OSError:  # it ended meanwhile
                    continue

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    try:
        yield peak
    finally:
        stop.set()
        watcher.join()


def _count(settings: RunSettings, rows: int) -> int:
    return rows // _QUICK_DIVISOR if settings.quick else rows


def _input(spark: Any, settings: RunSettings, rows: int) -> Any:
    files = str(settings.folder / "input")
    made_rows(spark, rows).write.option("compression", "none").parquet(files)
    return spark.read.parquet(files)


def _parquet(settings: RunSettings) -> Measurement:
    from spark_bulk.spark_session import local_session

    rows = _count(settings, _ROWS)
    with local_session("bench", master="local[2]") as spark:
        frame = _input(spark, settings, rows)
        began = perf_counter()
        placed = frame.repartition(PARTITIONS, "key").sortWithinPartitions("key")
        placed.write.option("compression", "none").parquet(str(settings.folder / "sorted"))
        seconds = perf_counter() - began
    return Measurement(
        {"records_per_second": rows / seconds}, standby_version("Parquet"), f"{rows:,} rows, not compressed"
    )


async def _on_server(
    settings: RunSettings, rows: int, work: Callable[[Any, Any, dict[str, str]], None], note: str
) -> Measurement:
    from spark_bulk.spark_session import local_session

    driver = Duramen()
    await driver.start(settings.folder)

    def spark_part() -> tuple[float, float]:
        with local_session("bench", master="local[2]") as spark, _peak_of_workers() as peak:
            frame = _input(spark, settings, rows)
            began = perf_counter()
            work(spark, frame, {"at": driver.address, "table": TABLE})
            return perf_counter() - began, peak[0]

    try:
        seconds, peak = await asyncio.to_thread(spark_part)
    finally:
        await driver.stop()
    metrics = {"records_per_second": rows / seconds, "resident_mebibytes": peak}
    return Measurement(metrics, standby_version(driver.version), f"{rows:,} rows, {note}")


def _build(settings: RunSettings, rows: int) -> Measurement:
    from spark_bulk.build.version_build import build_index

    url = f"file://{settings.folder / 'version'}"

    def work(spark: Any, frame: Any, place: dict[str, str]) -> None:
        version = build_index(frame, at=place["at"], table=place["table"], key="key", value="value", url=url)
        if version.keys != rows:
            raise AssertionError(f"{version.keys} keys of {rows} rows")

    return run_async(_on_server(settings, rows, work, "built, synced, stored and read back; memory is of one worker"))


def _through_the_log(settings: RunSettings) -> Measurement:
    def work(spark: Any, frame: Any, place: dict[str, str]) -> None:
        import duramen

        frame.write.format("duramen").options(**place).mode("append").save()
        with duramen.connect(place["at"], timeout=600) as database:
            next(iter(database.table(TABLE).scan(limit=1, level="strong")))

    rows = _count(settings, _ROWS)
    return run_async(_on_server(settings, rows, work, "written by Spark through the log, until they can be read"))


BUILD: Final = Workload(
    "spark_build",
    f"a version of {_ROWS:,} rows of 100 bytes built by Spark",
    (
        Side("duramen", "subject", lambda settings: _build(settings, _count(settings, _ROWS)), BOTH_NEEDS),
        Side("parquet", "floor", _parquet, NEEDS),
        Side("through the log", "peer", _through_the_log, BOTH_NEEDS),
    ),
    (
        Bar("records_per_second", "at least", 0.5, "parquet"),
        Bar("records_per_second", "at least", 3, "through the log"),
    ),
    runs_max=3,
)

MEMORY: Final = Workload(
    "spark_build_memory",
    f"the memory of a worker, {_MANY_ROWS:,} rows against {_ROWS:,}",
    (
        Side("duramen", "subject", lambda settings: _build(settings, _count(settings, _MANY_ROWS)), BOTH_NEEDS),
        Side("a quarter of it", "floor", lambda settings: _build(settings, _count(settings, _ROWS)), BOTH_NEEDS),
    ),
    (Bar("resident_mebibytes", "at most", 1.2, "a quarter of it"),),
    runs_max=1,
)

SPARK_BUILD: Final = (BUILD, MEMORY)
