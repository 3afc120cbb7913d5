"""Spark on a database whose log is a Kafka broker: written once, read again, built, swapped, exported, cleared.

The tasks reach that log through the server (`grpc://`), which is the address that `duramen up --log kafka://…` gives
them, or, in a cluster of nodes, straight at the brokers.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest
from kit.client.server_process import START_SECONDS_MAX, ServerProcess, read_line, run_duramen
from kit.deadlines import patience_s, wait_until
from kit.kafka.foreign import DEADLINE_S, Record, end_of, make_topic, producer, send
from kit.spark.table_source import Source, changes_of

import duramen
from duramen.blocking import Database, Table
from log_tier.model.errors import InvalidRequest
from log_tier.model.partitioner import partition_of
from spark_bulk.build.version_build import build_index
from spark_bulk.export import export_changes, export_table

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.spark,
    pytest.mark.timeout(600),
    # What mapInArrow says of the pandas that it asks for.
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]


PARTITIONS: Final = 3


_numbers = itertools.count()


@pytest.fixture(scope="module")
def log_url(kafka: str) -> str:
    return f"kafka://{kafka}/t{uuid.uuid4().hex[:12]}"


@pytest.fixture(scope="module")
def server(spark: Any, log_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """`duramen up` over a broker. Asks for Spark first: without it nothing needs to be started."""
    folder = tmp_path_factory.mktemp("up")
    process = ServerProcess(folder / "data", log=folder / "server.log", arguments=["--log", log_url])
    yield process
    process.close()


@pytest.fixture
def database(server: ServerProcess) -> Iterator[Database]:
    with server.connect(timeout=DEADLINE_S) as found:
        yield found


@pytest.fixture
def table(database: Database) -> Table:
    return database.create_table(f"spark{next(_numbers)}", partitions=PARTITIONS)


@pytest.fixture
def source(spark: Any, server: ServerProcess, table: Table) -> Source:
    return Source(spark, server.target, table.name)


def ran(server: ServerProcess, *arguments: str) -> list[dict[str, Any]]:
    """A command that succeeds, and what it says."""
    done = run_duramen(*arguments, "--json", at=server.target, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_rows_are_written_once_and_read_again(source: Source, table: Table) -> None:
    """A task dies half way and is run again; what it had written is in the log twice, and counts once."""
    rows = 30_000

    def failing_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        for number, batch in enumerate(batches):
            if number == 12 and context.attemptNumber() == 0:
                raise ZeroDivisionError("the first attempt dies here")
            yield batch

    table.put_many([(b"before%d" % number, b"1") for number in range(50)])
    start = table.end_token()
    source.spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "1000")
    try:
        frame = source.spark.range(0, rows, 1, 2).selectExpr(
            "concat('k', id % 500) AS key", "concat(id, ';') AS value", "'append' AS operation"
        )
        source.write(frame.mapInArrow(failing_once, frame.schema))
    finally:
        source.spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    end = table.end_token()
    then = dict(table.scan(level="strong"))
    table.put_many([(b"k%d" % number, b"overwritten") for number in range(100)])
    table.delete(b"before1")

    pieces = [piece for key, value in then.items() if key.startswith(b"k") for piece in value.split(b";")[:-1]]
    assert sorted(pieces) == sorted(b"%d" % number for number in range(rows))
    assert source.rows(token=end) == then
    assert source.rows() == dict(table.scan(level="strong"))

    written = source.changes(**{"from": start, "to": end})
    assert {change.operation for change in written} == {"append"}
    assert sorted(change.value or b"" for change in written) == sorted(b"%d;" % number for number in range(rows))
    assert {change.partition for change in written} == set(range(PARTITIONS))
    for change in written[::1000]:
        assert change.partition == partition_of(change.key, PARTITIONS)
    lying = source.read(log="true", records="all", **{"from": start, "to": end}).count()
    assert lying > rows, "nothing was written twice: the test shows nothing"


def test_a_stream_goes_on_from_its_checkpoint(
    source: Source, table: Table, server: ServerProcess, tmp_path: Path
) -> None:
    def run(**options: str) -> list[int]:
        stream = source.spark.readStream.format("duramen").options(**source.place, log="true", **options).load()
        query = (
            stream.writeStream.format("parquet")
            .option("path", str(tmp_path / "rows"))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return [progress["numInputRows"] for progress in query.recentProgress if progress["numInputRows"]]

    def write_some(first: int) -> None:
        table.put_many([(b"k%04d" % number, b"v%d" % number) for number in range(first, first + 300)])
        table.delete(b"k%04d" % first)
        table.update(b"count", add=3)
        with pytest.raises(duramen.ConditionFailed):
            table.put(b"k%04d" % (first + 1), b"no", if_absent=True)

    write_some(0)
    assert len(run(maxRecordsPerTrigger="110")) == 3
    server.restart()
    write_some(1000)
    assert sum(run()) == 302
    assert run() == []
    shown = changes_of(source.spark.read.parquet(str(tmp_path / "rows")))
    assert len(shown) == len({change[:2] for change in shown}) == 604
    assert shown == source.changes()
    state: dict[bytes, bytes] = {}
    for change in shown:
        if change.operation == "delete":
            del state[change.key]
        elif change.operation == "put":
            state[change.key] = change.value or b""
    assert state | {b"count": b"6"} == dict(table.scan(level="strong"))


class Writing:
    """A client that writes on and on into two partitions, each key once, and knows what was acknowledged."""

    def __init__(self, server: ServerProcess, table: str) -> None:
        self._server, self._table = server, table
        self._end = threading.Event()
        self.done: dict[bytes, bytes] = {}
        self._thread = threading.Thread(target=self._run, name="writing")

    def _run(self) -> None:
        with self._server.connect(timeout=DEADLINE_S) as database:
            table = database.table(self._table)
            for number in itertools.count():
                if self._end.is_set():
                    return
                pairs = {b"{%c}live%d" % (tag, number): b"%d" % number for tag in b"ac"}
                table.put_many(list(pairs.items()))
                self.done |= pairs

    def some_more(self) -> None:
        """Return when writes have been acknowledged that began after this call."""
        count = len(self.done) + 10
        wait_until(lambda: len(self.done) >= count or not self._thread.is_alive(), what="acknowledged writes")

    def __enter__(self) -> Writing:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join(2 * DEADLINE_S)
        assert not self._thread.is_alive()


def test_a_version_is_built_and_swapped_in_while_writes_go_on(
    source: Source, table: Table, server: ServerProcess, tmp_path: Path
) -> None:
    """Two partitions have records when it begins, one has none: there the build begins the log itself."""
    old = {b"{a}1": b"old", b"{a}2": b"old", b"{c}1": b"old"}
    table.put_many(list(old.items()))
    built = {b"built%d" % number: b"%d" % number for number in range(5_000)}
    frame = source.spark.range(0, 5_000, 1, 3).selectExpr("concat('built', id) AS k", "cast(id AS string) AS v")
    where = f"file://{tmp_path}/v2"
    name = table.name
    with Writing(server, name) as writing:
        writing.some_more()
        before = set(writing.done)
        version = build_index(frame, at=server.target, table=name, key="k", value="v", url=where)
        ends = [each.latest for each in table.describe().partitions]
        assert (min(ends), ends.index(min(ends))) == (0, partition_of(b"{b}", PARTITIONS)), "one no-op, of the build"
        writing.some_more()
        ran(server, "bulk", "stage", name, where)
        writing.some_more()
        ran(server, "bulk", "swap", name)
        writing.some_more()
    live = writing.done
    bases = [part.offset for part in version.parts]
    later = {
        change.key: change.value
        for change in source.changes()
        if change.key in live and change.offset > bases[change.partition]
    }
    assert 0 < len(later) < len(live)
    assert before.isdisjoint(later)
    assert dict(table.scan(level="strong")) == {**built, **later}
    assert source.rows() == {**built, **later}
    table.put(b"after", b"the swap")
    ran(server, "bulk", "rollback", name)
    assert dict(table.scan(level="strong")) == {**old, **live, b"after": b"the swap"}
    assert source.rows() == {**old, **live, b"after": b"the swap"}
    assert [each["state"] for each in ran(server, "bulk", "versions", name)] == ["live", "kept"]


def test_changes_are_exported_from_where_the_last_export_ended(
    source: Source, table: Table, server: ServerProcess, tmp_path: Path
) -> None:
    table.put_many([(b"k%03d" % number, b"old") for number in range(200)])

    def change(step: int) -> set[tuple[str, bytes]]:
        """Write, and say what the next export of changes should hold."""
        keys = [b"k%03d" % number for number in range(step, 200, 10)]
        table.put_many([(key, b"step %d" % step) for key in keys])
        table.delete(b"k%03d" % (100 + step))
        return {*(("put", key) for key in keys), ("delete", b"k%03d" % (100 + step))}

    def exported(folder: str) -> set[tuple[str, bytes]]:
        rows = changes_of(source.spark.read.parquet(str(tmp_path / folder)))
        found = {(row.operation, row.key) for row in rows}
        assert len(found) == len(rows)
        return found

    place: dict[str, Any] = {"at": server.target, "table": table.name, "url": str(tmp_path)}
    assert export_table(source.spark, **place).rows == 200
    expected = change(1)
    assert exported(export_changes(source.spark, **place).folder) == expected
    expected = change(2)
    (said,) = ran(server, "export", table.name, str(tmp_path), "--changes")
    assert said["rows"] == 21
    assert exported(said["folder"]) == expected
    assert export_changes(source.spark, **place).rows == 0


def test_a_table_is_cleared_and_brought_back(source: Source, table: Table, server: ServerProcess) -> None:
    rows = {b"k%d" % number: b"%d" % number for number in range(500)}
    table.put_many(list(rows.items()))
    ran(server, "admin", "clear", table.name)
    assert dict(table.scan(level="strong")) == {}
    assert source.rows() == {}
    table.put(b"later", b"1")
    ran(server, "admin", "rollback", table.name)
    assert dict(table.scan(level="strong")) == {**rows, b"later": b"1"}
    assert source.rows() == {**rows, b"later": b"1"}
    assert len(source.changes()) == 501, "the log has what it had; barriers are no changes"


@contextmanager
def router_on(log_url: str, *, tells: str) -> Iterator[str]:
    """A router that names `tells` to its clients as the log's address. Yields the router's address."""
    command = [sys.executable, "-m", "duramen", "serve", "router", "--log", log_url, "--port", "0", "--json"]
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "DURAMEN_ROUTER_CLIENT_LOG": tells},
    )
    try:
        yield f"127.0.0.1:{json.loads(read_line(process, START_SECONDS_MAX))['port']}"
    finally:
        process.terminate()
        process.communicate(timeout=patience_s(DEADLINE_S))


def test_tasks_reach_the_brokers_themselves(source: Source, table: Table, log_url: str, tmp_path: Path) -> None:
    """In a cluster of nodes nobody serves the log over gRPC: Spark gets its address from a router that names it."""
    rows = {b"k%d" % number: b"%d" % number for number in range(1_000)}
    frame = source.spark.range(0, 1_000, 1, 2).selectExpr("concat('k', id) AS key", "cast(id AS string) AS value")
    with router_on(log_url, tells="same") as at, pytest.raises(InvalidRequest, match="start a router with client_log"):
        build_index(frame, at=at, table=table.name, key="key", value="value", url=f"file://{tmp_path}/v")
    with router_on(log_url, tells=log_url) as at:
        straight = Source(source.spark, at, table.name)
        straight.write(frame)
        with duramen.connect(at, timeout=DEADLINE_S) as database:
            assert database.table(table.name).put(b"k7", b"by a client")
            assert database.table(table.name).get(b"k7") == b"by a client"
        assert straight.rows() == {**rows, b"k7": b"by a client"} == dict(table.scan(level="strong"))
        assert straight.changes() == source.changes()
        assert len(straight.changes()) == 1_001
        version = build_index(frame, at=at, table=table.name, key="key", value="value", url=f"file://{tmp_path}/v")
        assert [part.offset for part in version.parts] == [each.latest for each in table.describe().partitions]


def test_a_table_over_a_topic_of_others(
    source: Source, kafka: str, database: Database, server: ServerProcess, tmp_path: Path
) -> None:
    """Keys lie where Kafka's client puts them, and what ends the log is no record: the mark of a transaction."""
    topic = make_topic(kafka, partitions=2)
    table = database.create_table(topic, over=topic)
    theirs = Source(source.spark, server.target, topic)
    sender = producer(kafka, transactional_id=f"others-{topic}")
    sender.init_transactions(DEADLINE_S)
    rows: dict[bytes, bytes] = {}
    for partition in (0, 1):
        keys = [key for key in (b"k%d" % number for number in range(100)) if placed(key) == partition]
        sender.begin_transaction()
        send(sender, topic, [Record(key, b"theirs") for key in keys], partition=partition)
        sender.commit_transaction(DEADLINE_S)
        rows |= dict.fromkeys(keys, b"theirs")
        # The commit returns before the partition has its mark.
        wait_until(partial(ends_at, kafka, topic, partition, len(keys) + 1))
    assert theirs.rows() == rows == dict(table.scan(level="strong"))
    assert {change.key for change in theirs.changes()} == set(rows)
    frame = source.spark.range(0, 300, 1, 2).selectExpr("concat('k', id) AS key", "'built' AS value")
    where = f"file://{tmp_path}/v2"
    version = build_index(frame, at=server.target, table=topic, key="key", value="value", url=where)
    assert [part.offset for part in version.parts] == [end_of(kafka, topic, each)[1] - 1 for each in (0, 1)]
    assert all(abs(part.log_time_ms - time.time() * 1000) < 600_000 for part in version.parts)
    theirs.write(source.spark.range(0, 10, 1, 2).selectExpr("concat('k', id) AS key", "'written' AS value"))
    ran(server, "bulk", "stage", topic, where)
    ran(server, "bulk", "swap", topic)
    expected = {b"k%d" % number: b"written" if number < 10 else b"built" for number in range(300)}
    assert dict(table.scan(level="strong")) == expected == theirs.rows()
    assert table.get_many(list(expected)) == list(expected.values())


def placed(key: bytes) -> int:
    return partition_of(key, 2, "murmur2")


def ends_at(kafka: str, topic: str, partition: int, end: int) -> bool:
    return end_of(kafka, topic, partition) == (0, end)
