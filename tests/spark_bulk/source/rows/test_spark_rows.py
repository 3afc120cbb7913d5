"""Tables of rows in Spark: the columns of their schema, both ways."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any, Final

import pytest
from kit.client.server_process import ServerProcess
from kit.flight_rows import FLIGHT_SCHEMA, LATER_SCHEMA
from kit.spark.sparks import SparkTable, failure

from duramen.blocking import Database

pytestmark = pytest.mark.spark

EVERY_TYPE: Final[Mapping[str, Any]] = {
    "type": "record",
    "name": "Every",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "yes", "type": "boolean"},
        {"name": "i", "type": "int"},
        {"name": "f", "type": "float"},
        {"name": "raw", "type": "bytes"},
        {"name": "fixed", "type": {"type": "fixed", "name": "Four", "size": 4}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "uid", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "long_price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 50, "scale": 2}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "clock", "type": {"type": "int", "logicalType": "time-millis"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "local", "type": {"type": "long", "logicalType": "local-timestamp-micros"}},
        {"name": "tags", "type": {"type": "array", "items": ["null", "Kind"]}},
        {"name": "counts", "type": {"type": "map", "values": "long"}},
        {
            "name": "place",
            "type": [
                "null",
                {
                    "type": "record",
                    "name": "Place",
                    "fields": [
                        {"name": "code", "type": "string"},
                        {"name": "opens", "type": {"type": "long", "logicalType": "time-micros"}},
                    ],
                },
            ],
        },
        {"name": "either", "type": ["long", "string"]},
    ],
}

TYPES: Final = {
    "id": "bigint",
    "yes": "boolean",
    "i": "int",
    "f": "float",
    "raw": "binary",
    "fixed": "binary",
    "kind": "string",
    "uid": "string",
    "price": "decimal(9,2)",
    "long_price": "string",
    "day": "date",
    "clock": "int",
    "at": "timestamp",
    "local": "timestamp_ntz",
    "tags": "array<string>",
    "counts": "map<string,bigint>",
    "place": "struct<code:string,opens:bigint>",
    "either": "struct<long:bigint,string:string>",
}


def every_row(number: int) -> dict[str, Any]:
    return {
        "id": number,
        "yes": number % 2 == 0,
        "i": -number,
        "f": number / 2,
        "raw": b"\x00\xff",
        "fixed": b"abcd",
        "kind": "AB"[number % 2],
        "uid": uuid.UUID(int=number),
        "price": Decimal(number) / 4,
        "long_price": Decimal("12345678901234567890123456789012345678.25"),
        "day": date(2013, 1, 1 + number % 28),
        "clock": time(13, 45, number % 60),
        "at": datetime(2013, 1, 1, 5, number % 60, tzinfo=UTC),
        "local": datetime(2013, 1, 1, 5, number % 60),
        "tags": ["A", None] if number % 3 else [],
        "counts": {"a": number},
        "place": None if number % 2 else {"code": "JFK", "opens": time(6, 30)},
        "either": number if number % 2 else "text",
    }


def test_columns_have_the_types_of_the_schema_and_come_back(
    spark: Any, server: ServerProcess, database: Database, table_name: str
) -> None:
    """What one table has is read by Spark, and written by it into another one: the clients of both see the same."""
    table = database.create_table(table_name, row=EVERY_TYPE, key="id", partitions=2)
    copy = database.create_table(f"{table_name}_copy", row=EVERY_TYPE, key="id", partitions=3)
    table.put_many([every_row(number) for number in range(40)])
    frame = SparkTable(spark, server, table.name).read()
    assert dict(frame.dtypes) == TYPES
    assert {each.name for each in frame.schema if each.nullable} == {"place"}
    (found,) = frame.where("id = 7").collect()
    assert (found.kind, found.price, found.clock, found.tags) == ("B", Decimal("1.75"), 49_507_000, ["A", None])
    assert found.at.astimezone(UTC) == datetime(2013, 1, 1, 5, 7, tzinfo=UTC)
    assert (found.place, found.either.long, found.counts) == (None, 7, {"a": 7})
    SparkTable(spark, server, copy.name).write(frame)
    copied = sorted(copy.scan(level="strong"), key=lambda row: row["id"])
    assert copied == sorted(table.scan(), key=lambda row: row["id"])
    assert len(copied) == 40


def test_rows_of_earlier_schemas_have_the_newest_ones_defaults(
    spark: Any, server: ServerProcess, database: Database, table_name: str
) -> None:
    table = database.create_table(table_name, row=FLIGHT_SCHEMA, key=("carrier", "flight"), partitions=2)
    table.put_many([{"carrier": "UA", "flight": n, "tailnum": None, "dep_delay": n / 2} for n in range(30)])
    token = database.token()
    table.update("UA", 3, set={"tailnum": "N14228"})
    table.alter(row=LATER_SCHEMA)
    flights = SparkTable(spark, server, table_name)
    later = database.table(table_name, row=LATER_SCHEMA)
    later.put({"carrier": "UA", "flight": 99, "tailnum": None, "dep_delay": 0.0, "gate": "B7"})
    found = {row.flight: row for row in flights.read().collect()}
    assert len(found) == 31
    assert (found[3].tailnum, found[3].gate, found[4].dep_delay, found[99].gate) == ("N14228", "-", 2.0, "B7")
    then = {row.flight: row.asDict() for row in flights.read(token=token).collect()}
    assert then[3] == {"carrier": "UA", "flight": 3, "tailnum": None, "dep_delay": 1.5, "gate": "-"}
    assert len(then) == 30
    named = flights.read(of="gate STRING, version BIGINT, flight BIGINT").where("flight = 99").collect()
    assert [(row.gate, row.version > 0) for row in named] == [("B7", True)]
    stored = flights.read(values="bytes").collect()
    assert (len(stored), len({bytes(row.value[:5]) for row in stored})) == (31, 2)
    assert "the column `flight` is int64" in failure(lambda: flights.read(of="flight STRING").collect())
    assert "there is no column `gates`" in failure(lambda: flights.read(of="gates STRING").collect())


def test_a_row_that_does_not_fit_ends_the_job_with_its_place_field_and_type(
    spark: Any, server: ServerProcess, database: Database, table_name: str
) -> None:
    table = database.create_table(table_name, row=FLIGHT_SCHEMA, key=("carrier", "flight"), partitions=2)
    flights = SparkTable(spark, server, table_name)
    rows = spark.sql("SELECT 'UA' AS carrier, id AS flight, if(id = 5, NULL, 1.5D) AS dep_delay FROM range(8)")
    said = failure(lambda: flights.write(rows.coalesce(1)))
    assert f"task 0 of the write to {table_name}, row 5: the field dep_delay is null, expected double" in said
    assert list(table.scan(level="strong")) == []
    text = spark.sql("SELECT 'UA' AS carrier, '7' AS flight, 1.5D AS dep_delay")
    assert "the field flight is '7' (string), expected long: cast the column to int64" in failure(
        lambda: flights.write(text)
    )
    assert "delay: it is no field of Flight, which has carrier, flight, tailnum, dep_delay" in failure(
        lambda: flights.write(rows.withColumnRenamed("dep_delay", "delay"))
    )
    assert "leave the option `values` out" in failure(
        lambda: flights.write(spark.sql("SELECT 'a' AS key, 'b' AS value"), values="bytes")
    )


def test_puts_deletes_and_expiries_of_rows(
    spark: Any, server: ServerProcess, database: Database, table_name: str
) -> None:
    table = database.create_table(table_name, row=FLIGHT_SCHEMA, key=("carrier", "flight"), partitions=2)
    table.create_index("by_tail", "tailnum")
    table.put_many([{"carrier": "UA", "flight": n, "tailnum": "N1", "dep_delay": 0.0} for n in range(4)])
    flights = SparkTable(spark, server, table_name)
    flights.write(
        spark.sql(
            """SELECT * FROM VALUES ('UA', 1L, NULL, NULL, 'delete', NULL), ('UA', 9L, 'N1', 2.5D, 'put', 3600000)
            AS t(carrier, flight, tailnum, dep_delay, operation, ttl_ms)"""
        )
    )
    flights.write(spark.sql("SELECT 2L AS flight, 'UA' AS carrier, 'delete' AS operation"))
    found = table.find(tailnum="N1", level="strong")
    assert sorted(row["flight"] for row in found) == [0, 3, 9]
    expiring = flights.read(of="flight BIGINT, expires_at TIMESTAMP").where("expires_at IS NOT NULL").collect()
    assert [row.flight for row in expiring] == [9]


def test_where_reads_a_range_of_the_ordered_key(
    spark: Any, server: ServerProcess, database: Database, table_name: str
) -> None:
    table = database.create_table(
        table_name, row=FLIGHT_SCHEMA, key=("carrier", "flight"), partition_by="carrier", partitions=4
    )
    table.put_many(
        {"carrier": carrier, "flight": n, "tailnum": f"N{n % 3}", "dep_delay": float(n)}
        for carrier in ("AA", "UA")
        for n in range(200)
    )
    flights = SparkTable(spark, server, table_name)
    frame = flights.read(where='{"carrier": "UA", "flight": [50, 60], "tailnum": "N1"}')
    assert sorted(row.flight for row in frame.collect()) == [52, 55, 58]
    assert frame.rdd.getNumPartitions() == 1
    # What Spark filters is no matter of the reader: each query over one DataFrame has its own answer.
    everything = flights.read()
    assert everything.where("carrier = 'UA' AND flight < 10").count() == 10
    assert everything.count() == 400
    assert everything.where("flight = 7").count() == 2
    spark.sql(f"CREATE TABLE {table_name} USING duramen OPTIONS (at '{server.target}', `table` '{table_name}')")
    counted = spark.sql(f"""SELECT max(flight), count(*) FROM {table_name} WITH (where = '{{"carrier": "AA"}}')""")
    assert [tuple(row) for row in counted.collect()] == [(199, 200)]
    spark.sql(f"DROP TABLE {table_name}")
    assert "the condition on flight" in failure(lambda: flights.read(where='{"flight": "x"}').collect())
    assert "`where` is no JSON" in failure(lambda: flights.read(where="carrier = 'UA'").collect())
