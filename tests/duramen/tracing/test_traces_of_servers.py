"""What servers trace of calls that come to them: many callers in one commit, hostile headers, a cluster."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from kit.client.server_process import ServerProcess
from kit.clients.kv_servers import DEADLINE_S, KVClient, refused
from kit.cluster.cluster_process import ClusterProcess
from kit.flight_rows import FLIGHT_SCHEMA
from kit.traces.collector import Collector, tree_of
from kit.traces.program import sending_to
from kit.traces.servers import environment_of_traces
from opentelemetry.sdk.trace.sampling import (
    ALWAYS_OFF,
    ALWAYS_ON,
    Decision,
    ParentBased,
    SamplingResult,
    StaticSampler,
)

import duramen
from duramen.tracing.otlp_bytes import SpanRecord
from duramen.tracing.served_spans import ServedTraces, follows_callers
from router.proto import kv_pb2 as kv

pytestmark = pytest.mark.embedded_log_only

CALLERS = 24


@pytest.fixture
async def client(server: ServerProcess) -> AsyncIterator[KVClient]:
    made = KVClient(int(server.announcement["port"]))
    yield made
    await made.channel.close(None)


def parent(number: int, *, flags: str = "01") -> tuple[tuple[str, str], ...]:
    return (("traceparent", f"00-{number:032x}-{number:016x}-{flags}"),)


async def put(client: KVClient, key: bytes, metadata: Any) -> int:
    request = kv.KVPutRequest(table=client.table, key=key, value=b"v")
    return int((await client.stub.Put(request, timeout=DEADLINE_S, metadata=metadata)).version)


async def test_callers_in_one_commit_have_their_own_times_and_links_to_it(
    client: KVClient, collector: Collector
) -> None:
    await client.create(partitions=1)
    await put(client, b"warm", ())
    collector.received.clear()
    offsets = await asyncio.gather(*(put(client, b"k%d" % number, parent(number + 1)) for number in range(CALLERS)))
    await asyncio.to_thread(collector.wait_for, "duramen.v1.KV/Put", CALLERS)
    appends = await asyncio.to_thread(collector.wait_for, "log append", CALLERS)
    for number, offset in enumerate(offsets):
        trace = (number + 1).to_bytes(16)
        answered = next(span for span in collector.named("duramen.v1.KV/Put") if span.trace == trace)
        assert answered.parent == (number + 1).to_bytes(8)
        assert answered.attributes["duramen.offset"] == offset
        tree = tree_of(collector.received, trace)
        for part in ("queue", "write", "sync"):
            assert f"single: duramen.v1.KV/Put > log append > log {part}" in tree
    commits = collector.named("log commit")
    shared = [commit for commit in commits if commit.links]
    assert shared, f"{CALLERS} calls at once had {len(commits)} commits"
    by_id = {(append.trace, append.id): append for append in appends}
    for commit in commits:
        of_all = [(commit.trace, commit.parent), *commit.links]
        assert len({trace for trace, _ in of_all}) == len(of_all), "each caller is there once"
        for link in commit.links:
            assert by_id[link].links == [(commit.trace, commit.id)]
    assert sum(1 + len(commit.links) for commit in commits) == CALLERS


HOSTILE: dict[str, tuple[tuple[str, str], ...]] = {
    "garbage": (("traceparent", "<script>alert(1)</script>"),),
    "long": (("traceparent", "00-" + "a" * 7000),),
    "a valid one, and 7 KB behind it": (("traceparent", parent(0xBAD)[0][1] + "-" + "f" * 7000),),
    "a wrong version": (("traceparent", f"ff-{0xBAD:032x}-{0xBAD:016x}-01"),),
    "no trace": (("traceparent", f"00-{0:032x}-{0xBAD:016x}-01"),),
    "no span": (("traceparent", f"00-{0xBAD:032x}-{0:016x}-01"),),
    "upper case": (("traceparent", f"00-{0xBAD:032X}-{0xBAD:016X}-01"),),
    "not sampled": parent(0xBAD, flags="00"),
    "not a number": (("traceparent", f"00-{0xBAD:032x}-{0xBAD:016x}-zz"),),
}


@pytest.mark.parametrize("header", HOSTILE.values(), ids=HOSTILE)
async def test_a_hostile_header_is_ignored(
    client: KVClient, collector: Collector, header: tuple[tuple[str, str], ...]
) -> None:
    client.table = f"hostile{list(HOSTILE.values()).index(header)}"
    await client.create(partitions=1)
    collector.received.clear()
    hostile = await put(client, b"k", header)
    assert await put(client, b"k", parent(0x600D)) == hostile + 1
    await asyncio.to_thread(collector.wait_for, "log append")
    assert {span.trace for span in collector.received} == {(0x600D).to_bytes(16)}


def forget(_span: SpanRecord) -> None:
    """It is no matter."""


STATED = (*parent(0xBAD), ("tracestate", "vendor=1"))
TWICE = (*parent(0xBAD), *parent(0xBAD))


@pytest.mark.parametrize("sampler", [ParentBased(ALWAYS_OFF), ParentBased(ALWAYS_ON)], ids=["off", "on"])
def test_what_follows_its_callers_takes_what_the_sampler_takes(sampler: ParentBased) -> None:
    headers = [*HOSTILE.values(), (), parent(0x600D), parent(0x600D, flags="03"), parent(0x600D, flags="02")]
    headers += [STATED, STATED[::-1], STATED[1:], TWICE, (("traceparent", parent(5)[0][1] + "\n"),)]
    for header in headers:
        sides: list[list[SpanRecord]] = [[], []]
        for spans, follows in zip(sides, (False, True), strict=True):
            tracing = ServedTraces(sampler, spans.append, follows=follows)
            span = tracing.serve("/duramen.v1.KV/Get", (("user-agent", "x"), *header))
            if span is not None:
                span.end()
        asked, followed = (
            [
                (each.parent and each.trace, each.parent, each.is_parent_remote, each.state, each.attributes)
                for each in side
            ]
            for side in sides
        )
        assert asked == followed, header


def test_which_samplers_follow_their_callers() -> None:
    followed = {
        name: follows_callers({"OTEL_TRACES_SAMPLER": name})
        for name in ("", "parentbased_always_off", " ParentBased_TraceIdRatio ", "always_on", "traceidratio", "jaeger")
    }
    assert list(followed.values()) == [True, True, True, False, False, False]


def test_a_long_tracestate_is_left_out() -> None:
    spans: list[SpanRecord] = []
    tracing = ServedTraces(ALWAYS_ON, spans.append)
    for state in ("vendor=1", ",".join(f"vendor{number}={'x' * 200}" for number in range(30))):
        span = tracing.serve("/duramen.v1.KV/Get", [*parent(5), ("tracestate", state)])
        assert span is not None
        span.child("index read").end()
        span.end()
    assert [span.state for span in spans] == ["vendor=1", "vendor=1", "", ""]
    assert {span.trace for span in spans} == {(5).to_bytes(16)}
    assert [span.is_parent_remote for span in spans] == [False, True] * 2


def test_servers_begin_no_traces_of_each_other() -> None:
    tracing = ServedTraces(ALWAYS_ON, forget)
    for method in ("/duramen.v1.Log/AppendMany", "/duramen.v1.Node/Status", "/grpc.health.v1.Health/Check"):
        assert tracing.serve(method, ()) is None
        assert tracing.serve(method, parent(7)) is not None
        assert tracing.serve(method, (*parent(7), *parent(8))) is None, "two parents are none"
    assert tracing.serve("/duramen.v1.KV/Get", None) is not None


def test_a_sampler_that_raises_changes_nothing() -> None:
    class Failing(StaticSampler):
        def should_sample(self, *_: Any, **__: Any) -> SamplingResult:
            raise RuntimeError("a bug of somebody's sampler")

    tracing = ServedTraces(Failing(Decision.RECORD_AND_SAMPLE), forget)
    assert tracing.serve("/duramen.v1.KV/Get", parent(7)) is None


def test_a_cluster_has_one_trace_from_router_to_log_and_node(collector: Collector, tmp_path: Path) -> None:
    collector.received.clear()
    with environment_of_traces(collector.endpoint):
        cluster = ClusterProcess(tmp_path / "data", nodes=1, arguments=["--traces", "otlp"])
    try:
        with sending_to(collector), duramen.connect(cluster.at, traces=True, direct=False) as db:
            table = db.create_table("flights", partitions=1)
            done = table.put(b"k", b"v", if_absent=True)
            assert table.get(b"k", after=done.token) == b"v"
        (put_span,) = collector.wait_for("put flights")
        (get_span,) = collector.wait_for("get flights")
        collector.wait_for_part(put_span, "log append")
        collector.wait_for_part(get_span, "index read")
        collector.wait_for_part(put_span, "index wait")
        collector.wait_for_part(get_span, "ask Read")
        for span in (put_span, get_span):
            wait_for_roots(collector, span.trace)
        written, read = (tree_of(collector.received, span.trace) for span in (put_span, get_span))
        at_router = "put flights > duramen.v1.KeyValue/Write"
        assert {
            f"router: {at_router}",
            f"router: {at_router} > ask AppendMany",
            f"log: {at_router} > ask AppendMany > duramen.v1.Log/AppendMany",
            f"log: {at_router} > ask AppendMany > duramen.v1.Log/AppendMany > log append > log sync",
            f"node: {at_router} > ask Outcomes > duramen.v1.KeyValue/Outcomes",
        } <= set(written)
        at_router = "get flights > duramen.v1.KeyValue/Read"
        assert {
            f"router: {at_router} > ask Read",
            f"node: {at_router} > ask Read > duramen.v1.KeyValue/Read > index read",
        } <= set(read)
        appended = collector.wait_for_part(put_span, "log append")
        for span in (put_span, appended):
            assert (span.attributes["duramen.partition"], span.attributes["duramen.offset"]) == (0, done.offset)
    finally:
        cluster.close()


async def test_pages_of_scans_and_finds_by_other_languages_are_in_their_traces(
    server: ServerProcess, client: KVClient, collector: Collector
) -> None:
    """The span is there until the last page was taken; a watch, which has no last one, has none."""

    def make() -> None:
        with duramen.connect(f"localhost:{server.announcement['port']}") as db:
            table = db.create_table("streamed", row=FLIGHT_SCHEMA, key=("carrier", "flight"), partitions=1)
            table.put({"carrier": "UA", "flight": 1545, "tailnum": None, "dep_delay": 0.5})

    await asyncio.to_thread(make)
    collector.received.clear()
    watch = client.stub.Watch(kv.KVWatchRequest(table="streamed"), timeout=DEADLINE_S, metadata=parent(0x7A7))
    await watch.read()
    asked = (
        ("Scan", kv.KVScanRequest(table="streamed", level=kv.KV_LEVEL_STRONG), 0x5CA),
        ("Find", kv.KVFindRequest(table="streamed", level=kv.KV_LEVEL_STRONG), 0xF1D),
    )
    for name, request, number in asked:
        async for _ in getattr(client.stub, name)(request, timeout=DEADLINE_S, metadata=parent(number)):
            pass
        (call,) = await asyncio.to_thread(collector.wait_for, f"duramen.v1.KV/{name}")
        assert (call.trace, call.parent, call.failed) == (number.to_bytes(16), number.to_bytes(8), False)
        read = await asyncio.to_thread(collector.wait_for_part, call, "index read")
        assert (read.attributes["duramen.partition"], read.attributes["duramen.offset"]) == (0, 0)
        assert f"single: duramen.v1.KV/{name} > index read" in tree_of(collector.received, call.trace)
    missing = client.stub.Scan(kv.KVScanRequest(table="nowhere"), timeout=DEADLINE_S, metadata=parent(0xBAD))
    assert (await refused(missing.read())).reason == "table_not_found"
    _, call = await asyncio.to_thread(collector.wait_for, "duramen.v1.KV/Scan", 2)
    assert (call.trace, call.failed) == (0xBAD.to_bytes(16), True)
    assert call.attributes["error.type"] == "table_not_found"
    watch.cancel()
    assert not [span for span in collector.received if span.name.endswith("/Watch")]


def wait_for_roots(collector: Collector, trace: bytes) -> None:
    """Every span of the trace has its parent here."""

    def whole() -> bool:
        mine = {span.id: span for span in collector.received if span.trace == trace}
        return sum(span.parent not in mine for span in mine.values()) == 1

    from kit.deadlines import wait_until

    wait_until(whole, "the trace has one root")
