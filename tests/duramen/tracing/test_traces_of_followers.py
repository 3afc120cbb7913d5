"""What follows the log is in the trace of what was written: applies at each node, deliveries to watches, waits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from kit.client.server_process import ServerProcess
from kit.clients.kv_servers import DEADLINE_S, KVClient
from kit.cluster.cluster_process import ClusterProcess
from kit.deadlines import wait_until, within
from kit.traces.collector import Collector, ReceivedSpan, tree_of
from kit.traces.program import sending_to
from kit.traces.servers import environment_of_traces
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON

import duramen
from duramen.tracing.otlp_bytes import SpanRecord
from duramen.tracing.served_spans import ServedTraces
from log_tier.proto import log_pb2
from log_tier.remote.traced_writes import messages_of, writes_of
from log_tier.tracing.span import CALLERS_MAX, Span
from log_tier.tracing.written import WRITES_MAX, TracedWrite, WrittenTraces
from router.proto import kv_pb2 as kv
from serving_tier.node.deliveries import TRACED_SUBSCRIPTIONS_MAX

pytestmark = pytest.mark.embedded_log_only


@pytest.fixture
async def client(server: ServerProcess, collector: Collector) -> AsyncIterator[KVClient]:
    made = KVClient(int(server.announcement["port"]))
    yield made
    await made.channel.close(None)
    collector.received.clear()


def parent(number: int) -> tuple[tuple[str, str], ...]:
    return (("traceparent", f"00-{number:032x}-{number:016x}-01"),)


async def put(client: KVClient, key: bytes, metadata: Any, **how: Any) -> int:
    request = kv.KVPutRequest(table=client.table, key=key, value=b"v", **how)
    return int((await client.stub.Put(request, timeout=DEADLINE_S, metadata=metadata)).version)


async def watching(client: KVClient) -> Any:
    """A watch of the table whose position is fixed."""
    watch = client.stub.Watch(kv.KVWatchRequest(table=client.table), metadata=parent(0xA))
    await asyncio.wait_for(watch.read(), DEADLINE_S)
    return watch


async def seen(watch: Any, version: int) -> None:
    """Read on until the change of this version."""
    async with within(DEADLINE_S):
        while all(change.version != version for change in (await watch.read()).changes):
            pass


def in_trace(collector: Collector, number: int, name: str) -> list[ReceivedSpan]:
    return [span for span in collector.named(name) if span.trace == number.to_bytes(16)]


async def test_two_callers_in_one_commit_each_see_their_apply_and_their_delivery(
    client: KVClient, collector: Collector
) -> None:
    client.table = "pairs"
    await client.create(partitions=1)
    watch = await watching(client)
    offsets = await asyncio.gather(*(put(client, b"k%d" % number, parent(number + 1)) for number in range(2)))
    await seen(watch, max(offsets))
    for name in ("index apply", "watch delivery"):
        for number in (1, 2):
            await asyncio.to_thread(wait_until, partial(in_trace, collector, number, name), f"{name} of {number}")
        for number, offset in enumerate(offsets):
            (span,) = in_trace(collector, number + 1, name)
            assert f"single: duramen.v1.KV/Put > {name}" in tree_of(collector.received, span.trace)
            assert span.attributes["duramen.partition"] == 0
            # Callers whose records share a batch share its offset.
            assert 0 <= offset - span.attributes["duramen.offset"] <= 1
    watch.cancel()


async def test_a_wait_links_to_the_apply_that_it_waited_for(client: KVClient, collector: Collector) -> None:
    client.table = "waits"
    await client.create(partitions=1)
    await put(client, b"k", parent(0x31), if_absent=True)

    def waits() -> list[ReceivedSpan]:
        """On a busy machine the call waits again: one may end without an apply, and another one follows."""
        return [span for span in in_trace(collector, 0x31, "index wait") if span.links]

    def applied_as(link: tuple[bytes, bytes]) -> list[ReceivedSpan]:
        return [span for span in in_trace(collector, 0x31, "index apply") if (span.trace, span.id) == link]

    await asyncio.to_thread(wait_until, waits, "the wait")
    for waited in waits():
        (link,) = waited.links
        await asyncio.to_thread(wait_until, partial(applied_as, link), "the apply")
        (applied,) = applied_as(link)
        assert waited.attributes["duramen.waited_for_offset"] == applied.attributes["duramen.offset"]


async def test_what_nobody_traces_leaves_nothing(client: KVClient, collector: Collector) -> None:
    client.table = "untraced"
    await client.create(partitions=1)
    watch = await watching(client)
    await put(client, b"a", ())
    version = await put(client, b"b", parent(0x41))
    await seen(watch, version)
    await put(client, b"c", (("traceparent", "00-" + "z" * 7000),))
    await put(client, b"d", parent(0x42))
    await asyncio.to_thread(wait_until, lambda: in_trace(collector, 0x42, "watch delivery"), "the last delivery")
    watch.cancel()
    # A trace that nobody began has a number of sixteen random bytes. Spans of other tests here may come late.
    assert [span for span in collector.received if int.from_bytes(span.trace) > 0xFF] == []


async def test_a_crowd_of_watches_makes_no_crowd_of_spans(client: KVClient, collector: Collector) -> None:
    client.table = "crowd"
    await client.create(partitions=1)
    watches = [await watching(client) for _ in range(TRACED_SUBSCRIPTIONS_MAX + 4)]
    for number in (0x51, 0x52):  # a subscription is one from its first delivery on
        version = await put(client, b"k", parent(number))
        await asyncio.gather(*(seen(watch, version) for watch in watches))
    marked = await put(client, b"k", parent(0x53))
    await asyncio.gather(*(seen(watch, marked) for watch in watches))
    await asyncio.to_thread(
        wait_until,
        lambda: len(in_trace(collector, 0x52, "watch delivery")) == TRACED_SUBSCRIPTIONS_MAX,
        "the deliveries of the second write",
    )
    for watch in watches:
        watch.cancel()
    assert len(in_trace(collector, 0x51, "watch delivery")) <= TRACED_SUBSCRIPTIONS_MAX


def test_each_node_of_a_cluster_has_its_apply_in_the_trace(collector: Collector, tmp_path: Path) -> None:
    collector.received.clear()
    with environment_of_traces(collector.endpoint):
        cluster = ClusterProcess(tmp_path / "data", nodes=2, arguments=["--traces", "otlp"])
    try:
        with sending_to(collector), duramen.connect(cluster.at, traces=True, direct=False) as db:
            table = db.create_table("flights", partitions=1, replicas=2)
            with closing(table.watch()) as changes:
                done = table.put(b"k", b"v")
                assert next(changes).offset == done.offset
        (written,) = collector.wait_for("put flights")
        path = "put flights > duramen.v1.KeyValue/Write > ask AppendMany > duramen.v1.Log/AppendMany"
        expected = [f"node: {path} > index apply"] * 2 + [f"node: {path} > watch delivery"]

        def at_nodes() -> list[str]:
            return [each for each in tree_of(collector.received, written.trace) if each.startswith("node")]

        wait_until(lambda: at_nodes() == expected, "two applies and a delivery")
        for span in in_trace(collector, int.from_bytes(written.trace), "index apply"):
            assert (span.attributes["duramen.partition"], span.attributes["duramen.offset"]) == (0, done.offset)
    finally:
        cluster.close()


def spans_of(tracing: ServedTraces, *numbers: int) -> tuple[Span, ...]:
    found = [tracing.serve("/duramen.v1.KV/Put", parent(number)) for number in numbers]
    return tuple(span for span in found if span is not None)


def test_the_last_writes_are_known_and_no_more() -> None:
    ended: list[SpanRecord] = []
    callers = spans_of(ServedTraces(ALWAYS_ON, ended.append), 1, 2)
    written = WrittenTraces()
    assert "p" not in written.of
    for number in range(3 * WRITES_MAX):
        written.note("q" if number % 2 else "p", TracedWrite(10 * number, 10 * number + 4, callers))
    found = [*written.between("p", 0, 1 << 40), *written.between("q", 0, 1 << 40)]
    assert sorted(write.first for write in found) == [10 * number for number in range(2 * WRITES_MAX, 3 * WRITES_MAX)]
    newest = 10 * (3 * WRITES_MAX - 1)
    assert [write.first for write in written.between("q", newest + 4, newest + 9)] == [newest]
    assert written.between("q", newest + 5, newest + 9) == ()
    for number in range(WRITES_MAX):
        written.note("r", TracedWrite(number, number, callers))
    assert "p" not in written.of
    assert "q" not in written.of


def test_a_write_of_another_server_is_continued_below_its_call() -> None:
    ended: list[SpanRecord] = []
    tracing = ServedTraces(ALWAYS_ON, ended.append)
    (message,) = messages_of([TracedWrite(7, 9, spans_of(tracing, 0x77))])
    callers = spans_of(tracing, 0x77)
    (again,) = writes_of(messages_of([TracedWrite(7, 9, callers)]), tracing)
    assert (again.first, again.last) == (7, 9)
    again.callers[0].end()
    assert not ended, "it is the span of somebody else"
    again.callers[0].child("index apply").end()
    (span,) = ended
    assert dict(callers[0].headers)["traceparent"] == f"00-{span.trace.hex()}-{span.parent.hex()}-01"
    assert span.is_parent_remote
    assert writes_of([message], ServedTraces(ALWAYS_OFF, ended.append)) == ()


@pytest.mark.parametrize(
    "header", ["", "<script>", "00-" + "a" * 9000, f"00-{0:032x}-{1:016x}-01", f"00-{1:032x}-{0:016x}-01"]
)
def test_nothing_is_below_a_header_that_says_nothing(header: str) -> None:
    ended: list[SpanRecord] = []
    message = log_pb2.TracedWrite(first=0, last=0, callers=[log_pb2.TraceParent(traceparent=header)])
    assert writes_of([message], ServedTraces(ALWAYS_ON, ended.append)) == ()


def test_a_reply_with_too_many_callers_is_cut() -> None:
    ended: list[SpanRecord] = []
    tracing = ServedTraces(ALWAYS_ON, ended.append)
    crowd = [log_pb2.TraceParent(traceparent=parent(number + 1)[0][1]) for number in range(2 * CALLERS_MAX)]
    (write,) = writes_of([log_pb2.TracedWrite(first=0, last=0, callers=crowd)], tracing)
    assert len(write.callers) == CALLERS_MAX
