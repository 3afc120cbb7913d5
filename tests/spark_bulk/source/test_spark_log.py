"""The log as a batch and as a stream: what a watch shows, once, in order, through restarts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from kit.client.command_line import run_here
from kit.client.server_process import ServerProcess
from kit.spark.sparks import SparkTable, failure

import duramen
from duramen.blocking import Database, Table
from log_tier.model.identifiers import NOTHING, Partition
from log_tier.model.partitioner import partition_of

pytestmark = pytest.mark.spark

Row = tuple[int, int, str, bytes, bytes | None]

MARK = b"the end of this watch "


@pytest.fixture
def table(database: Database, table_name: str) -> Table:
    return database.create_table(table_name, partitions=3)


@pytest.fixture
def feed(spark: Any, server: ServerProcess, table: Table) -> SparkTable:
    return SparkTable(spark, server, table.name)


def write_some(table: Table, first: int, count: int) -> None:
    """Puts, deletes, updates, and writes that the log rejects."""
    table.put_many([(b"k%04d" % number, b"v%d" % number) for number in range(first, first + count)])
    table.delete(b"k%04d" % first)
    table.update(b"count", add=count)
    with pytest.raises(duramen.ConditionFailed):
        table.put(b"k%04d" % (first + 1), b"no", if_absent=True)


def watched(table: Table) -> list[Row]:
    """What a watch shows from the beginning to the end of now, which is a mark in every partition."""
    marks = {partition_of(key, 3): key for key in (MARK + b"%d" % number for number in range(50))}
    left = {(table.put(key, b"").offset, partition) for partition, key in marks.items()}
    rows: list[Row] = []
    with closing(table.watch(start="earliest")) as changes:
        for change in changes:
            left.discard((change.offset, change.partition))
            if not change.key.startswith(MARK):
                rows.append((change.partition, change.offset, change.operation.name.lower(), change.key, change.value))
            if not left:
                break
    return rows


def rows_of(frame: Any) -> list[Row]:
    """By partition, in the order in which Spark has them."""
    return [
        (row.partition, row.offset, row.operation, bytes(row.key), None if row.value is None else bytes(row.value))
        for row in frame.collect()
        if not bytes(row.key).startswith(MARK)
    ]


def test_a_batch_of_the_log_is_what_a_watch_shows(feed: SparkTable, table: Table, database: Database) -> None:
    write_some(table, 0, 200)
    before = database.token()
    write_some(table, 1000, 100)
    after = database.token()
    write_some(table, 2000, 50)
    frame = feed.log()
    assert frame.columns == ["table", "partition", "offset", "timestamp", "operation", "key", "value"]
    assert {row.table for row in frame.select("table").distinct().collect()} == {table.name}
    rows = rows_of(frame)
    shown = watched(table)
    assert len(rows) == 356
    assert sorted(rows, key=lambda row: row[:2]) == sorted(shown, key=lambda row: row[:2])
    for partition in range(3):
        offsets = [row[1] for row in rows if row[0] == partition]
        assert offsets == sorted(offsets)
    between = {row[:2] for row in rows_of(feed.log(**{"from": before, "to": after}))}
    (seen,), (until,) = (duramen.Token.parse(text).tables.values() for text in (before, after))
    assert between == {
        row[:2]
        for row in rows
        if seen.get(Partition(row[0]), NOTHING) < row[1] <= until.get(Partition(row[0]), NOTHING)
    }
    assert len(between) == 102
    assert feed.log(records="all").count() == len(rows) + 3 + 3, "the rejected ones, and the marks of the watch"
    assert feed.log(**{"from": "latest"}).count() == 0
    typed = feed.log("key", keys="utf8", values="utf8").where("operation = 'add'").collect()
    assert {row.key for row in typed} == {"count"}


class Stream:
    """A stream into a table of Spark's memory, or into files, that can be ended and begun again."""

    def __init__(self, feed: SparkTable, folder: Path) -> None:
        self.feed = feed
        self.folder = folder

    def run(self, **options: str) -> list[int]:
        """Show what there is; return how many rows each micro-batch had."""
        query = (
            self.feed.stream(**options)
            .writeStream.format("parquet")
            .option("path", str(self.folder / "rows"))
            .option("checkpointLocation", str(self.folder / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return [progress["numInputRows"] for progress in query.recentProgress]

    def rows(self) -> list[Row]:
        return rows_of(self.feed.spark.read.parquet(str(self.folder / "rows")))


@pytest.fixture
def stream(feed: SparkTable, tmp_path: Path) -> Iterator[Stream]:
    yield Stream(feed, tmp_path)
    for query in feed.spark.streams.active:
        query.stop()


def test_a_stream_goes_on_from_its_checkpoint_without_gap_or_duplicate(
    stream: Stream, table: Table, server: ServerProcess
) -> None:
    write_some(table, 0, 200)
    batches = stream.run(maxRecordsPerTrigger="70")
    assert len(batches) == 3
    assert max(batches) <= 70
    server.restart()
    write_some(table, 1000, 100)
    stream.run()
    stream.run()
    rows, shown = stream.rows(), watched(table)
    assert len(rows) == 304
    assert sorted(rows) == sorted(shown)


def test_a_stream_that_fails_in_the_middle_of_a_batch_shows_it_once(
    feed: SparkTable, table: Table, tmp_path: Path
) -> None:
    """A sink that dies after half of the rows: the same batch comes again, with the same rows."""
    write_some(table, 0, 100)
    seen: list[tuple[int, list[Row]]] = []
    fail = True

    def sink(frame: Any, number: int) -> None:
        nonlocal fail
        seen.append((number, rows_of(frame)))
        if fail:
            fail = False
            raise ZeroDivisionError("half way")

    def run() -> None:
        query = (
            feed.stream()
            .writeStream.foreachBatch(sink)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    assert "half way" in failure(run)
    write_some(table, 1000, 10)
    run()
    (first, rows), (again, same), (second, more) = seen
    assert (first, again, second) == (0, 0, 1)
    assert rows == same
    assert sorted(rows + more) == sorted(watched(table))


def test_where_a_stream_begins(stream: Stream, table: Table, database: Database) -> None:
    write_some(table, 0, 20)
    token = database.token()
    write_some(table, 1000, 10)
    stream.run(**{"from": token})
    assert {row[3] for row in stream.rows()} == {b"k%04d" % number for number in range(1000, 1010)} | {b"count"}


def test_a_position_that_the_log_no_longer_covers(
    feed: SparkTable, tmp_path: Path, database: Database, server: ServerProcess
) -> None:
    """The table was dropped and made again: the checkpoint is of another one, and says so."""
    stream = Stream(feed, tmp_path)
    write_some(database.table(feed.name), 0, 10)
    stream.run()
    assert run_here("table", "drop", feed.name, "--yes", at=server.target).returncode == 0
    database.create_table(feed.name, partitions=3)
    assert f"{feed.name} is " in (said := failure(stream.run))
    assert "it was dropped and made again" in said


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"log": "false"}, "a stream reads the table's log: add .option('log', 'true')"),
        ({"to": "latest"}, "a stream has no end"),
        ({"maxRecordsPerTrigger": "none"}, "a whole number above 0"),
    ],
)
def test_a_stream_that_cannot_be_says_why(stream: Stream, table: Table, options: dict[str, str], said: str) -> None:
    stream.feed.place = {**stream.feed.place}
    assert said in failure(lambda: stream_with(stream, options))


def stream_with(stream: Stream, options: dict[str, str]) -> None:
    frame = (
        stream.feed.spark.readStream.format("duramen").options(**{**stream.feed.place, "log": "true", **options}).load()
    )
    query = (
        frame.writeStream.format("noop")
        .option("checkpointLocation", str(stream.folder / "other"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
