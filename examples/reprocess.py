"""Reprocessing: delay statistics of 336,776 flights, first wrong, then right, exchanged without a gap.

    python examples/reprocess.py            needs `pip install 'duramen[spark]'` and Java 17

A table `flights` holds every flight that left New York in 2013. A table `delays` is derived from its log by Spark: for
each carrier, how many flights there were and how many minutes they were late in all. The function has a mistake (a
flight that was cancelled counts as one on time), and what it has made is being read.

There is no second system that would compute it again: the log has every flight still. Version 2 is built from offset 0
with the function that is right, while version 1 goes on being read and following the log; then one barrier puts it in
its place, and what came meanwhile is in it. Version 1 stays for a rollback.

Jay Kreps calls this the alternative to the Lambda architecture: https://www.oreilly.com/radar/questioning-the-lambda-architecture/
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from flights import check, flights_csv, say, step

import duramen
from duramen.blocking import Database

HELD_BACK: Final = 20_000
"""Flights that come while version 2 is being built."""

FLIGHT: Final = "carrier STRING, flight STRING, time_hour STRING, dep_delay STRING"


# --- the function, twice


def wrong(flights: Any) -> Any:
    """Minutes late of each flight. A cancelled one has none, and is taken for 0."""
    from pyspark.sql import functions

    return flights.select("carrier", functions.expr("coalesce(try_cast(dep_delay AS INT), 0)").alias("late"))


def right(flights: Any) -> Any:
    """Minutes late of each flight that left."""
    from pyspark.sql import functions

    late = functions.expr("try_cast(dep_delay AS INT)")
    return flights.select("carrier", late.alias("late")).where("late IS NOT NULL")


def totals(delays: Any) -> Any:
    """For each carrier two counters: `UA/flights` and `UA/minutes`."""
    return (
        delays.groupBy("carrier")
        .agg({"*": "count", "late": "sum"})
        .selectExpr(
            "explode(map(carrier || '/flights', `count(1)`, carrier || '/minutes', `sum(late)`)) AS (key, count)"
        )
    )


def parsed(changes: Any) -> Any:
    """The flights in a change feed."""
    from pyspark.sql import functions

    value = functions.col("value").cast("string")
    return changes.select(functions.from_json(value, FLIGHT).alias("flight")).select("flight.*")


# --- deriving


@contextmanager
def deriving(spark: Any, at: str, function: Any, folder: Path, start: str) -> Iterator[Any]:
    """Follow the flights with a function, and add what it finds to `delays`; exactly once, by Spark's checkpoint."""
    feed = spark.readStream.format("duramen").options(at=at, table="flights", log="true", maxRecordsPerTrigger="100000")

    def add(changes: Any, batch: int) -> None:
        found = totals(function(parsed(changes))).selectExpr(
            "key", "CAST(count AS STRING) AS value", "'add' AS operation"
        )
        # A batch that Spark runs again after a failure is the same job, and its second copy is void.
        job = f"{folder.name}/{batch}"
        writer = found.coalesce(1).sortWithinPartitions("key").write.format("duramen")
        writer.options(at=at, table="delays", job=job).mode("append").save()

    query = (
        feed.option("from", start)
        .load()
        .writeStream.foreachBatch(add)
        .option("checkpointLocation", str(folder))
        .start()
    )
    try:
        yield query
    finally:
        query.stop()


def means(database: Database) -> dict[str, float]:
    """Minutes late of a flight, by carrier."""
    table = database.table("delays")
    counts = {key.decode(): int(value) for key, value in table.scan(level="strong")}
    carriers = {key.partition("/")[0] for key in counts}
    return {each: counts[f"{each}/minutes"] / counts[f"{each}/flights"] for each in sorted(carriers)}


def expected(rows: list[dict[str, str]], *, cancelled_count: bool) -> dict[str, float]:
    """The same by a plain program."""
    late: dict[str, list[int]] = {}
    for row in rows:
        number = row["dep_delay"].strip()
        if number.lstrip("-").isdigit():
            late.setdefault(row["carrier"], []).append(int(number))
        elif cancelled_count:
            late.setdefault(row["carrier"], []).append(0)
    return {carrier: sum(minutes) / len(minutes) for carrier, minutes in sorted(late.items())}


def same(found: dict[str, float], wanted: dict[str, float]) -> bool:
    return found.keys() == wanted.keys() and all(abs(found[key] - wanted[key]) < 1e-9 for key in wanted)


# --- the story


def put_flights(database: Database, rows: list[dict[str, str]]) -> None:
    pairs = (
        (f"{row['carrier']}/{row['flight']}/{row['time_hour']}".encode(), json.dumps(row).encode()) for row in rows
    )
    database.table("flights").put_many(pairs)


def admin(*arguments: str) -> None:
    """A command of the command line; what it says is shown."""
    done = subprocess.run([sys.executable, "-m", "duramen", *arguments], capture_output=True, text=True, check=False)
    for line in (done.stdout.splitlines() or [""])[-1:]:
        say(line)
    if done.returncode:
        sys.exit(done.stderr)


def main() -> None:
    import csv

    from spark_bulk.build.version_build import build_index
    from spark_bulk.spark_session import local_session

    with flights_csv().open(newline="") as file:
        rows = list(csv.DictReader(file))
    early, late = rows[:-HELD_BACK], rows[-HELD_BACK:]
    with tempfile.TemporaryDirectory(prefix="duramen-reprocess-") as folder_name, server(Path(folder_name)) as at:
        folder = Path(folder_name)
        with duramen.connect(at) as database, local_session("reprocess", master="local[2]") as spark:
            tell(spark, at, database, folder, rows, early, late, build_index)


def tell(
    spark: Any,
    at: str,
    database: Database,
    folder: Path,
    rows: list[dict[str, str]],
    early: list[dict[str, str]],
    late: list[dict[str, str]],
    build_index: Any,
) -> None:
    step(1, "Flights, and a table that is derived from their log")
    flights = database.create_table("flights", partitions=4)
    delays = database.create_table("delays", partitions=2)
    put_flights(database, early)
    with deriving(spark, at, wrong, folder / "v1", "earliest") as query:
        query.processAllAvailable()
        check(f"{len(early):,} flights are counted", same(means(database), expected(early, cancelled_count=True)))
        say(f"the mean delay of UA is {means(database)['UA']:.2f} minutes: cancelled flights count as on time")

    step(2, "Version 2: the right function, from offset 0, next to version 1")
    # The first follower has stopped: what it has done ends at `until`, and its outputs end where `delays` ends now.
    until = flights.end_token()
    base = delays.end_token()
    serving = Readings(at)
    with deriving(spark, at, right, folder / "v2", until) as query, serving:
        put_flights(database, late)  # they come meanwhile, and go to version 1 and to version 2
        past = spark.read.format("duramen").options(at=at, table="flights", log="true", to=until).load()
        frame = totals(right(parsed(past))).selectExpr("key", "CAST(count AS STRING) AS value")
        url = f"file://{folder / 'delays-v2'}"
        version = build_index(frame, at=at, table="delays", key="key", value="value", url=url, token=base)
        check(
            f"{version.keys} counters are built from {len(early):,} flights", version.keys == len(means(database)) * 2
        )
        query.processAllAvailable()
        admin("bulk", "stage", "delays", url, "--at", at)

        step(3, "The swap")
        before = means(database)
        admin("bulk", "swap", "delays", "--at", at)
        after = means(database)
        right_now = expected(rows, cancelled_count=False)
        check("every carrier's mean is the right one, with what came meanwhile", same(after, right_now))
        say(f"the mean delay of UA was {before['UA']:.2f} minutes, and is {after['UA']:.2f}")
        query.processAllAvailable()
    check(f"{serving.count:,} reads meanwhile, none failed", serving.count > 0 and not serving.failures)

    step(4, "And back, if that was a mistake")
    admin("bulk", "rollback", "delays", "--at", at)
    check("version 1 is there, with what came meanwhile", same(means(database), before))
    admin("bulk", "swap", "delays", "--version", "2", "--at", at)
    check("and version 2 again", same(means(database), right_now))


class Readings:
    """Somebody who reads `delays` all the time."""

    def __init__(self, at: str) -> None:
        self.count = 0
        self.failures: list[str] = []
        self._at, self._stop = at, threading.Event()
        self._thread = threading.Thread(target=self._read)

    def _read(self) -> None:
        with duramen.connect(self._at) as database:
            table = database.table("delays")
            while not self._stop.is_set():
                try:
                    if table.get(b"UA/flights") is None:
                        self.failures.append("a counter was not there")
                except duramen.DuramenError as error:
                    self.failures.append(error.message)
                self.count += 1

    def __enter__(self) -> Readings:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


@contextmanager
def server(folder: Path) -> Iterator[str]:
    """`duramen up` in a process of its own."""
    command = [sys.executable, "-m", "duramen", "up", "--data", str(folder / "data"), "--port", "0", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        event = json.loads(process.stdout.readline())
        yield f"127.0.0.1:{event['port']}"
    finally:
        process.terminate()
        process.wait(30)
        if process.stdout is not None:
            process.stdout.close()


if __name__ == "__main__":
    main()
