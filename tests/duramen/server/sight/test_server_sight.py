"""What a running server says of itself: alone, as a node, as a router, and while a node is away."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import grpc
import pytest
from kit.deadlines import until_true

from duramen import aio
from duramen.certificates.folder import CertificateFolder
from duramen.certificates.identity import CertificateIdentity
from duramen.server.roles.all_in_one import SingleServer
from duramen.server.roles.log_role import LogRole
from duramen.server.roles.node_role import NodeRole
from duramen.server.roles.router_role import RouterRole
from duramen.server.sight.server_sight import ServerSight, SightSources
from duramen.server.wiring.server_certificates import ServerCertificates
from log_tier.embedded import EmbeddedLog
from log_tier.model.errors import LogStopped
from log_tier.proto import cluster_pb2, cluster_pb2_grpc

pytestmark = pytest.mark.embedded_log_only  # the clusters here have a log process of their own


async def status_of(port: int) -> dict[str, Any]:
    """The document of the server at a port."""
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub: Any = cluster_pb2_grpc.ClusterStub(channel)  # type: ignore[no-untyped-call]
        reply = await stub.Status(cluster_pb2.ServerStatusRequest())
    found: dict[str, Any] = json.loads(reply.status)
    return found


@pytest.fixture
async def single(tmp_path: Path) -> AsyncIterator[SingleServer]:
    server = await SingleServer.open(tmp_path / "data", port=0)
    yield server
    await server.close()


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[LogRole]:
    role = await LogRole.open(tmp_path / "log", host="127.0.0.1", port=0)
    yield role
    await role.close()


async def test_a_server_that_is_alone(single: SingleServer, tmp_path: Path) -> None:
    async with await aio.connect(f"127.0.0.1:{single.port}") as db:
        table = await db.create_table("flights", partitions=1)
        for _ in range(3):
            done = await table.put(b"k", b"v")
        assert await table.get(b"k", after=done.token) == b"v"
        found = await status_of(single.port)
    assert (found["role"], found["pid"], found["ready"]) == ("single", os.getpid(), True)
    (partition,) = (each for each in found["partitions"] if each["table"] == "flights")
    assert (partition["first"], partition["last"], partition["applied"]) == (0, done.offset, done.offset)
    assert (partition["lag_records"], partition["state"], partition["ready"]) == (0, "ready", 1)
    assert found["log"]["appends"] >= 3
    assert (found["log"]["queued_batches"], found["log"]["stopped"]) == (0, None)
    assert found["disk"]["full_bytes"] == shutil.disk_usage(tmp_path).total
    assert found["memory_bytes"] > 10 << 20
    assert found["catalog_version"] == single.data_plane.catalog.map.version
    assert found["connections"] == {"streams": 0, "streams_max": single.shell.bound.most, "requests": 0}


async def test_a_log_that_stopped_is_the_first_thing(single: SingleServer) -> None:
    log: Any = single.data_plane.log
    log._committer.stopped = LogStopped("the disk failed a sync: EIO")
    found = await status_of(single.port)
    assert (found["ready"], found["troubles"][0]["kind"]) == (False, "log_stopped")
    assert "EIO" in found["troubles"][0]["what"]


async def test_ready_turns_false_and_true_again(single: SingleServer) -> None:
    async with await aio.connect(f"127.0.0.1:{single.port}") as db:
        await db.create_table("flights", partitions=1)
    (replica,) = single.data_plane.node

    async def is_ready() -> bool:
        return bool((await status_of(single.port))["ready"])

    await until_true(is_ready)
    replica.state = "behind"
    assert not await is_ready()
    replica.state = "ready"
    assert await is_ready()


async def test_where_the_log_is(single: SingleServer) -> None:
    place = "here" if isinstance(single.data_plane.log, EmbeddedLog) else "kafka"
    assert single.sight is not None
    assert json.loads(await single.sight.status_json())["log_place"] == place


async def test_certificates(single: SingleServer, tmp_path: Path) -> None:
    folder = CertificateFolder(tmp_path / "certs")
    folder.make_authority()
    folder.issue(CertificateIdentity("server", "server"), ["localhost"])
    sources = SightSources(
        role="single",
        name="n1",
        maps=single.data_plane.catalog,
        bound=single.shell.bound,
        log=single.data_plane.log,
        certificates=ServerCertificates.open(tmp_path / "certs"),
    )
    found = (await ServerSight(sources).observe()).certificates
    assert [each.kind for each in found] == ["ca", "server"]
    assert found[1].name == "server"
    assert found[1].expires_ms > 0
    shutil.rmtree(tmp_path / "certs")
    assert (await ServerSight(sources).observe()).certificates == (), "what is gone is not known"


async def test_who_asks_later_never_sees_less(single: SingleServer) -> None:
    sight = single.sight
    assert sight is not None
    before = await sight.observed_lately()
    assert await sight.observed_lately() is before, "seen lately"
    now = (await sight.status()).observed
    assert now is not before
    assert await sight.observed_lately() is now


async def test_a_router_sees_nodes_and_partitions_without_asking(log: LogRole, tmp_path: Path) -> None:
    url = f"grpc://127.0.0.1:{log.port}"
    node = await NodeRole.open(tmp_path / "n1", node_id="n1", log_url=url, host="127.0.0.1", port=0)
    router = await RouterRole.open(log_url=url, host="127.0.0.1", port=0)
    try:
        async with await aio.connect(f"127.0.0.1:{router.port}") as db:
            await (await db.create_table("flights", partitions=2, replicas=1)).put(b"k", b"v")

        async def level() -> bool:
            partitions = (await status_of(router.port))["partitions"]
            return bool(partitions) and all(each["state"] == "ready" for each in partitions)

        await until_true(level)
        found = await status_of(node.port)
        assert (found["role"], found["name"], found["log"]) == ("node", "n1", None)
        assert {each["first"] for each in found["partitions"]} == {None}
        found = await status_of(router.port)
        assert (found["role"], found["well"], found["disk"]) == ("router", True, None)
        assert [(each["node"], each["alive"]) for each in found["nodes"]] == [("n1", True)]
        await node.close()

        async def lost() -> bool:
            return not (await status_of(router.port))["well"]

        await until_true(lost)
        found = await status_of(router.port)
        assert [each["kind"] for each in found["troubles"]] == ["unreadable", "node_lost"]
        assert {each["state"] for each in found["partitions"]} == {"lost"}
        assert found["ready"], "another router would know no more"
    finally:
        await router.close()
        await node.close()


async def test_a_log_that_is_gone_is_named_by_the_node_and_the_router(tmp_path: Path) -> None:
    """Both said that the node is too slow."""
    log = await LogRole.open(tmp_path / "log", host="127.0.0.1", port=0)
    url = f"grpc://127.0.0.1:{log.port}"
    async with AsyncExitStack() as opened:
        opened.push_async_callback(log.close)
        node = await NodeRole.open(tmp_path / "n1", node_id="n1", log_url=url, host="127.0.0.1", port=0)
        opened.push_async_callback(node.close)
        router = await RouterRole.open(log_url=url, host="127.0.0.1", port=0)
        opened.push_async_callback(router.close)
        async with await aio.connect(f"127.0.0.1:{router.port}") as db:
            await (await db.create_table("flights", partitions=1, replicas=1)).put(b"k", b"v")

        async def kinds_are(*kinds: str) -> bool:
            found = [await status_of(each) for each in (node.port, router.port)]
            ready = [each["state"] for document in found for each in document["partitions"]]
            troubles = [[each["kind"] for each in document["troubles"]] for document in found]
            return len(ready) == 2 and troubles == [list(kinds)] * 2

        await until_true(kinds_are)
        await log.close()
        await until_true(lambda: kinds_are("log_silent"))
        assert "the log has not answered this server for" in (await status_of(node.port))["troubles"][0]["what"]
        assert "start the log's server again" in (await status_of(router.port))["first"]
