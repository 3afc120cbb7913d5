"""The server: one port, all services, a clean end, and starts that are refused."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from kit.deadlines import patience_s, within
from kit.held_port import HeldPort

import duramen
from duramen import aio
from duramen.server.roles.all_in_one import SingleServer as Server
from duramen.server.roles.grpc_server import GC_THRESHOLDS
from duramen.server.roles.run import run_until_signal
from log_tier.model.identifiers import Offset
from log_tier.open import open_log

DEADLINE_S = 20


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    opened = await Server.open(tmp_path / "data", port=0)
    yield opened
    await opened.close()


async def test_one_port_has_it_all(server: Server) -> None:
    target = f"127.0.0.1:{server.port}"
    async with grpc.aio.insecure_channel(target) as channel:
        health = health_pb2_grpc.HealthStub(channel)
        for name in ("", "duramen.v1.KV", "duramen.v1.KeyValue", "duramen.v1.Tables", "duramen.v1.Log"):
            reply = await health.Check(health_pb2.HealthCheckRequest(service=name))
            assert reply.status == health_pb2.HealthCheckResponse.SERVING
        listed = await health.List(health_pb2.HealthListRequest())
        assert listed.statuses[""].status == health_pb2.HealthCheckResponse.SERVING
        assert "duramen.v1.KV" in listed.statuses
        reflection = reflection_pb2_grpc.ServerReflectionStub(channel)
        call = reflection.ServerReflectionInfo(iter([reflection_pb2.ServerReflectionRequest(list_services="")]))
        async for reply in call:
            names = {service.name for service in reply.list_services_response.service}
        assert {
            "duramen.v1.KV",
            "duramen.v1.KeyValue",
            "duramen.v1.Tables",
            "duramen.v1.Log",
            "grpc.health.v1.Health",
        } <= names
    async with await aio.connect(target) as db:
        await (await db.create_table("flights")).put(b"k", b"v")
    log = await open_log(f"grpc://{target}")
    assert [topic.name for topic in await log.topics()] == ["_duramen_catalog", "flights"]
    await log.close()


async def test_a_topic_made_at_the_log_is_taken_over_and_one_deleted_there_is_noticed(server: Server) -> None:
    log = await open_log(f"grpc://127.0.0.1:{server.port}")
    made = await log.create_topic("ships", partitions=2)
    async with await aio.connect(f"127.0.0.1:{server.port}") as db:
        with pytest.raises(duramen.TableNotFound):
            await db.table("ships").put(b"k", b"v")
        await db.create_table("ships", partitions=2)
        await db.table("ships").put(b"k", b"v")
        assert await db.table("ships").get(b"k") == b"v"
        await log.delete_topic(made.id)
        replica = next(iter(server.data_plane.node))
        async with within(DEADLINE_S):
            with pytest.raises(duramen.TableNotFound):
                await replica.wait_applied(Offset(9), timeout=DEADLINE_S)  # which learns of it from the log
        with pytest.raises(duramen.TableNotFound):
            await db.table("ships").get(b"k")
    await log.close()


async def test_a_port_in_use(tmp_path: Path, server: Server) -> None:
    with pytest.raises(
        duramen.PortInUse, match=rf"port {server.port} on 127\.0\.0\.1 cannot be listened on.*--port"
    ) as caught:
        await Server.open(tmp_path / "other", port=server.port)
    assert caught.value.fields == {"port": server.port}
    assert not (tmp_path / "other").exists(), "nothing is made for a server that cannot start"
    for port in (-1, 65_536):
        with pytest.raises(duramen.PortInUse, match=f"there is no port {port}"):
            await Server.open(tmp_path / "other", port=port)


async def test_a_second_server_on_the_folder(tmp_path: Path, server: Server) -> None:
    with pytest.raises(duramen.FolderInUse):
        await Server.open(tmp_path / "data", port=0)
    async with await aio.connect(f"127.0.0.1:{server.port}") as db:
        await db.create_table("flights")


async def test_a_start_that_is_refused_lets_go_of_its_port(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with HeldPort() as held:
        with pytest.raises(duramen.ForeignFolder):
            await Server.open(tmp_path, port=held.number)
        server = await Server.open(tmp_path / "data", port=held.number)
        assert server.port == held.number
        await server.close()


async def test_closing_ends_open_streams_with_a_reason(tmp_path: Path) -> None:
    """A watch and a follower of the log never end by themselves; a server must not wait for them."""
    server = await Server.open(tmp_path / "data", port=0)
    async with await aio.connect(f"127.0.0.1:{server.port}") as db:
        table = await db.create_table("flights", partitions=2)
        await table.put(b"k", b"v")
        topic = next(iter(server.data_plane.catalog.map.tables.values()))
        events = db.connection.watch(topic.id, {})
        await anext(events)
        watching = asyncio.ensure_future(anext(events))
        async with within(DEADLINE_S):
            await server.close()
            with pytest.raises(duramen.ShuttingDown, match="the server is stopping; go on from the last offset"):
                await watching
        with pytest.raises(duramen.Disconnected):
            await db.connection.find_table("flights", timeout=DEADLINE_S)


async def test_what_was_accepted_is_finished(tmp_path: Path) -> None:
    server = await Server.open(tmp_path / "data", port=0)
    async with await aio.connect(f"127.0.0.1:{server.port}", timeout=patience_s(2.0)) as db:
        table = await db.create_table("flights", partitions=2, timeout=DEADLINE_S)
        puts = [asyncio.ensure_future(table.put(b"k%d" % number, b"v")) for number in range(200)]
        await puts[0]
        await server.close()
        results = await asyncio.gather(*puts, return_exceptions=True)
    server = await Server.open(tmp_path / "data", port=0)
    async with await aio.connect(f"127.0.0.1:{server.port}") as db:
        table = db.table("flights")
        for number, result in enumerate(results):
            if not isinstance(result, BaseException):
                entry = await table.get_entry(b"k%d" % number)
                assert entry is not None
                assert entry.version == result.offset
    await server.close()


Interpreter = tuple[float, tuple[int, int, int], int]


def interpreter() -> Interpreter:
    """What is set for all of a process: how quickly threads take turns, and what the collector looks at."""
    return sys.getswitchinterval(), gc.get_threshold(), gc.get_freeze_count()


@pytest.fixture
def as_before() -> Iterator[Interpreter]:
    """How the interpreter is set, and is again after the test."""
    interval, thresholds, frozen = before = interpreter()
    yield before
    sys.setswitchinterval(interval)
    gc.set_threshold(*thresholds)
    if not frozen:
        gc.unfreeze()


async def test_a_server_in_another_program_leaves_its_interpreter_alone(tmp_path: Path, as_before: Interpreter) -> None:
    server = await Server.open(tmp_path / "data", port=0)
    try:
        interval, thresholds, frozen = interpreter()
        assert (interval, thresholds) == as_before[:2]
        assert frozen <= as_before[2], "what was frozen before may have been freed"
    finally:
        await server.close()


async def test_serving_until_a_signal(tmp_path: Path, as_before: Interpreter) -> None:
    said: list[str] = []
    started = asyncio.Event()

    def on_start(server: Server) -> None:
        said.append(f"on {server.port}")
        interval, thresholds, frozen = interpreter()
        assert interval == pytest.approx(0.0001)
        assert thresholds == GC_THRESHOLDS
        assert frozen > as_before[2]
        started.set()

    serving = asyncio.ensure_future(
        run_until_signal(Server.open(tmp_path / "data", port=0), started=on_start, stopping=said.append)
    )
    async with within(DEADLINE_S):
        await started.wait()
        async with await aio.connect(f"127.0.0.1:{said[0].removeprefix('on ')}") as db:
            await (await db.create_table("flights")).put(b"k", b"v")
        os.kill(os.getpid(), signal.SIGTERM)
        await serving
    assert said[1:] == ["SIGTERM"]
    assert not asyncio.get_running_loop().remove_signal_handler(signal.SIGTERM), "the handler was left behind"
    with pytest.raises(duramen.Disconnected):
        await aio.connect(f"127.0.0.1:{said[0].removeprefix('on ')}")
