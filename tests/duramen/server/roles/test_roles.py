"""The roles of a process: who a node is, what its health says, and how each of them ends."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from kit.deadlines import patience_s, within

import duramen
from duramen import aio
from duramen.server.roles.grpc_server import GrpcServer
from duramen.server.roles.log_role import LogRole
from duramen.server.roles.node_role import NodeRole
from duramen.server.roles.router_role import RouterRole
from duramen.server.wiring.node_folder import NodeFolder
from duramen.server.wiring.single_machine import open_local_data
from log_tier.model.errors import FolderInUse, ForeignFolder, InvalidRequest, NodeIdTaken, PortInUse, UnknownFormat
from log_tier.rows.table_spec import TableSpec

pytestmark = pytest.mark.embedded_log_only  # the clusters here have a log process of their own

DEADLINE_S = 20


class TestNodeFolder:
    def test_a_folder_keeps_its_identity(self, tmp_path: Path) -> None:
        first = NodeFolder.open(tmp_path / "n1", node_id="n1")
        identity = first.identity
        first.close()
        first.close()
        again = NodeFolder.open(tmp_path / "n1", node_id="n1")
        assert again.identity == identity
        again.close()
        other = NodeFolder.open(tmp_path / "n2", node_id="n1")
        assert other.identity != identity
        other.close()

    def test_one_process_at_a_time(self, tmp_path: Path) -> None:
        first = NodeFolder.open(tmp_path / "n1", node_id="n1")
        with pytest.raises(FolderInUse, match="used by another process"):
            NodeFolder.open(tmp_path / "n1", node_id="n1")
        first.close()
        NodeFolder.open(tmp_path / "n1", node_id="n1").close()

    def test_another_nodes_folder(self, tmp_path: Path) -> None:
        NodeFolder.open(tmp_path / "n1", node_id="n1").close()
        with pytest.raises(ForeignFolder, match="folder of node n1, not of n2"):
            NodeFolder.open(tmp_path / "n1", node_id="n2")

    @pytest.mark.parametrize(
        ("content", "error"),
        [
            ("no json", ForeignFolder),
            ("{}", ForeignFolder),
            (json.dumps({"format": "duramen node", "version": 2, "id": "n1", "identity": "x"}), UnknownFormat),
            (json.dumps({"format": "something", "version": 1, "id": "n1", "identity": "x"}), UnknownFormat),
        ],
    )
    def test_markers_that_are_not_ours(self, content: str, error: type[Exception], tmp_path: Path) -> None:
        (tmp_path / "node.json").write_text(content)
        with pytest.raises(error):
            NodeFolder.open(tmp_path, node_id="n1")

    def test_no_flipped_bit_makes_it_another_node(self, tmp_path: Path) -> None:
        NodeFolder.open(tmp_path, node_id="n1").close()
        whole = (tmp_path / "node.json").read_bytes()
        for at in range(len(whole.rstrip())):
            (tmp_path / "node.json").write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
            with pytest.raises((ForeignFolder, UnknownFormat), match=r"node\.json"):
                NodeFolder.open(tmp_path, node_id="n1")
        (tmp_path / "node.json").write_bytes(whole)
        NodeFolder.open(tmp_path, node_id="n1").close()

    def test_the_folder_of_a_version_without_checksums(self, tmp_path: Path) -> None:
        marker = {"format": "duramen node", "version": 1, "id": "n1", "identity": "0f8c"}
        (tmp_path / "node.json").write_text(json.dumps(marker))
        folder = NodeFolder.open(tmp_path, node_id="n1")
        assert folder.identity == "0f8c"
        folder.close()

    def test_folders_that_are_not_ours(self, tmp_path: Path) -> None:
        (tmp_path / "thesis.tex").write_text("x")
        with pytest.raises(ForeignFolder, match=r"thesis\.tex"):
            NodeFolder.open(tmp_path, node_id="n1")
        with pytest.raises(ForeignFolder, match="is a file"):
            NodeFolder.open(tmp_path / "thesis.tex", node_id="n1")


class TestShell:
    async def test_a_port_is_taken_once(self) -> None:
        shell = await GrpcServer.listen("127.0.0.1", 0)
        with pytest.raises(PortInUse, match=f"port {shell.port} on 127.0.0.1 cannot be listened on"):
            await GrpcServer.listen("127.0.0.1", shell.port)
        await shell.close()
        again = await GrpcServer.listen("127.0.0.1", shell.port)
        await again.close()

    @pytest.mark.parametrize("port", [-1, 65536])
    async def test_ports_that_cannot_be(self, port: int) -> None:
        with pytest.raises(PortInUse, match="there is no port"):
            await GrpcServer.listen("127.0.0.1", port)


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[LogRole]:
    role = await LogRole.open(tmp_path / "log", host="127.0.0.1", port=0)
    yield role
    await role.close()


async def node(log: LogRole, folder: Path, name: str = "n1", *, take_over: bool = False) -> NodeRole:
    url = f"grpc://127.0.0.1:{log.port}"
    return await NodeRole.open(folder, node_id=name, log_url=url, host="127.0.0.1", port=0, take_over=take_over)


async def health(port: int) -> int:
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        reply = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())
    return int(reply.status)


async def check_healthy(port: int, status: int) -> None:
    async with within(DEADLINE_S):
        while await health(port) != status:  # noqa: ASYNC110 - the service notifies nobody of a change
            await asyncio.sleep(0.02)


async def test_a_cluster_of_roles(log: LogRole, tmp_path: Path) -> None:
    first, second = await node(log, tmp_path / "n1", "n1"), await node(log, tmp_path / "n2", "n2")
    router = await RouterRole.open(log_url=f"grpc://127.0.0.1:{log.port}", host="127.0.0.1", port=0)
    for role in (first, second, router, log):
        await check_healthy(role.port, health_pb2.HealthCheckResponse.SERVING)
    async with await aio.connect(f"127.0.0.1:{router.port}") as db:
        table = await db.create_table("flights", partitions=2)
        done = await table.put(b"k", b"v")
    async with await aio.connect(f"127.0.0.1:{second.port}") as db:  # a node knows the whole cluster as well
        assert await db.table("flights").get(b"k", after=done.token) == b"v"
    for role in (router, second, first):
        await role.close()


async def test_a_node_says_that_it_is_behind(log: LogRole, tmp_path: Path) -> None:
    role = await node(log, tmp_path / "n1")
    async with await aio.connect(f"127.0.0.1:{role.port}") as db:
        await db.create_table("flights", partitions=1, replicas=1)
    await check_healthy(role.port, health_pb2.HealthCheckResponse.SERVING)
    (replica,) = role.data_plane.node
    replica.state = "behind"
    await check_healthy(role.port, health_pb2.HealthCheckResponse.NOT_SERVING)
    await role.close()


async def test_a_second_program_with_a_server_of_its_own_on_one_log(log: LogRole, tmp_path: Path) -> None:
    """Its only node has no id that a user could change: the message says what they can do."""
    url = f"grpc://127.0.0.1:{log.port}"
    async with await aio.open(tmp_path / "one", log=url) as first:
        await first.create_table("flights", partitions=1)
        with pytest.raises(NodeIdTaken, match=r"has its server already.*connect to that one.*take_over=True"):
            await aio.open(tmp_path / "two", log=url)
        await first.table("flights").put(b"k", b"v")
        assert await first.table("flights").get(b"k") == b"v"


async def test_a_second_node_of_the_same_id(log: LogRole, tmp_path: Path) -> None:
    first = await node(log, tmp_path / "one")
    with pytest.raises(NodeIdTaken, match="node n1 is registered at"):
        await node(log, tmp_path / "two")
    assert not first.ended.done()
    second = await node(log, tmp_path / "two", take_over=True)
    async with within(DEADLINE_S):
        reason = await first.ended
    assert isinstance(reason, NodeIdTaken)
    assert "has taken over the id n1" in reason.message
    await first.close()
    await second.close()


async def test_one_machines_folder_goes_on_as_a_cluster_and_not_back(tmp_path: Path) -> None:
    data_plane = await open_local_data(tmp_path)
    await data_plane.create_table(TableSpec("flights", partitions=2), timeout=patience_s(10))
    await data_plane.close()
    log = await LogRole.open(tmp_path, host="127.0.0.1", port=0)
    first = await node(log, tmp_path / "nodes" / "n1", "n1", take_over=True)
    second = await node(log, tmp_path / "nodes" / "n2", "n2")
    async with await aio.connect(f"127.0.0.1:{first.port}") as db:
        assert [table.name for table in await db.tables()] == ["flights"]
        await db.create_table("ships", partitions=2, replicas=1)
    holders = {r.node for t in first.data_plane.catalog.map.tables.values() for a in t.assignments for r in a}
    assert holders == {"n1", "n2"}
    for role in (second, first, log):
        await role.close()
    with pytest.raises(InvalidRequest, match="was used by a cluster, and n2 hold partitions that n1 does not"):
        await open_local_data(tmp_path)


def test_a_folder_of_one_machine_is_taken_back(tmp_path: Path) -> None:
    for value in (b"1", b"2"):
        with duramen.open(tmp_path) as db:
            table = db.create_table("t", partitions=1, if_missing=True)
            table.put(b"k", value)
            assert table.get(b"k") == value
