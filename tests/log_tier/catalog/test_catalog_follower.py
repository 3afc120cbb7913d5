"""Following and submitting on a real log, in this process and over gRPC."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc
import pytest

from log_tier.catalog.catalog import CATALOG_TOPIC, Catalog
from log_tier.catalog.cluster_map import ClusterMap
from log_tier.catalog.commands import (
    CreateTable,
    RegisterNode,
    SetRetention,
    StartJob,
    TaskPlan,
    command_batch,
    parse_command,
)
from log_tier.catalog.map_json import map_from_json, map_to_json
from log_tier.catalog.remote import RemoteMaps, View, fetch_view
from log_tier.catalog.service import ClusterService
from log_tier.embedded import EmbeddedLog
from log_tier.model.batch import Columns, decode_batch, encode_batch
from log_tier.model.batch_header import stamp_batch
from log_tier.model.errors import (
    CommandRejected,
    DeadlineExceeded,
    Disconnected,
    DuramenError,
    InvalidRequest,
    ShuttingDown,
    UnknownFormat,
    WriteUnknown,
)
from log_tier.model.identifiers import Offset, Partition, TableId
from log_tier.model.log import Appended
from log_tier.model.retention import FOREVER, Retention
from log_tier.model.table_ref import TableRef
from log_tier.proto import cluster_pb2, cluster_pb2_grpc, log_pb2_grpc
from log_tier.remote.remote_log import RemoteLog
from log_tier.remote.service import LogService
from log_tier.rpc.streams import OpenStreams

DEADLINE_S = 20
ZERO = Partition(0)
FIXTURES = Path(__file__).parent / "fixtures"


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

    async def append(self, topic: TableId, partition: Partition, batch: bytes) -> Appended:
        appended = await self._log.append(topic, partition, batch)
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
    assert (await log.bounds(catalog.topic.id, ZERO)).latest == 3, "each was sent twice"
    assert len(catalog.map.decisions) == 2
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
    await log.append(catalog.topic.id, ZERO, strange)
    with pytest.raises(UnknownFormat, match="a newer Duramen wrote it"):
        await catalog.wait_for(lambda cluster: cluster.version >= 5, timeout=DEADLINE_S)
    with pytest.raises(UnknownFormat):
        await catalog.submit(RegisterNode("n1", "host:1", "a"))
    await catalog.close()
    with pytest.raises(UnknownFormat):
        await Catalog.open(log)


@pytest.mark.parametrize(
    "value",
    [
        b"no json",
        b"[]",
        b'{"v": 2, "id": "x", "table": "t"}',
        b'{"v": 1, "id": "x"}',
        b'{"v": 1, "id": "x", "table": 7}',
        b'{"v": 1, "id": "x", "table": "t", "more": 1}',
    ],
)
def test_records_that_are_no_commands(value: bytes) -> None:
    with pytest.raises(UnknownFormat):
        parse_command(b"drop-table", value)


@pytest.mark.parametrize(
    "command",
    [
        CreateTable(TableId("t"), "t", 1, [1]),  # type: ignore[arg-type]
        CreateTable(TableId("t"), "t", True, 1),
        CreateTable(TableId("t"), "t", 1, 1, "crc32"),  # type: ignore[arg-type]
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
    assert (await log.bounds(catalog.topic.id, ZERO)).latest == -1
    await catalog.close()


async def test_who_waits_is_told_when_the_log_ends(tmp_path: Path) -> None:
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
        assert cluster == dataclasses.replace(catalog.map, decisions={})
    assert versions == sorted(versions)
    await maps.close()
    with pytest.raises(ShuttingDown):
        await maps.wait_for(lambda cluster: False)
    await catalog.close()


async def test_a_server_that_is_not_there(unused_port: int) -> None:
    with pytest.raises(Disconnected):
        await fetch_view(f"127.0.0.1:{unused_port}", timeout=DEADLINE_S)


@pytest.fixture
def unused_port() -> int:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


# --- the format on the log


def test_records_of_format_1_stay_readable() -> None:
    """The file was written when format 1 landed; it is never written again."""
    lines = (FIXTURES / "commands-1.jsonl").read_text().splitlines()
    assert len(lines) == 11
    for line in lines:
        document = json.loads(line)
        command_id, command = parse_command(document["key"].encode(), document["value"].encode())
        assert command_id == "0123456789abcdef"
        assert type(command).__name__ == document["class"]


def value_of(command: CreateTable | SetRetention) -> str:
    """What would be written."""
    batch = command_batch(command, "0123456789abcdef")
    return (
        decode_batch(stamp_batch(batch, base_offset=Offset(0), timestamp_ms=0, unsynced=0)).columns.values[0].decode()
    )


def test_tables_that_are_more_than_the_first_format_knew() -> None:
    """Fields with defaults came later, in the same format: who does not know them stops at them."""
    lines = (FIXTURES / "commands-1-tables.jsonl").read_text().splitlines()
    wanted = [
        CreateTable(TableId("uz7PoMe1SsyzElQe1u4IvA"), "flights", 2, 1, "murmur2"),
        CreateTable(
            TableId("uz7PoMe1SsyzElQe1u4IvA"),
            "orders",
            2,
            1,
            "murmur2",
            adopted=True,
            over="orders-v1",
            starts=(Offset(120), Offset(0)),
        ),
    ]
    for line, command in zip(lines, wanted, strict=True):
        document = json.loads(line)
        assert parse_command(document["key"].encode(), document["value"].encode()) == ("0123456789abcdef", command)
        assert value_of(command) == document["value"]
    (usual,) = [line for line in (FIXTURES / "commands-1.jsonl").read_text().splitlines() if "CreateTable" in line]
    usual_value = json.loads(usual)["value"]
    _, read = parse_command(b"create-table", usual_value.encode())
    assert read == CreateTable(TableId("uz7PoMe1SsyzElQe1u4IvA"), "flights", 2, 1, "slot", False, "", ())
    assert value_of(read) == usual_value, "a usual table is written as it always was"


@pytest.mark.parametrize(
    "fields", ['"partitioner":"crc32"', '"starts":5', '"starts":["a"]', '"adopted":1', '"over":null', '"starts":"12"']
)
def test_tables_that_a_newer_version_wrote(fields: str) -> None:
    value = f'{{"v":1,"id":"x","table":"t","name":"t","partitions":1,"replicas":1,{fields}}}'
    with pytest.raises(UnknownFormat):
        parse_command(b"create-table", value.encode())


def test_the_map_with_such_tables() -> None:
    text = (FIXTURES / "map-1-tables.json").read_bytes().strip()
    cluster = map_from_json(text)
    flights, orders = cluster.tables.values()
    assert (flights.partitioner, flights.adopted, flights.over, flights.starts) == ("slot", False, "", ())
    assert (orders.partitioner, orders.adopted, orders.over, orders.starts) == ("murmur2", True, "orders-v1", (120, 0))
    assert [orders.start(Partition(number)) for number in range(2)] == [120, 0]
    assert flights.start(Partition(1)) == 0
    assert orders.ref == TableRef(orders.id, "orders", 2, "murmur2", "orders-v1")
    assert map_to_json(cluster) == text
    with pytest.raises(UnknownFormat, match="the partitioner 'murmur3', this process knows slot, murmur2"):
        map_from_json(text.replace(b'"murmur2"', b'"murmur3"'))


def test_the_retention_of_a_table() -> None:
    """It came later as well: a command of its own, and two fields that stand where they say something."""
    document = json.loads((FIXTURES / "commands-1-retention.jsonl").read_text())
    command = SetRetention(TableId("uz7PoMe1SsyzElQe1u4IvA"), 604_800_000, 1 << 30)
    assert parse_command(document["key"].encode(), document["value"].encode()) == ("0123456789abcdef", command)
    assert value_of(command) == document["value"]
    text = (FIXTURES / "map-1-retention.json").read_bytes().strip()
    cluster = map_from_json(text)
    (flights,) = cluster.tables.values()
    assert flights.retention == Retention(604_800_000, 1 << 30)
    assert map_to_json(cluster) == text
    (earlier,) = map_from_json((FIXTURES / "map-1.json").read_bytes()).tables.values()
    assert earlier.retention == FOREVER


def test_the_map_of_format_1_stays_readable() -> None:
    text = (FIXTURES / "map-1.json").read_bytes().strip()
    cluster = map_from_json(text)
    assert isinstance(cluster, ClusterMap)
    assert (len(cluster.nodes), len(cluster.tables), len(cluster.jobs), len(cluster.snapshots)) == (2, 1, 1, 1)
    assert map_to_json(cluster) == text
    with pytest.raises(UnknownFormat, match="has format 2"):
        map_from_json(text.replace(b'"v":1', b'"v":2'))


def test_the_batch_of_a_command_is_one_record() -> None:
    assert command_batch(RegisterNode("n1", "", "a"), "id")[56:60] == (1).to_bytes(4, "little")
    assert CATALOG_TOPIC == "_duramen_catalog"
    assert Offset(0) == 0


async def test_a_follower_of_the_map_that_ends_by_a_bug_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waits for another map gets the reason at once; the map would stay as it is for ever."""

    def broken(target: str) -> Any:
        raise RuntimeError("a bug")

    monkeypatch.setattr("log_tier.catalog.remote.Wire", broken)
    maps = await RemoteMaps.open("127.0.0.1:1", View(cluster_pb2.ClusterView(map=map_to_json(ClusterMap()))))
    with pytest.raises(DuramenError, match=r"follow map at 127\.0\.0\.1:1 ended \(RuntimeError\('a bug'\)\)"):
        await maps.wait_for(lambda cluster: False, timeout=DEADLINE_S)
    await maps.close()
