"""The slow log of a running server: what is slow, why, and that a storm of slow calls stays bounded."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from kit.deadlines import patience_s, until, until_true, within
from kit.log.held_log import HeldLog
from kit.log.held_step import HeldStep

from duramen import aio
from duramen.server.log_lines.json_lines import JsonLines
from duramen.server.roles.all_in_one import SingleServer
from duramen.server.roles.log_role import LogRole
from duramen.server.roles.node_role import NodeRole
from duramen.server.wiring.single_machine import MachineParts
from duramen.testing.machine.memory_disk import MemoryDisk
from log_tier.embedded import EmbeddedLog
from log_tier.embedded.storage.settings import EngineSettings
from log_tier.model.log import Log
from log_tier.proto import cluster_pb2, cluster_pb2_grpc
from log_tier.slow_calls.slow_call import SlowCall
from log_tier.slow_calls.slow_lines import LINES_MAX_PER_S
from log_tier.slow_calls.slow_ring import NOTED_MAX_PER_S
from router.proto import kv_pb2, kv_pb2_grpc

pytestmark = pytest.mark.embedded_log_only  # the disk and the log of these are in this process

THRESHOLD_MS = 40
CALLS = 4 * NOTED_MAX_PER_S
HELD_S = 0.12

PAUSE_S = 10 * HELD_S


@asynccontextmanager
async def served(folder: Path, log: Log, threshold_ms: int = THRESHOLD_MS) -> AsyncIterator[SingleServer]:
    async def opened(_: str) -> Log:
        return log

    server = await SingleServer.open(folder, port=0, machine=MachineParts(open_log=opened), slow_call_ms=threshold_ms)
    try:
        yield server
    finally:
        await server.close()


async def log_on(disk: MemoryDisk) -> EmbeddedLog:
    """Its commits are made in a thread, as on a slow disk from the start."""
    return await EmbeddedLog.open("/log", disk=disk, settings=EngineSettings(quick_commit_s=0.0))


async def held_for(seconds: float) -> None:
    began_s = time.monotonic()
    await until(lambda: time.monotonic() - began_s > seconds)


def check_let_go(may_go: threading.Event) -> None:
    assert may_go.wait(patience_s(30)), "the test waits for what this thread keeps from it"


def newest(server: SingleServer) -> SlowCall:
    return server.access.slow.ring.newest(1)[0]


async def test_a_slow_disk_shows_as_synced(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    disk = MemoryDisk()
    caplog.set_level(logging.INFO, "log_tier.slow_calls")
    async with served(tmp_path / "data", await log_on(disk)) as server:
        async with await aio.connect(f"127.0.0.1:{server.port}") as db:
            table = await db.create_table("flights", partitions=1)
            held = HeldStep(disk, "sync", lambda path: path.suffix == ".log")
            putting = asyncio.create_task(table.put(b"UA1545", b"secret"))
            await held.reached()
            await held_for(HELD_S)
            held.let_go()
            done = await putting
        call = newest(server)
    assert (call.what, call.protocol, call.outcome) == ("KeyValue/Write", "grpc", "done")
    assert (call.subject.table, call.partition, call.subject.key) == ("flights", 0, b"UA1545")
    assert call.offset == done.offset
    synced_s = call.parts["synced"]
    assert synced_s is not None
    assert HELD_S <= synced_s <= call.took_s
    assert sum(each or 0.0 for each in call.parts.values()) == pytest.approx(call.took_s, abs=0.005)
    assert call.peer.startswith("127.0.0.1:")
    (line,) = [each for each in caplog.records if getattr(each, "call", None) == "KeyValue/Write"]
    fields = json.loads(JsonLines().format(line))
    assert (fields["event"], fields["table"], fields["partition"], fields["offset"]) == (
        "slow call",
        "flights",
        0,
        done.offset,
    )
    assert fields["duration_ms"] >= fields["synced_ms"] >= HELD_S * 1000
    assert (fields["level"], fields["left_out"]) == ("info", 0)
    assert "secret" not in json.dumps(fields)


async def test_one_slow_and_one_quick(tmp_path: Path) -> None:
    """A write of another partition that comes while the disk stands waits in the queue, and then is quick."""
    disk = MemoryDisk()
    log = await log_on(disk)
    async with served(tmp_path / "data", log) as server, await aio.connect(f"127.0.0.1:{server.port}") as one:
        first = await one.create_table("a", partitions=1)
        await one.create_table("b", partitions=1)
        async with await aio.connect(f"127.0.0.1:{server.port}") as other:
            held = HeldStep(disk, "sync", lambda path: path.suffix == ".log")
            slow = asyncio.create_task(first.put(b"k", b"v"))
            await held.reached()
            waiting = asyncio.create_task(other.table("b").put(b"k", b"v"))
            await until(lambda: log.statistics().queued == 2)
            await held_for(HELD_S)
            held.let_go()
            await asyncio.gather(slow, waiting)
        ring = server.access.slow.ring
        by_table = {call.subject.table: call for call in ring.newest() if call.subject.key == b"k"}
    assert (by_table["a"].parts["synced"] or 0) > HELD_S
    assert (by_table["b"].parts["queued"] or 0) > HELD_S - 0.01
    assert (by_table["b"].parts.get("synced") or 0.0) < HELD_S


async def test_a_read_that_waits_for_an_offset(tmp_path: Path) -> None:
    log = HeldLog(await log_on(MemoryDisk()))
    async with served(tmp_path / "data", log) as server:
        async with await aio.connect(f"127.0.0.1:{server.port}") as db:
            table = await db.create_table("flights", partitions=1)
            log.hold_reads()
            done = await table.put(b"k", b"v")
            reading = asyncio.create_task(table.get(b"k", after=done.token))
            await held_for(HELD_S)
            log.release_reads()
            assert await reading == b"v"
        call = newest(server)
    assert (call.what, call.subject.table, call.subject.key) == ("KeyValue/Read", "flights", b"k")
    assert max(call.parts, key=lambda name: call.parts[name] or 0.0) == "waited"
    assert call.offset == done.offset


async def test_calls_of_other_languages_and_failures(tmp_path: Path) -> None:
    log = HeldLog(await log_on(MemoryDisk()))
    async with served(tmp_path / "data", log) as server:
        async with await aio.connect(f"127.0.0.1:{server.port}") as db:
            await db.create_table("flights", partitions=4)
        async with grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as channel:
            stub: Any = kv_pb2_grpc.KVStub(channel)  # type: ignore[no-untyped-call]
            log.hold_reads()
            put = await stub.Put(kv_pb2.KVPutRequest(table="flights", key=b"k" * 400, value=b"v"))
            getting = stub.Get(kv_pb2.KVGetRequest(table="flights", key=b"k" * 400, after=put.token), timeout=HELD_S)
            with pytest.raises(grpc.aio.AioRpcError):
                await getting
            await until(lambda: len(server.access.slow.ring) > 0)
            call = newest(server)
            log.release_reads()
    assert (call.what, call.subject.key) == ("KV/Get", b"k" * 32)
    assert call.outcome in ("failed", "unanswered")
    assert call.partition is not None


async def test_pages_of_a_scan_and_the_position_of_a_watch(tmp_path: Path) -> None:
    """What the caller takes to read, and what a watch waits for, is nobody's time."""
    log = HeldLog(await log_on(MemoryDisk()))
    async with served(tmp_path / "data", log) as server:
        async with await aio.connect(f"127.0.0.1:{server.port}") as db:
            await db.create_table("flights", partitions=1)
        async with grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as channel:
            stub: Any = kv_pb2_grpc.KVStub(channel)  # type: ignore[no-untyped-call]
            watch = stub.Watch(kv_pb2.KVWatchRequest(table="flights"))
            await watch.read()
            log.hold_reads()
            put = await stub.Put(kv_pb2.KVPutRequest(table="flights", key=b"k", value=b"v"))
            server.access.slow.ring.clear()
            scan = stub.Scan(kv_pb2.KVScanRequest(table="flights", after=put.token))
            await held_for(PAUSE_S)  # a busy server hears of the call long after it was made
            assert "KV/Scan" not in [call.what for call in server.access.slow.ring.newest()]
            log.release_reads()
            page = await scan.read()
            await held_for(PAUSE_S)
            assert not isinstance(await scan.read(), kv_pb2.KVScanResponse), "that was all"
            await watch.read()
            await held_for(PAUSE_S)
            watch.cancel()
            slow = server.access.slow.ring.newest()
    # A busy machine makes a page slow; none of them is as long as the pauses of who reads them.
    assert all(call.took_s < PAUSE_S for call in slow if call.what == "KV/Watch")
    call = max((call for call in slow if call.what == "KV/Scan"), key=lambda call: call.took_s)
    assert [entry.key for entry in page.entries] == [b"k"]
    assert (call.what, call.outcome, call.subject.table, call.partition) == ("KV/Scan", "done", "flights", 0)
    assert call.took_s >= HELD_S
    assert max(call.parts, key=lambda name: call.parts[name] or 0.0) in ("waited", "read")


async def test_quick_calls_leave_nothing(tmp_path: Path) -> None:
    async with served(tmp_path / "data", await log_on(MemoryDisk()), threshold_ms=600_000) as server:
        async with await aio.connect(f"127.0.0.1:{server.port}") as db:
            table = await db.create_table("flights", partitions=1)
            for number in range(20):
                await table.put(b"%d" % number, b"v")
                assert await table.get(b"%d" % number) == b"v"
        assert server.access.slow.ring.total == 0
        assert server.data_plane.long.since(0.0) == []


async def test_none_is_slow_where_the_setting_is_0(tmp_path: Path) -> None:
    disk = MemoryDisk()
    async with served(tmp_path / "data", await log_on(disk), threshold_ms=0) as server:
        async with await aio.connect(f"127.0.0.1:{server.port}") as db:
            table = await db.create_table("flights", partitions=1)
            held = HeldStep(disk, "sync", lambda path: path.suffix == ".log")
            putting = asyncio.create_task(table.put(b"k", b"v"))
            await held.reached()
            await held_for(HELD_S)
            held.let_go()
            await putting
        assert (server.access.slow.ring.total, server.data_plane.long.since(0.0)) == (0, [])


async def test_a_storm_of_slow_calls_stays_bounded(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "log_tier.slow_calls")
    log = HeldLog(await log_on(MemoryDisk()))
    async with served(tmp_path / "data", log, threshold_ms=1) as server:
        async with await aio.connect(f"127.0.0.1:{server.port}") as db:
            await db.create_table("flights", partitions=1)
        async with grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as channel:
            stub: Any = kv_pb2_grpc.KVStub(channel)  # type: ignore[no-untyped-call]
            ring, sight = server.access.slow.ring, server.sight
            log.hold_reads()
            put = await stub.Put(kv_pb2.KVPutRequest(table="flights", key=b"k", value=b"v"))
            before = ring.total
            get = kv_pb2.KVGetRequest(table="flights", key=b"k", after=put.token)
            calls = [asyncio.ensure_future(stub.Get(get)) for _ in range(CALLS)]

            async def all_wait() -> bool:
                assert sight is not None
                counts = (await sight.observe()).connections
                return counts is not None and counts.requests == CALLS

            await until_true(all_wait)
            await held_for(0.01)
            log.release_reads()
            async with within(30):
                await asyncio.gather(*calls)
        assert ring.total - before >= CALLS, "a busy machine makes others slow, too"
        assert len(ring) == ring.kept_max
        assert ring.left_out > 0
    seconds = {int(each.created) for each in caplog.records}
    assert 0 < len(caplog.records) <= LINES_MAX_PER_S * (len(seconds) + 1)


async def test_each_server_of_a_cluster_knows_its_own_part(tmp_path: Path) -> None:
    """A write stands in the queue of the log: the node does not know why it took long, the log does."""
    log = await LogRole.open(tmp_path / "log", host="127.0.0.1", port=0, slow_call_ms=THRESHOLD_MS)
    url, inner = f"grpc://127.0.0.1:{log.port}", log.log
    assert isinstance(inner, EmbeddedLog)
    node = await NodeRole.open(
        tmp_path / "n1", node_id="n1", log_url=url, host="127.0.0.1", port=0, slow_call_ms=THRESHOLD_MS
    )
    try:
        async with await aio.connect(f"127.0.0.1:{node.port}") as db:
            await db.create_table("flights", partitions=1, replicas=1)
        async with grpc.aio.insecure_channel(f"127.0.0.1:{node.port}") as channel:
            stub: Any = kv_pb2_grpc.KVStub(channel)  # type: ignore[no-untyped-call]
            committer, may_go = inner._committer, threading.Event()
            holding = asyncio.create_task(asyncio.to_thread(committer.run, lambda: check_let_go(may_go)))
            putting = asyncio.ensure_future(stub.Put(kv_pb2.KVPutRequest(table="flights", key=b"k", value=b"v")))
            await until(lambda: inner.statistics().queued > 0)
            await held_for(HELD_S)
            may_go.set()
            await asyncio.gather(holding, putting)
        by_call = {call.what: call for call in node.access.slow.ring.newest()}
        assert by_call["KV/Put"].parts == {"queued": None, "synced": None}
        async with grpc.aio.insecure_channel(f"127.0.0.1:{log.port}") as channel:
            cluster: Any = cluster_pb2_grpc.ClusterStub(channel)  # type: ignore[no-untyped-call]
            reply = await cluster.SlowCalls(cluster_pb2.SlowCallsRequest(count=100))
    finally:
        await node.close()
        await log.close()
    appends = [each for each in json.loads(reply.slow_calls)["calls"] if each["key"] == "k"]
    call = appends[0]
    assert call["call"] in ("Log/Append", "Log/AppendMany")
    assert (call["table"], call["partition"], call["key"]) == (None, 0, "k")
    assert call["duration_ms"] >= HELD_S * 1000
