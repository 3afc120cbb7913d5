"""Following and submitting on a real log, in this process and over gRPC."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import grpc
import pytest
from kit.held_port import HeldPort
from kit.virtual_loop import run_virtually

from log_tier.catalog.catalog import Catalog
from log_tier.catalog.cluster_map import ClusterMap
from log_tier.catalog.commands import (
    CreateTable,
    RegisterNode,
    StartJob,
    TaskPlan,
)
from log_tier.catalog.decisions import Decisions
from log_tier.catalog.map_json import map_to_json
from log_tier.catalog.remote.cluster_view import ClusterView, fetch_view
from log_tier.catalog.remote.remote_maps import RemoteMaps
from log_tier.catalog.service import ClusterService
from log_tier.embedded import EmbeddedLog
from log_tier.model.batch import Columns, encode_batch
from log_tier.model.errors import (
    AccessDenied,
    CommandRejected,
    DeadlineExceeded,
    Disconnected,
    DuramenError,
    InvalidRequest,
    LogDamaged,
    ShuttingDown,
    UnknownFormat,
    WriteUnknown,
)
from log_tier.model.identifiers import Offset, Partition, PartitionId, TableId
from log_tier.model.log import Appended
from log_tier.proto import cluster_pb2, cluster_pb2_grpc, log_pb2_grpc
from log_tier.remote.remote_log import RemoteLog
from log_tier.remote.service import LogService
from log_tier.rpc.open_streams import OpenStreams

DEADLINE_S = 20


ZERO = Partition(0)


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[EmbeddedLog]:
    async with await EmbeddedLog.open(tmp_path / "log") as opened:
        yield opened


@pytest.fixture
async def remote(log: EmbeddedLog) -> AsyncIterator[RemoteLog]:
    server = grpc.aio.server()
    log_pb2_grpc.add_LogServicer_to_server(LogService(log), server)  # type: ignore[no-untyped-call]
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    opened = await RemoteLog.open(f"127.0.0.1:{port}")
    yield opened
    await opened.close()
    await server.stop(None)


async def test_a_command_is_in_the_map_when_it_returns(log: EmbeddedLog) -> None:
    catalog = await Catalog.open(log)
    offset, cluster = await catalog.submit(RegisterNode("n1", "host:1", "a"))
    assert (offset, cluster.version, list(cluster.nodes)) == (0, 0, ["n1"])
    with pytest.raises(CommandRejected, match="registered at host:1") as caught:
        await catalog.submit(RegisterNode("n1", "host:2", "b"))
    assert caught.value.fields == {"version": 1}
    assert catalog.map.nodes["n1"].address == "host:1"
    await catalog.close()


async def test_two_catalogs_agree_on_who_was_first(log: EmbeddedLog, remote: RemoteLog) -> None:
    here, there = await Catalog.open(log), await Catalog.open(remote)
    assert here.topic == there.topic
    for number in (1, 2, 3):
        await here.submit(RegisterNode(f"n{number}", f"host:{number}", "a"))
    topic = await log.create_topic("flights", partitions=1)
    await there.submit(CreateTable(topic.id, "flights", 1, 1))
    moves = [StartJob("move", "x", (TaskPlan("move", topic.id, ZERO, f"n{t}", {"from": "n1"}),)) for t in (2, 3)]
    results = await asyncio.gather(here.submit(moves[0]), there.submit(moves[1]), return_exceptions=True)
    (rejected,) = [result for result in results if isinstance(result, CommandRejected)]
    assert "are being changed by job" in rejected.message
    version = max(here.map.version, there.map.version)
    maps = [
        await each.wait_for(lambda cluster: cluster.version >= version, timeout=DEADLINE_S) for each in (here, there)
    ]
    assert maps[0] == maps[1]
    await here.close()
    await there.close()


async def test_many_begin_a_new_log_at_once(log: EmbeddedLog) -> None:
    catalogs = await asyncio.gather(*(Catalog.open(log) for _ in range(5)))
    assert len({catalog.topic for catalog in catalogs}) == 1
    for catalog in catalogs:
        await catalog.close()


class LostReplies:
    """A log whose appends arrive and whose replies do not, the first time."""

    def __init__(self, log: EmbeddedLog) -> None:
        self._log = log
        self.lost = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    async def append(self, partition: PartitionId, batch: bytes) -> Appended:
        appended = await self._log.append(partition, batch)
        self.lost += 1
        if self.lost % 2:
            raise WriteUnknown("no reply came")
        return appended


async def test_a_command_whose_reply_is_lost_takes_effect_once(log: EmbeddedLog) -> None:
    losing: Any = LostReplies(log)
    catalog = await Catalog.open(losing)
    await catalog.submit(RegisterNode("n1", "host:1", "a"))
    with pytest.raises(CommandRejected, match="registered at"):
        await catalog.submit(RegisterNode("n1", "host:2", "b"))
    assert (await log.bounds(catalog.topic.partition(ZERO))).latest == 3, "each was sent twice"
    assert len(catalog.map.decisions) == 2
    await catalog.close()


class RefusesRetries:
    """A log whose first reply is lost, and that refuses what comes then."""

    def __init__(self, log: EmbeddedLog, refusal: DuramenError, *, arrives: bool) -> None:
        self._log, self._refusal, self._arrives = log, refusal, arrives
        self._tries = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    async def append(self, partition: PartitionId, batch: bytes) -> Appended:
        self._tries += 1
        if self._tries > 1:
            raise self._refusal
        if self._arrives:
            await self._log.append(partition, batch)
        raise WriteUnknown("no reply came")


@pytest.mark.parametrize("refusal", [AccessDenied("no ACL"), Disconnected("nobody is there")], ids=["denied", "away"])
@pytest.mark.parametrize("arrives", [True, False])
async def test_a_refused_retry_says_nothing_of_the_first_try(
    log: EmbeddedLog, refusal: DuramenError, arrives: bool
) -> None:
    catalog = await Catalog.open(RefusesRetries(log, refusal, arrives=arrives))
    with pytest.raises(WriteUnknown, match="no reply came; a later try ended with: no"):
        await catalog.submit(RegisterNode("n1", "host:1", "a"), timeout=0.5)
    assert (await log.bounds(catalog.topic.partition(ZERO))).latest == (0 if arrives else -1)
    await catalog.close()


async def test_a_restart_gives_the_same_map(tmp_path: Path) -> None:
    async with await EmbeddedLog.open(tmp_path / "log") as log:
        catalog = await Catalog.open(log)
        for number in range(20):
            await catalog.submit(RegisterNode(f"n{number}", "host:1", "a"))
        before = catalog.map
        await catalog.close()
    async with await EmbeddedLog.open(tmp_path / "log") as log:
        catalog = await Catalog.open(log)
        assert catalog.map == before
        await catalog.close()


async def test_what_is_not_understood_stops_the_follower(log: EmbeddedLog) -> None:
    catalog = await Catalog.open(log)
    strange = encode_batch(Columns([b"invent-something"], [json.dumps({"v": 1, "id": "x"}).encode()]))
    await log.append(catalog.topic.partition(ZERO), strange)
    with pytest.raises(UnknownFormat, match="a newer Duramen wrote it"):
        await catalog.wait_for(lambda cluster: cluster.version >= 5, timeout=DEADLINE_S)
    with pytest.raises(UnknownFormat):
        await catalog.submit(RegisterNode("n1", "host:1", "a"))
    await catalog.close()
    with pytest.raises(UnknownFormat):
        await Catalog.open(log)


@pytest.mark.parametrize(
    "command",
    [
        CreateTable(TableId("t"), "t", 1, [1]),  # type: ignore[arg-type]
        CreateTable(TableId("t"), "t", True, 1),
        CreateTable(TableId("t"), "t", 1, 1, "crc32"),
        CreateTable(TableId("t"), "t", 1, 1, adopted=1),  # type: ignore[arg-type]
        CreateTable(TableId("t"), "t", 1, 1, over=None),  # type: ignore[arg-type]
        CreateTable(TableId("t"), "t", 1, 1, starts=[Offset(0)]),  # type: ignore[arg-type]
        CreateTable(TableId("t"), "t", 1, 1, starts=("0",)),  # type: ignore[arg-type]
        CreateTable(TableId("t"), "t", 1, 1, starts=(Offset(-1),)),
        RegisterNode("n1", None, "a"),  # type: ignore[arg-type]
        StartJob("move", "x", (TaskPlan("move", TableId("t"), "0", "n1"),)),  # type: ignore[arg-type]
        StartJob("move", "x", ("move",)),  # type: ignore[arg-type]
    ],
)
async def test_a_command_with_a_wrong_field_is_not_written(log: EmbeddedLog, command: Any) -> None:
    catalog = await Catalog.open(log)
    with pytest.raises(InvalidRequest, match="the command cannot be"):
        await catalog.submit(command)
    assert (await log.bounds(catalog.topic.partition(ZERO))).latest == -1
    await catalog.close()


async def test_a_start_on_a_catalog_that_cannot_be_read_raises_and_logs_nothing(
    log: EmbeddedLog, caplog: pytest.LogCaptureFixture
) -> None:
    """The caller says it. A catalog that stops later has no caller, and is logged once."""
    catalog = await Catalog.open(log)
    caplog.clear()
    await log.append(catalog.topic.partition(Partition(0)), encode_batch(Columns([b"k"], [b"not JSON"])))
    with pytest.raises(DuramenError):
        await catalog.refresh()
    (line,) = (record for record in caplog.records if record.levelno >= logging.WARNING)
    assert "the catalog cannot be followed any more: " in line.getMessage()
    await catalog.close()
    caplog.clear()
    with pytest.raises(DuramenError):
        await Catalog.open(log)
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_a_start_on_a_catalog_that_lost_its_end_raises_too(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with await EmbeddedLog.open(tmp_path) as log:
        catalog = await Catalog.open(log)
        await catalog.submit(RegisterNode("n1", "host:1", "a"))
        await catalog.close()
        topic = catalog.topic
    (segment,) = tmp_path.glob(f"topics/{topic.id}/0/*.log")
    data = bytearray(segment.read_bytes())
    data[90] ^= 4
    segment.write_bytes(data)
    caplog.clear()
    async with await EmbeddedLog.open(tmp_path) as log:
        with pytest.raises(LogDamaged, match="is known to have been on stable storage"):
            await Catalog.open(log)
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_waiters_get_an_error_when_the_log_ends(tmp_path: Path) -> None:
    log = await EmbeddedLog.open(tmp_path / "log")
    catalog = await Catalog.open(log)
    waiting = asyncio.create_task(catalog.wait_for(lambda cluster: False))
    with pytest.raises(DeadlineExceeded, match=r"did not happen within 0\.01 s"):
        await catalog.wait_for(lambda cluster: False, timeout=0.01)
    await log.close()
    with pytest.raises(DuramenError):
        await waiting
    await catalog.close()
    await catalog.close()
    with pytest.raises(ShuttingDown):
        await catalog.wait_for(lambda cluster: False)


# --- from a server


class Server:
    """A server that streams a map."""

    def __init__(self, catalog: Catalog, port: int = 0) -> None:
        self._streams = OpenStreams()
        self.server = grpc.aio.server()
        service = ClusterService(catalog, self._streams, role="router", log_url="grpc://log:1")
        cluster_pb2_grpc.add_ClusterServicer_to_server(service, self.server)  # type: ignore[no-untyped-call]
        self.target = f"127.0.0.1:{self.server.add_insecure_port(f'127.0.0.1:{port}')}"

    async def stop(self) -> None:
        self._streams.end()
        await self.server.stop(None)


@pytest.fixture
async def serving() -> AsyncIterator[Callable[[Catalog], Awaitable[Server]]]:
    made: list[Server] = []

    async def serve(catalog: Catalog) -> Server:
        server = Server(catalog)
        await server.server.start()
        made.append(server)
        return server

    yield serve
    for server in made:
        await server.stop()


async def test_a_map_is_followed_at_the_next_server_when_one_is_lost(
    log: EmbeddedLog, serving: Callable[[Catalog], Awaitable[Server]]
) -> None:
    catalog = await Catalog.open(log)
    first, second = await serving(catalog), await serving(catalog)
    await catalog.submit(RegisterNode("n1", second.target, "a"))
    view = await fetch_view(first.target, timeout=DEADLINE_S)
    assert (view.role, view.log_url, view.map.version) == ("router", "grpc://log:1", 0)
    maps = await RemoteMaps.open(first.target, view)
    versions: list[int] = []
    for number in range(2, 12):
        if number == 6:
            await first.stop()
        await catalog.submit(RegisterNode(f"n{number}", "", "a"))
        wanted = catalog.map.version
        cluster = await maps.wait_for(lambda cluster, wanted=wanted: cluster.version >= wanted, timeout=DEADLINE_S)  # type: ignore[misc]
        versions.append(cluster.version)
        assert cluster == dataclasses.replace(catalog.map, decisions=Decisions())
    assert versions == sorted(versions)
    await maps.close()
    with pytest.raises(ShuttingDown):
        await maps.wait_for(lambda cluster: False)
    await catalog.close()


async def test_a_server_that_is_not_there(unused_port: int) -> None:
    with pytest.raises(Disconnected):
        await fetch_view(f"127.0.0.1:{unused_port}", timeout=DEADLINE_S)


@pytest.fixture
def unused_port() -> Iterator[int]:
    with HeldPort() as held:
        yield held.number


async def test_a_follower_of_the_map_that_ends_by_a_bug_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """A caller that waits for another map gets the reason at once; the map would stay as it is for ever."""

    def broken(target: str) -> Any:
        raise RuntimeError("a bug")

    monkeypatch.setattr("log_tier.catalog.remote.remote_maps.Wire", broken)
    maps = await RemoteMaps.open("127.0.0.1:1", ClusterView(cluster_pb2.ClusterView(map=map_to_json(ClusterMap()))))
    with pytest.raises(DuramenError, match=r"follow map at 127\.0\.0\.1:1 ended \(RuntimeError\('a bug'\)\)"):
        await maps.wait_for(lambda cluster: False, timeout=DEADLINE_S)
    await maps.close()


def test_a_map_that_is_too_new_is_looked_for_elsewhere_at_a_pause_that_grows(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Another server may be of our version. The follower keeps its map, says so, and asks a few times a minute."""
    connected = 0

    class Newer:
        def __init__(self, target: str) -> None:
            nonlocal connected
            connected += 1
            self.channel = MagicMock()

        async def stream(self, call: Any, request: Any) -> AsyncIterator[cluster_pb2.ClusterView]:
            yield cluster_pb2.ClusterView(version=9, map=b'{"v":3}')

        async def close(self) -> None:
            """There is nothing to close."""

    async def follow() -> None:
        first = ClusterView(cluster_pb2.ClusterView(map=map_to_json(ClusterMap())))
        maps = await RemoteMaps.open("127.0.0.1:1", first)
        await asyncio.sleep(60)
        assert maps.map == first.map
        await maps.close()

    monkeypatch.setattr("log_tier.catalog.remote.remote_maps.Wire", Newer)
    run_virtually(follow())
    assert connected < 200
    assert {each.levelname for each in caplog.records if "has format 3" in each.message} == {"WARNING"}
