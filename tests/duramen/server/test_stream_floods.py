"""Floods of streams: what is over a server's bound is refused, in words, and costs no memory."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from kit.client.server_process import ServerProcess
from kit.deadlines import patience_s, until

from duramen.server.roles.all_in_one import SingleServer
from log_tier.model.errors import Overloaded
from log_tier.proto import cluster_pb2, cluster_pb2_grpc
from log_tier.rpc.messages.stream_bound import OPEN_TO_ALL_MAX
from log_tier.rpc.problems import error_of_call

ATTEMPTS: Final = 8_000
CONNECTIONS: Final = 20
MEBIBYTES_MAX: Final = 48
"""What a server of 1,024 such streams may grow by: it takes 30. 8,000 took 183."""


@asynccontextmanager
async def opened(folder: Path, streams_max: int) -> AsyncIterator[SingleServer]:
    server = await SingleServer.open(folder, port=0, streams_max=streams_max)
    try:
        yield server
    finally:
        await server.close()


def channel_to(port: int) -> Any:
    return grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=[("grpc.use_local_subchannel_pool", 1)])


async def begun(call: Any) -> str:
    """Has a stream begun, or why not?"""
    try:
        return "begun" if await call.read() is not grpc.aio.EOF else "ended"  # type: ignore[attr-defined]
    except grpc.aio.AioRpcError as failure:
        error = error_of_call(failure, "the server")
        return error.message if type(error) is Overloaded else repr(error)


def follow(channel: Any) -> Any:
    stub: Any = cluster_pb2_grpc.ClusterStub(channel)  # type: ignore[no-untyped-call]
    return stub.Follow(cluster_pb2.FollowRequest())


def resident_mebibytes(process: int) -> float:
    status = Path(f"/proc/{process}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


async def test_maps_beyond_the_bound_are_refused_and_single_calls_are_answered(tmp_path: Path) -> None:
    async with opened(tmp_path / "data", 8) as server, AsyncExitStack() as closing:
        one, two, three = [await closing.enter_async_context(channel_to(server.port)) for _ in range(3)]
        calls = [follow(one) for _ in range(5)]
        answers = await asyncio.gather(*map(begun, calls))
        assert answers.count("begun") == 4
        assert next(each for each in answers if each != "begun").startswith("4 streams are open over this connection")
        more = [follow(two) for _ in range(4)]
        assert await asyncio.gather(*map(begun, more)) == ["begun"] * 4
        last = await begun(follow(three))
        assert last.startswith("8 streams are open at this server")
        assert "streams_max" in last
        health: Any = health_pb2_grpc.HealthStub(three)
        assert (await health.Check(health_pb2.HealthCheckRequest(), timeout=patience_s(30))).status == 1
        more.pop().cancel()
        await until(lambda: len(server.shell.bound) == 7)
        again = follow(three)
        assert await begun(again) == "begun"


async def test_a_stream_that_its_server_refuses_or_ends_is_counted_no_longer(tmp_path: Path) -> None:
    async with opened(tmp_path / "data", 8) as server, channel_to(server.port) as channel:
        once: Any = cluster_pb2_grpc.ClusterStub(channel)  # type: ignore[no-untyped-call]
        for _ in range(20):
            call = once.Follow(cluster_pb2.FollowRequest(once=True))
            assert await begun(call) == "begun"
            assert await call.read() is grpc.aio.EOF  # type: ignore[attr-defined]
        await until(lambda: len(server.shell.bound) == 0)
        assert server.shell.bound.refused == 0


@pytest.mark.embedded_log_only
async def test_thousands_of_watches_of_health_take_bounded_memory(tmp_path: Path) -> None:
    process = await asyncio.to_thread(ServerProcess, tmp_path / "data", log=tmp_path / "log")
    try:
        port, number = process.announcement["port"], process.process.pid
        before = resident_mebibytes(number)
        said: Counter[str] = Counter()
        async with AsyncExitStack() as closing:
            stubs = [
                health_pb2_grpc.HealthStub(await closing.enter_async_context(channel_to(port)))
                for _ in range(CONNECTIONS)
            ]
            for _ in range(ATTEMPTS // 1000):
                calls = [
                    stub.Watch(health_pb2.HealthCheckRequest()) for stub in stubs for _ in range(1000 // CONNECTIONS)
                ]
                said.update(await asyncio.gather(*map(begun, calls)))
                closing.callback(list, calls)  # held open
            grown = resident_mebibytes(number) - before
            follows = follow(await closing.enter_async_context(channel_to(port)))
            assert await begun(follows) == "begun", "nobody else's streams are refused"
        [refused] = set(said) - {"begun"}
        assert refused.startswith(f"{OPEN_TO_ALL_MAX} streams of health and reflection are open at this server")
        assert said == {"begun": OPEN_TO_ALL_MAX, refused: ATTEMPTS - OPEN_TO_ALL_MAX}
        assert grown < MEBIBYTES_MAX, f"{ATTEMPTS} attempts took {grown:.0f} MiB"
    finally:
        await asyncio.to_thread(process.close)
