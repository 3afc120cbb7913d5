"""A client with traces: who is whose, its fast path, processes that it is sent to, calls that are cancelled."""

from __future__ import annotations

import asyncio
import gc
import pickle
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from kit.client.server_process import ServerProcess
from kit.traces.collector import Collector
from kit.traces.program import durations, kept, sampling, sending_to
from opentelemetry import trace
from opentelemetry.context import attach, detach, set_value
from opentelemetry.metrics import NoOpMeterProvider
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags

import duramen
from duramen import aio, testing
from duramen.blocking.observed_table import ObservedBlockingTable
from duramen.client.many_keys import WINDOW_RECORDS
from duramen.client.transport.resp_fast_path import FastPathTable
from duramen.tracing.client_operations import OtelOperations
from log_tier.tracing.span import TRACED

pytestmark = pytest.mark.embedded_log_only


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as listening, sending_to(listening):
        yield listening


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """It traces nothing."""
    folder = tmp_path_factory.mktemp("untraced")
    started = ServerProcess(folder / "data", log=folder / "log", arguments=["--resp-port", "0"])
    yield started
    started.close()


def unsampled() -> AbstractContextManager[Any]:
    """The program is in a trace that is not sampled."""
    return trace.use_span(NonRecordingSpan(SpanContext(1, 1, is_remote=False, trace_flags=TraceFlags(0))))


async def test_a_call_that_is_not_sampled_takes_nothing_of_its_neighbours(
    server: ServerProcess, collector: Collector
) -> None:
    """Both leave in one request, and again in the request that leaves when the first one is back."""
    async with await aio.connect(server.target, traces=True) as db:
        table = await db.create_table("neighbours", partitions=1)

        async def silent(key: bytes) -> None:
            with unsampled():
                await table.put(key, b"v")
                assert await table.get(key) == b"v"

        async def traced(key: bytes) -> None:
            await table.put(key, b"v")
            assert await table.get(key) == b"v"

        for number in range(10):
            await asyncio.gather(traced(b"a%d" % number), silent(b"b%d" % number))
            await asyncio.gather(silent(b"f%d" % number), traced(b"g%d" % number))
            sent = asyncio.gather(traced(b"c%d" % number))
            await asyncio.sleep(0)
            await asyncio.gather(silent(b"d%d" % number), silent(b"e%d" % number), sent)
        assert TRACED.get() == ()
    roots = {span.trace: span for span in collector.received if not span.parent}
    assert sorted({span.name for span in roots.values()}) == ["get neighbours", "put neighbours"]
    assert len(roots) == 60
    assert all("duramen.gathered_ms" in span.attributes for span in roots.values()), "each has left by itself"
    assert not any("duramen.requests" in span.attributes for span in roots.values()), "and once"
    assert not any(span.links for span in collector.received)


async def test_a_call_that_is_not_sampled_is_in_no_open_trace(server: ServerProcess, collector: Collector) -> None:
    """An operation of many requests lasts, and what others ask for leaves when one of its requests is back."""
    async with await aio.connect(server.target, traces=True) as db:
        table = await db.create_table("lasting", partitions=1)
        keys = [b"a%d" % number for number in range(4 * WINDOW_RECORDS)]
        over = False

        async def silent(number: int) -> None:
            with unsampled():
                while not over:
                    await table.put(b"b%d" % number, b"v")
                    await table.get(b"b%d" % number)

        others = [asyncio.create_task(silent(number)) for number in range(8)]
        await table.put_many((key, b"v") for key in keys)
        reading = (table.get_many(keys[part : part + WINDOW_RECORDS]) for part in range(0, len(keys), WINDOW_RECORDS))
        assert [len(values) for values in await asyncio.gather(*reading)] == [WINDOW_RECORDS] * 4
        over = True
        await asyncio.gather(*others)
    roots = [span for span in collector.received if not span.parent]
    assert sorted(span.name for span in roots) == [*["get_many lasting"] * 4, "put_many lasting"]
    (lasting,) = collector.named("put_many lasting")
    assert lasting.attributes["duramen.requests"] == 4, "one request for each window"
    lookups = [span for span in roots if span is not lasting]
    assert max(span.attributes.get("duramen.requests", 1) for span in lookups) <= 4 * 4
    assert all(len(set(span.links)) == len(span.links) for span in lookups), "it is one caller of a request"
    assert roots == collector.received, "few requests for many keys, and none of them a span"


async def test_a_cancelled_call_ends_its_span(server: ServerProcess, collector: Collector) -> None:
    async with await aio.connect(server.target, traces=True) as db:
        table = await db.create_table("cancelled", partitions=1)
        put = asyncio.create_task(table.put(b"k", b"v"))
        await asyncio.sleep(0)
        put.cancel()
        with pytest.raises(asyncio.CancelledError):
            await put
    (span,) = collector.named("put cancelled")
    assert (span.failed, span.attributes["error.type"]) == (True, "CancelledError")


async def test_a_call_that_is_cancelled_before_its_first_step_leaves_nothing(
    server: ServerProcess, collector: Collector
) -> None:
    async with await aio.connect(server.target, traces=True) as db:
        table = await db.create_table("unbegun", partitions=1)
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            put = asyncio.create_task(table.put(b"k", b"v"))
            put.cancel()
            with pytest.raises(asyncio.CancelledError):
                await put
            del put
            gc.collect()
    assert [text for each in warned if "never awaited" in (text := str(each.message))] == []
    assert collector.named("put unbegun") == [], "it did not begin"


def test_only_sampled_calls_leave_the_fast_path(
    server: ServerProcess, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick: list[bytes] = []
    put = FastPathTable.put

    def counted(self: FastPathTable, key: bytes, value: bytes) -> Any:
        quick.append(key)
        return put(self, key, value)

    monkeypatch.setattr(FastPathTable, "put", counted)
    with duramen.connect(server.target, traces=True) as db:
        table = db.create_table("quick", partitions=1)
        with sampling(False):
            done = table.put(b"unsampled", b"v")
        table.put(b"sampled", b"v")
        with sampling(False):
            assert table.get(b"sampled", after=done.token) == b"v"
    assert quick == [b"unsampled"]
    (span,) = collector.named("put quick")
    assert [each.name for each in collector.received if each.trace == span.trace] == ["put quick"]


def test_a_scan_leaves_the_program_alone_between_its_pages(server: ServerProcess, collector: Collector) -> None:
    with duramen.connect(server.target, traces=True) as db:
        table = db.create_table("scans", partitions=1)
        table.put_many({b"k%d" % number: b"v" for number in range(5)})
        collector.received.clear()
        scan = table.scan()
        next(scan)
        assert table.get(b"k1") == b"v"
        scan.close()
    (scanned,), (got,) = collector.named("scan scans"), collector.named("get scans")
    assert scanned.trace != got.trace
    assert not scanned.failed, "the program has seen enough"


async def test_an_asynchronous_scan_too(server: ServerProcess, collector: Collector) -> None:
    async with await aio.connect(server.target, traces=True) as db:
        table = await db.create_table("walks", partitions=1)
        await table.put(b"k", b"v")
        async for _ in table.scan():
            assert TRACED.get() == ()
            await table.get(b"k")
    (scanned,), (got,) = collector.named("scan walks"), collector.named("get walks")
    assert scanned.trace != got.trace


def test_a_pickled_client_traces_as_well(server: ServerProcess, collector: Collector) -> None:
    with duramen.connect(server.target, traces=True) as db:
        table = db.create_table("pickled", partitions=1)
        again, sent = pickle.loads(pickle.dumps((db, table)))
        with again:
            assert type(sent) is ObservedBlockingTable
            sent.put(b"k", b"v")
            again.table("pickled").get(b"k")
    assert collector.named("put pickled")
    assert collector.named("get pickled")


def test_a_name_that_cannot_be_is_in_no_span(server: ServerProcess, collector: Collector) -> None:
    with duramen.connect(server.target, traces=True) as db:
        for name in ("<script>", "a\nb", "\x1b[31m"):
            with pytest.raises(duramen.InvalidName):
                db.table(name).get(b"k")
    assert not collector.received


def test_both_clients_of_a_process_count(server: ServerProcess, tmp_path: Path, collector: Collector) -> None:
    with duramen.connect(server.target, traces=True) as one, duramen.open(tmp_path / "data", traces=True) as other:
        for db in (one, other):
            db.create_table("counted", partitions=1).put(b"k", b"v")
    ports = [(point.attributes or {}).get("server.port") for point in durations("counted")]
    assert sorted(ports, key=str) == [int(server.target.rpartition(":")[2]), None]


def test_a_program_with_traces_runs_in_a_simulated_cluster() -> None:
    offsets: list[int] = []

    @testing.simulated
    async def program() -> None:
        async with testing.Cluster() as cluster, await aio.connect(cluster.addresses, traces=True) as db:
            table = await db.create_table("simulated", partitions=4)
            done = await table.put(b"k", b"v", if_absent=True)
            assert await table.get(b"k", after=done.token) == b"v"
            offsets.append(done.offset)

    with kept() as spans:
        program()
    finished = spans.get_finished_spans()
    (put,) = (span for span in finished if span.name == "put simulated")
    assert (put.attributes or {})["duramen.offset"] == offsets[0]
    assert "duramen.gathered_ms" in (put.attributes or {})


async def test_a_share_of_the_calls_is_traced_and_what_is_part_of_a_trace_always(
    server: ServerProcess, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    gaps = iter([0.0, 0.45, 0.7, 0.0])  # as many calls are none as (3/4)^n is more than what is left of 1
    monkeypatch.setattr("duramen.tracing.client_operations.random", lambda: next(gaps))
    async with await aio.connect(server.target, traces=0.25) as db:
        table = await db.create_table("shares", partitions=1)
        for number in range(8):
            await table.put(b"%d" % number, b"v")
            with trace.get_tracer("program").start_as_current_span("the program's"):
                assert await table.get(b"0") == b"v"
            with unsampled():
                assert await table.get(b"0") == b"v"
    puts = [span for span in collector.received if span.name == "put shares"]
    assert [span.attributes["duramen.offset"] for span in puts] == [2, 7]
    gets = [span for span in collector.received if span.name == "get shares"]
    assert len(gets) == 8
    assert {span.parent for span in gets} == {span.id for span in collector.received if span.name == "the program's"}
    assert next(gaps, None) is None


@pytest.mark.parametrize("share", [0.01, 0.5, 0.999])
@pytest.mark.parametrize("inside", [False, True])
def test_as_many_calls_are_traced_as_the_share_says(
    share: float, inside: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`inside`: the program has begun something that is no span."""
    monkeypatch.setattr("opentelemetry.metrics.get_meter_provider", NoOpMeterProvider)
    operations = OtelOperations(["127.0.0.1:1"], share)
    token = attach(set_value("what", "a program's"))
    if not inside:
        detach(token)
    skipped = taken = 0
    for _ in range(20_000):
        if operations.skips():
            skipped += 1
        else:
            taken += operations.begin("get", "flights") is not None
    if inside:
        detach(token)
    assert taken == pytest.approx(20_000 * share, rel=0.25)
    assert skipped == (0 if inside else 20_000 - taken)


@pytest.mark.parametrize("share", [-1, 1.5, float("nan"), 2])
async def test_a_share_that_is_none_is_refused(server: ServerProcess, share: float) -> None:
    with pytest.raises(duramen.InvalidRequest, match=r"the share of the calls to trace, above 0 and up to 1"):
        await aio.connect(server.target, traces=share)
