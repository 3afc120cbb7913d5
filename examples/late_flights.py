"""Rows in Spark: a table's columns are read, worked on, and written into another table as rows.

Everything here is asserted; the first claim that does not hold ends the program.

    python examples/late_flights.py         needs `pip install 'duramen[spark]'` and Java 17
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from reprocess import server

import duramen
from duramen.blocking import Database
from spark_bulk.spark_session import local_session

FIRST = datetime(2013, 1, 1, 10, tzinfo=UTC)


@dataclass
class Departure:
    carrier: str
    flight: int
    time_hour: datetime
    tailnum: str | None
    dep_delay: float


@dataclass
class LatePlane:
    tailnum: str
    flights: int
    minutes: float


def main() -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        server(Path(folder)) as at,
        duramen.connect(at) as db,
        local_session("late flights", master="local[2]") as spark,
    ):
        departures = db.create_table(
            "departures", row=Departure, key=("carrier", "flight", "time_hour"), partition_by="carrier", partitions=4
        )
        departures.put_many(
            Departure(
                carrier, flight, FIRST + timedelta(days=day), f"N{flight % 20}" if flight % 7 else None, day * 9.0
            )
            for carrier in ("AA", "DL", "UA")
            for flight in range(100)
            for day in range(10)
        )
        reads(spark, at)
        writes(spark, at, db)
        refuses(spark, at)


def table(spark: Any, at: str, name: str, **options: str) -> Any:
    """A table as a DataFrame."""
    return spark.read.format("duramen").options(at=at, table=name, **options).load()


def reads(spark: Any, at: str) -> None:
    departures = table(spark, at, "departures")
    assert dict(departures.dtypes) == {
        "carrier": "string",
        "flight": "bigint",
        "time_hour": "timestamp",
        "tailnum": "string",
        "dep_delay": "double",
    }
    assert departures.where("dep_delay > 60").count() == 900
    print("ok  the columns are those of the schema, and Spark filters them")
    some = table(spark, at, "departures", where='{"carrier": "UA", "flight": [10, 13]}')
    assert some.select("flight").distinct().count() == 3
    assert some.rdd.getNumPartitions() == 1
    print("ok  conditions on the first fields of the key read a range of it, in the carrier's partition alone")


def writes(spark: Any, at: str, db: Database) -> None:
    planes = db.create_table("late_planes", row=LatePlane, key="tailnum", partitions=2)
    late = (
        table(spark, at, "departures")
        .where("dep_delay > 60 AND tailnum IS NOT NULL")
        .groupBy("tailnum")
        .agg({"*": "count", "dep_delay": "sum"})
        .selectExpr("tailnum", "`count(1)` AS flights", "`sum(dep_delay)` AS minutes")
        .sortWithinPartitions("tailnum")  # so that a task that runs twice has the same rows in the same order
    )
    late.write.format("duramen").options(at=at, table="late_planes").mode("append").save()
    assert planes.get("N1", level="strong") == LatePlane("N1", 36, 12 * (63.0 + 72.0 + 81.0))
    print("ok  what Spark computed is rows of another table, where a client finds them")


def refuses(spark: Any, at: str) -> None:
    from pyspark.errors import PySparkException

    wrong = spark.sql("SELECT 'N1' AS tailnum, 3 AS flights, 'many' AS minutes")
    said = ""
    try:
        wrong.write.format("duramen").options(at=at, table="late_planes").mode("append").save()
    except PySparkException as error:
        said = str(error)
    assert "the field minutes is 'many' (string), expected double" in said
    print("ok  a row that does not fit ends the job, with the field, its value and the expected type")


if __name__ == "__main__":
    main()
