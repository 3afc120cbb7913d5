"""`df.write` and `df.writeStream`: every row once, whatever fails, and none that cannot be one."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from kit.client.server_process import ServerProcess
from kit.deadlines import patience_s
from kit.spark.sparks import SparkTable, failure

from duramen.blocking import Database, Table
from spark_bulk.source.model.cluster_login import ClusterLogin
from spark_bulk.source.model.table_place import all_bounds, find_table

pytestmark = [
    pytest.mark.spark,
    # What mapInArrow says of the pandas that it asks for.
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]


@pytest.fixture
def table(database: Database, table_name: str) -> Table:
    return database.create_table(table_name, partitions=3)


@pytest.fixture
def target(spark: Any, server: ServerProcess, table: Table) -> SparkTable:
    return SparkTable(spark, server, table.name)


def scanned(table: Table) -> dict[bytes, bytes]:
    return dict(table.scan(level="strong"))


def test_rows_are_where_a_client_looks_for_them(target: SparkTable, table: Table) -> None:
    target.write(target.spark.range(5000).selectExpr("concat('key', id) AS key", "cast(id AS string) AS value"))
    expected = {b"key%d" % number: b"%d" % number for number in range(5000)}
    assert scanned(table) == expected
    assert table.get_many(list(expected)[:50]) == list(expected.values())[:50]


def test_every_operation_and_expiry(target: SparkTable, table: Table) -> None:
    table.put(b"gone", b"1")
    table.put(b"n", b"5")
    frame = target.spark.sql(
        """
        SELECT * FROM VALUES
            ('p', 'x', 'put', 3600000), ('gone', NULL, 'delete', NULL), ('n', '3', 'add', NULL),
            ('m', '7', 'max', NULL), ('s', 'ab', 'append', NULL) AS t(key, value, operation, ttl_ms)
        """
    )
    target.write(frame.coalesce(1))
    assert scanned(table) == {b"p": b"x", b"n": b"8", b"m": b"7", b"s": b"ab"}
    entry = table.get_entry(b"p")
    assert entry is not None
    assert entry.expires_at_ms > 0
    until = target.spark.sql("SELECT 'u' AS key, 'v' AS value, timestamp '2035-01-01 00:00:00 UTC' AS expires_at")
    target.write(until)
    entry = table.get_entry(b"u", level="strong")
    assert entry is not None
    assert entry.expires_at_ms == 2_051_222_400_000


def test_json_there_and_back(target: SparkTable) -> None:
    frame = target.spark.sql("SELECT concat('k', id) AS key, id * 2 AS n, struct(id AS a) AS o FROM range(20)")
    target.write(frame, values="json")
    back = target.read(values="json", keys="utf8", schema="n BIGINT, o STRUCT<a: BIGINT>").select("key", "n", "o")
    assert sorted(back.collect()) == sorted(frame.collect())


def test_a_task_that_fails_half_way_and_is_tried_again_writes_every_row_once(
    target: SparkTable, table: Table, spark: Any
) -> None:
    """Appends to few keys: a row that counted twice, or not at all, would show."""

    def failing_once(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        for number, batch in enumerate(rows):
            if number == 12 and context.attemptNumber() == 0:
                raise ZeroDivisionError("the first attempt dies here")
            yield batch

    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "2000")
    try:
        frame = spark.range(0, 60_000, 1, 2).selectExpr(
            "concat('k', id % 5) AS key", "concat(id, ';') AS value", "'append' AS operation"
        )
        target.write(frame.mapInArrow(failing_once, frame.schema))
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    found = scanned(table)
    expected = sorted(b"%d" % number for number in range(60_000))
    assert sorted(piece for value in found.values() for piece in value.split(b";")[:-1]) == expected
    lying = target.log("offset", records="all").count()
    assert lying > 60_000, "nothing was written twice: the test shows nothing"
    assert target.log("offset").count() == 60_000


def test_an_executor_that_is_killed_half_way(table: Table, server: ServerProcess, tmp_path: Path) -> None:
    """On executors that are processes of their own: kill -9, a new executor, another attempt."""
    rows = 60_000
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "PYTHONWARNINGS": "ignore"}
    program = Path(__file__).with_name("killed_executor.py")
    done = subprocess.run(
        [sys.executable, str(program), server.target, table.name, str(rows), str(tmp_path)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=patience_s(120),
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    pieces = sorted(piece for value in scanned(table).values() for piece in value.split(b";")[:-1])
    assert pieces == sorted(b"%d" % number for number in range(rows))
    place = asyncio.run(find_table(ClusterLogin.of(server.target), table.name, timeout_s=20))
    records = sum(bounds.latest + 1 for bounds in asyncio.run(all_bounds(place, timeout_s=20)))
    assert records > rows, "nothing was written twice: the test shows nothing"


def test_a_job_with_a_name_writes_once_however_often_it_is_submitted(target: SparkTable, table: Table) -> None:
    frame = target.spark.range(0, 100, 1, 2).selectExpr("'k' AS key", "'1' AS value", "'add' AS operation")
    for _ in range(2):
        target.write(frame, job="nightly 2026-05-01")
    assert scanned(table) == {b"k": b"100"}
    target.write(frame)
    target.write(frame)
    assert scanned(table) == {b"k": b"300"}


def test_a_stream_from_one_table_into_another_through_a_restart(
    target: SparkTable, table: Table, database: Database, server: ServerProcess, tmp_path: Path
) -> None:
    """The last micro-batch's commit is taken back, as a crash between the write and the commit leaves it."""
    other = database.create_table(f"{table.name}copy", partitions=2)
    into = {"at": server.target, "table": other.name}

    def run(expected: int) -> None:
        query = (
            target.stream(maxRecordsPerTrigger="40")
            .selectExpr("'n' AS key", "value", "'append' AS operation")
            .writeStream.format("duramen")
            .options(**into)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        assert len([progress for progress in query.recentProgress if progress["numInputRows"]]) == expected

    def pieces() -> list[bytes]:
        value = other.get(b"n", level="strong")
        assert value is not None
        return sorted(value.split(b";")[:-1])

    numbers = [b"%d" % number for number in range(130)]
    table.put_many([(b"k" + number, number + b";") for number in numbers[:100]])
    run(3)
    assert pieces() == sorted(numbers[:100])
    commits = tmp_path / "checkpoint" / "commits"
    newest = max((file for file in commits.iterdir() if file.name.isdigit()), key=lambda file: int(file.name))
    newest.unlink()
    (commits / f".{newest.name}.crc").unlink()
    table.put_many([(b"k" + number, number + b";") for number in numbers[100:]])
    run(2)
    assert pieces() == sorted(numbers)
    records = SparkTable(target.spark, server, other.name).log("offset", records="all").count()
    assert records > 130, "the micro-batch was not run again: the test shows nothing"


@pytest.mark.parametrize(
    ("query", "said"),
    [
        (
            "SELECT if(id = 7, NULL, concat('k', id)) AS key, 'v' AS value FROM range(0, 20, 1, 1)",
            "task 0 of the write to {table}, row 7: `key` is null",
        ),
        ("SELECT repeat('x', 500 + id) AS key, 'v' AS value FROM range(0, 20, 1, 1)", "row 12: `key` has 512 bytes"),
        ("SELECT 'k' AS key, if(id = 3, NULL, 'v') AS value FROM range(0, 5, 1, 1)", "row 3: `value` is null"),
        ("SELECT id AS key, 'v' AS value FROM range(5)", "the column `key` is of type int64"),
        ("SELECT 'k' AS key, 1.5 AS value", "the column `value` is of type decimal"),
        ("SELECT 'k' AS key, 'v' AS value, 1 AS version", "nothing is known of a column `version`"),
        ("SELECT 'k' AS key, 'v' AS value, 'upsert' AS operation", "`operation` is 'upsert'; it is one of put, delete"),
    ],
)
def test_rows_that_cannot_be_written_are_named(target: SparkTable, table: Table, query: str, said: str) -> None:
    frame = target.spark.sql(query)
    assert said.format(table=table.name) in failure(lambda: target.write(frame))
    assert scanned(table) == {}


def test_a_table_is_not_overwritten(target: SparkTable) -> None:
    writer = target.spark.sql("SELECT 'k' AS key, 'v' AS value").write.format("duramen").options(**target.place)
    assert "a table is not overwritten row by row" in failure(writer.mode("overwrite").save)
    wrong = writer.options(table="nowhere").mode("append")
    assert "there is no table 'nowhere'" in failure(wrong.save)
