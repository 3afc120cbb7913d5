"""Spark's data source: reading a table compared with reading the same rows from Parquet, and the stream of its changes.

Each run has a Spark of its own on two threads, which shares this machine's cores with the server. The rows are made by
Spark: keys of 17 random digits, values of 100 random bytes, in four partitions or files. What is read is thrown away
(`noop`), so that nothing but the way into Spark is timed. Each side reads once before, which warms files and Java; the
median of three more counts.

The table is read as it is meant to be read in bulk: from a snapshot in a store on this machine, every byte of it
checked on the way.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from time import perf_counter
from typing import Any, Final

from bench.callers import run_async
from bench.drivers.duramen import PARTITIONS, SERVER_NEEDS, TABLE, Duramen
from bench.workload import Bar, Measurement, Needs, RunSettings, Side, Workload

__all__ = ["BOTH_NEEDS", "NEEDS", "SPARK_SOURCE", "made_rows", "standby_version"]

ROWS: Final = 4_000_000
_QUICK_DIVISOR: Final = 10

_A_TRIGGER: Final = 500_000
"""Records of a micro-batch."""


def _java() -> str | None:
    from spark_bulk.spark_session import java_problem

    return java_problem() or None


NEEDS: Final = Needs(modules=("pyspark", "pyarrow", "pandas"), install="pip install 'duramen[spark]'", here=_java)
BOTH_NEEDS: Final = Needs(modules=(*NEEDS.modules, *SERVER_NEEDS.modules), install=NEEDS.install, here=_java)


def _rows(settings: RunSettings) -> int:
    return ROWS // _QUICK_DIVISOR if settings.quick else ROWS


def made_rows(spark: Any, rows: int) -> Any:
    """The rows; the same ones whenever they are made."""
    hashed = [f"sha2(cast(id + {add} AS string), 256)" for add in range(4)]
    return spark.range(0, rows, 1, PARTITIONS).selectExpr(
        f"cast(substr({hashed[0]}, 1, 17) AS binary) AS key",
        f"unhex(concat({', '.join(hashed[:3])}, substr({hashed[3]}, 1, 8))) AS value",
    )


def _timed(work: Callable[[], None]) -> float:
    """Seconds, the median of three times after a first one."""
    work()
    found = []
    for _ in range(3):
        started = perf_counter()
        work()
        found.append(perf_counter() - started)
    return sorted(found)[1]


def _discard(frame: Any) -> None:
    frame.write.format("noop").mode("overwrite").save()


def standby_version(name: str) -> str:
    import pyspark

    return f"{name}, Spark {pyspark.__version__}"


def _parquet(settings: RunSettings) -> Measurement:
    from spark_bulk.spark_session import local_session

    files = str(settings.folder / "parquet")
    rows = _rows(settings)
    with local_session("bench", master="local[2]") as spark:
        made_rows(spark, rows).write.parquet(files)
        seconds = _timed(lambda: _discard(spark.read.parquet(files)))
    return Measurement({"records_per_second": rows / seconds}, standby_version("Parquet"), f"{rows:,} rows, snappy")


async def _with_duramen(
    settings: RunSettings, work: Callable[[Any, dict[str, str], Path], float], note: str
) -> Measurement:
    """Fill a server's table by Spark, then time `work`, given the session, the options and the data folder."""
    from spark_bulk.spark_session import local_session

    driver, rows = Duramen(), _rows(settings)
    await driver.start(settings.folder)

    def spark_part() -> float:
        place = {"at": driver.address, "table": TABLE}
        with local_session("bench", master="local[2]") as spark:
            made_rows(spark, rows).write.format("duramen").options(**place).mode("append").save()
            return work(spark, place, settings.folder)

    try:
        seconds = await asyncio.to_thread(spark_part)
    finally:
        await driver.stop()
    return Measurement(
        {"records_per_second": rows / seconds}, standby_version(driver.version), f"{rows:,} rows, {note}"
    )


def _read(spark: Any, place: dict[str, str], folder: Path) -> float:
    import duramen

    with duramen.connect(place["at"], timeout=300) as database:
        # A snapshot has its replica's applied offset: let all replicas come to the end.
        next(iter(database.table(TABLE).scan(limit=1, level="strong")))
    program = str(Path(sys.executable).with_name("duramen"))
    subprocess.run(
        [program, "admin", "snapshot", TABLE, "--at", place["at"]], check=True, capture_output=True, timeout=600
    )
    store = (folder / "duramen" / "snapshots").as_uri()
    options = {**place, "token": "snapshot", "snapshots": store}
    reader = spark.read.format("duramen").schema("key binary, value binary").options(**options)
    return _timed(lambda: _discard(reader.load()))


def _stream(spark: Any, place: dict[str, str], folder: Path) -> float:
    runs = count()

    def run() -> None:
        query = (
            spark.readStream.format("duramen")
            .options(**place, log="true", maxRecordsPerTrigger=str(_A_TRIGGER))
            .load()
            .writeStream.format("noop")
            .option("checkpointLocation", str(folder / f"checkpoint-{next(runs)}"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    return _timed(run)


SPARK_SOURCE: Final[tuple[Workload, ...]] = (
    Workload(
        "spark_read",
        f"batch read of {ROWS:,} rows of 100 bytes into Spark, on two threads",
        (
            Side(
                "duramen",
                "subject",
                lambda settings: run_async(_with_duramen(settings, _read, "keys and values of a checked snapshot")),
                BOTH_NEEDS,
            ),
            Side("parquet", "peer", _parquet, NEEDS),
        ),
        (Bar("records_per_second", "at least", 0.5, against="parquet"),),
        runs_max=3,
    ),
    Workload(
        "spark_stream",
        f"stream read of {ROWS:,} changes into Spark, {_A_TRIGGER:,} a micro-batch, on two threads",
        (
            Side(
                "duramen",
                "subject",
                lambda settings: run_async(_with_duramen(settings, _stream, "the change feed, void records left out")),
                BOTH_NEEDS,
            ),
        ),
        (Bar("records_per_second", "at least", 100_000),),
        runs_max=3,
    ),
)
