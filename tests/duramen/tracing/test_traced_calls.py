"""One trace from the call of a program over a real server's parts to its reply: a collector on loopback sees it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from kit.client.server_process import ServerProcess
from kit.traces.collector import Collector, ReceivedSpan, tree_of
from kit.traces.program import duration_metrics, durations, sampling, sending_to
from opentelemetry import trace
from opentelemetry.semconv.attributes import db_attributes, server_attributes
from opentelemetry.semconv.metrics import db_metrics

import duramen
from duramen import aio

pytestmark = pytest.mark.embedded_log_only


@pytest.fixture(scope="module")
def server_arguments() -> list[str]:
    return ["--resp-port", "0"]


@pytest.fixture(autouse=True)
def sent(collector: Collector) -> Iterator[None]:
    collector.received.clear()
    with sending_to(collector):
        yield


def one(collector: Collector, name: str) -> ReceivedSpan:
    (span,) = collector.wait_for(name)
    return span


def begin_again(server: ServerProcess, collector: Collector) -> None:
    """What earlier calls left is there, and forgotten: spans are sent in the order in which they end."""
    with duramen.connect(server.target, traces=True) as db:
        done = db.create_table("mark", partitions=1, if_missing=True).put(b"k", b"v")
    put = {span.attributes["duramen.offset"]: span for span in collector.wait_for("put mark")}[done.offset]
    collector.wait_for_part(put, "duramen.v1.KeyValue/Write")
    collector.wait_for_part(put, "log append")
    collector.wait_for_part(put, "index apply")
    collector.received.clear()


def test_a_put_is_one_trace_to_the_log_and_back(server: ServerProcess, collector: Collector) -> None:
    with duramen.connect(server.target, traces=True) as db:
        table = db.create_table("flights", partitions=4)
        done = table.put(b"secret key", b"secret value")
    put = one(collector, "put flights")
    collector.wait_for("log commit")
    collector.wait_for("index apply")
    assert tree_of(collector.received, put.trace) == [
        "program: put flights",
        *(
            f"single: put flights > duramen.v1.KeyValue/Write{part}"
            for part in (
                "",
                " > index apply",
                " > log append",
                " > log append > log commit",
                " > log append > log queue",
                " > log append > log sync",
                " > log append > log write",
            )
        ),
    ]
    place = {"duramen.partition": done.partition, "duramen.offset": done.offset}
    for name in ("put flights", "duramen.v1.KeyValue/Write", "log append", "index apply"):
        assert place.items() <= one(collector, name).attributes.items(), name
    host, _, port = server.target.rpartition(":")
    assert 0 <= put.attributes.pop("duramen.gathered_ms") < 1000 * (put.ended_ns - put.began_ns)
    assert put.attributes == {
        "db.system.name": "duramen",
        "db.collection.name": "flights",
        "db.operation.name": "put",
        "server.address": host,
        "server.port": int(port),
        **place,
    }
    assert (put.kind, put.failed, put.parent) == ("CLIENT", False, b"")
    answered = one(collector, "duramen.v1.KeyValue/Write")
    assert (answered.kind, answered.service) == ("SERVER", "duramen")
    assert answered.attributes["rpc.method"] == "Write"
    parts = [one(collector, f"log {part}") for part in ("queue", "write", "sync")]
    assert [part.ended_ns for part in parts[:2]] == pytest.approx([part.began_ns for part in parts[1:]], abs=2e6)
    assert all(part.ended_ns >= part.began_ns for part in parts)
    assert b"secret" not in repr(collector.received).encode()


def test_a_get_waits_for_the_index_in_its_trace(server: ServerProcess, collector: Collector) -> None:
    with duramen.connect(server.target, traces=True) as db:
        table = db.create_table("gets", partitions=1)
        done = table.put(b"k", b"v")
        assert table.get(b"k", after=done.token) == b"v"
        assert table.get(b"k", level="strong") == b"v"
    gets = collector.wait_for("get gets", 2)
    for get in gets:
        collector.wait_for_part(get, "duramen.v1.KeyValue/Read")
        assert get.attributes["duramen.partition"] == 0
        assert get.attributes["duramen.offset"] >= done.offset
        tree = tree_of(collector.received, get.trace)
        assert "single: get gets > duramen.v1.KeyValue/Read > index read" in tree
    waits = [span for span in collector.named("index wait") if span.trace == gets[1].trace]
    assert [span.attributes["duramen.waited_for_offset"] for span in waits] == [done.offset]


def test_the_span_of_the_program_is_the_parent(server: ServerProcess, collector: Collector) -> None:
    tracer = trace.get_tracer("program")
    with duramen.connect(server.target, traces=True) as db:
        table = db.create_table("parents", partitions=1)
        with tracer.start_as_current_span("request of a user"):
            table.put(b"k", b"v")
    request = one(collector, "request of a user")
    put = one(collector, "put parents")
    assert (put.trace, put.parent) == (request.trace, request.id)


async def test_two_callers_in_one_request_each_have_their_trace(server: ServerProcess, collector: Collector) -> None:
    import asyncio

    async with await aio.connect(server.target, traces=True) as db:
        table = await db.create_table("pairs", partitions=1)
        await asyncio.to_thread(begin_again, server, collector)
        first, second = await asyncio.gather(table.put(b"a", b"1"), table.put(b"b", b"2"))
    puts = await asyncio.to_thread(collector.wait_for, "put pairs", 2)
    by_offset = {span.attributes["duramen.offset"]: span for span in puts}
    assert by_offset.keys() == {first.offset, second.offset}
    leading, other = by_offset[first.offset], by_offset[second.offset]
    assert leading.trace != other.trace
    answered = await asyncio.to_thread(collector.wait_for_part, leading, "duramen.v1.KeyValue/Write")
    assert answered.parent == leading.id
    assert not [span for span in collector.named(answered.name) if span.trace == other.trace], "it was one request"
    assert (leading.links, other.links) == ([], [(leading.trace, leading.id)])


def test_an_error_has_its_code_and_no_words(server: ServerProcess, collector: Collector) -> None:
    with duramen.connect(server.target, traces=True) as db:
        table = db.create_table("errors", partitions=1)
        table.put(b"k", b"v")
        with pytest.raises(duramen.ConditionFailed):
            table.put(b"k", b"w", if_absent=True)
        with pytest.raises(duramen.TableNotFound):
            db.table("nowhere").get(b"k")
    collector.wait_for("put errors", 2)
    (failed,) = (span for span in collector.named("put errors") if span.failed)
    assert failed.attributes["error.type"] == failed.attributes["db.response.status_code"] == "condition_failed"
    lookup = one(collector, "get nowhere")
    assert lookup.attributes["error.type"] == "table_not_found"
    (found,) = (span for span in collector.wait_for("duramen.v1.Tables/Find") if span.trace == lookup.trace)
    assert (found.failed, found.attributes["error.type"]) == (True, "table_not_found")
    points = [point.attributes or {} for point in durations("errors")]
    kinds = {(each.get("error.type"), each.get("db.response.status_code")) for each in points}
    assert kinds == {(None, None), ("condition_failed", "condition_failed")}


def test_what_no_server_answered_has_no_status_of_an_answer(tmp_path: Path) -> None:
    with (
        closing(ServerProcess(tmp_path / "data", log=tmp_path / "log")) as gone,
        duramen.connect(gone.target, traces=True) as db,
    ):
        table = db.create_table("gone", partitions=1)
        gone.kill9()
        with pytest.raises(duramen.DuramenError):
            table.put(b"k", b"v", timeout=1.0)
    (failed,) = (point.attributes or {} for point in durations("gone"))
    assert failed["error.type"] in ("disconnected", "deadline_exceeded", "write_unknown")
    assert "db.response.status_code" not in failed


def test_durations_are_as_the_conventions_name_them(server: ServerProcess) -> None:
    with duramen.connect(server.target, traces=True) as db:
        db.create_table("named", partitions=1).put(b"k", b"v")
    (metric,) = duration_metrics("named")
    assert (metric.name, metric.unit) == (db_metrics.DB_CLIENT_OPERATION_DURATION, "s")
    assert metric.description == "Duration of database client operations."
    (point,) = durations("named")
    host, _, port = server.target.rpartition(":")
    assert point.attributes == {
        db_attributes.DB_SYSTEM_NAME: "duramen",
        db_attributes.DB_COLLECTION_NAME: "named",
        db_attributes.DB_OPERATION_NAME: "put",
        server_attributes.SERVER_ADDRESS: host,
        server_attributes.SERVER_PORT: int(port),
    }


def test_a_call_that_is_not_sampled_has_no_span_and_a_duration(server: ServerProcess, collector: Collector) -> None:
    begin_again(server, collector)
    with sampling(False), duramen.connect(server.target, traces=True) as db:
        table = db.create_table("unsampled", partitions=1)
        done = table.put(b"k", b"v")
        assert table.get(b"k", after=done.token) == b"v"
        assert table.get_many([b"k", b"l"]) == [b"v", None]
        assert list(table.scan()) == [(b"k", b"v")]
    with duramen.connect(server.target, traces=True) as db:
        db.table("unsampled").delete(b"k")
    collector.wait_for("log commit")
    assert {span.trace for span in collector.received} == {one(collector, "delete unsampled").trace}
    points = {(point.attributes or {})["db.operation.name"]: point for point in durations("unsampled")}
    assert {name: point.count for name, point in points.items()} == {
        "put": 1,
        "get": 1,
        "get_many": 1,
        "scan": 1,
        "delete": 1,
    }
    assert tuple(points["put"].explicit_bounds) == (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0)


def test_many_writes_are_a_batch_and_what_reads_return_is_counted(server: ServerProcess, collector: Collector) -> None:
    """By the conventions a read of many keys is no batch: one operation takes them all."""
    with duramen.connect(server.target, traces=True) as db:
        table = db.create_table("many", partitions=4)
        table.put_many({b"k%d" % number: b"v" for number in range(9)})
        assert len(table.get_many([b"k1", b"k2", b"k3"])) == 3
        assert len(list(table.scan(limit=5))) == 5
        assert table.get_many([b"k4", b"nowhere"]) == [b"v", None]
        table.put_many({b"k": b"one is no batch"})
        table.batch().put(b"{a}1", b"v").put(b"{a}2", b"v").commit()
    sizes = {
        name: collector.wait_for(f"{name} many", count)[0]
        for name, count in (("put_many", 2), ("get_many", 2), ("scan", 1))
    }
    found = {
        name: [
            (span.attributes.get("db.operation.batch.size"), span.attributes.get("db.response.returned_rows"))
            for span in collector.named(f"{name} many")
        ]
        for name in sizes
    }
    assert found == {"put_many": [(9, None), (None, None)], "get_many": [(None, 3), (None, 1)], "scan": [(None, 5)]}
    for name, request in (("put_many", "Write"), ("get_many", "Read"), ("scan", "Scan")):
        collector.wait_for_part(sizes[name], f"duramen.v1.KeyValue/{request}")
    assert not one(collector, "batch many").failed


def test_a_table_without_traces_is_the_plain_one(server: ServerProcess, collector: Collector) -> None:
    begin_again(server, collector)
    with duramen.connect(server.target) as db:
        table = db.create_table("plain", partitions=1)
        assert type(table) is duramen.blocking.Table
        table.put(b"k", b"v")
    with duramen.connect(server.target, traces=True) as db:
        db.table("plain").delete(b"k")
    collector.wait_for("log commit")
    assert {span.trace for span in collector.received} == {one(collector, "delete plain").trace}


def test_an_embedded_database_has_the_whole_trace(tmp_path: Path, collector: Collector) -> None:
    with duramen.open(tmp_path / "data", traces=True) as db:
        table = db.create_table("here", partitions=1)
        done = table.put(b"k", b"v")
        assert table.get(b"k") == b"v"
    put = one(collector, "put here")
    assert put.attributes["duramen.offset"] == done.offset
    assert "server.address" not in put.attributes
    assert "program: put here > log append > log sync" in tree_of(collector.received, put.trace)
    get = one(collector, "get here")
    assert "program: get here > index read" in tree_of(collector.received, get.trace)


def test_a_flight_of_a_writer_is_one_trace_with_links_to_who_put(server: ServerProcess, collector: Collector) -> None:
    tracer = trace.get_tracer("program")
    with duramen.connect(server.target, traces=True) as db:
        table = db.create_table("stream", partitions=2)
        with table.writer("rows of today") as writer:
            for number in range(3):
                with tracer.start_as_current_span(f"row {number}"):
                    writer.put_rows([(b"k%d" % (2 * number + each), b"v") for each in range(2)])
            with tracer.start_as_current_span("the flush"):
                done = writer.flush()
            writer.put_rows([(b"last", b"v")])
    flight, last = collector.wait_for("writer stream", 2)
    rows = [one(collector, f"row {number}") for number in range(3)]
    assert flight.links == [(row.trace, row.id) for row in rows]
    flush = one(collector, "the flush")
    assert (flight.trace, flight.parent) == (flush.trace, flush.id)
    assert (flight.kind, flight.attributes["db.operation.batch.size"]) == ("CLIENT", 6)
    assert done.records == 6
    assert (last.parent, last.links) == (b"", [])
    for name in ("duramen.v1.KeyValue/Write", "log append", "index apply"):
        collector.wait_for_part(flight, name)


async def test_a_writer_that_is_not_traced_has_no_spans(server: ServerProcess, collector: Collector) -> None:
    async with await aio.connect(server.target, traces=True) as db:
        table = await db.create_table("silent", partitions=1)
        with sampling(on=False):
            async with table.writer("rows") as writer:
                await writer.put(b"k", b"v")
        await table.put(b"mark", b"v")
    import asyncio

    await asyncio.to_thread(collector.wait_for, "put silent")
    assert not collector.named("writer silent")
