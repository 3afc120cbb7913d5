"""The endpoint for clients of the machine is opened once, whole or not at all, and by whoever asks first."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from kit.deadlines import until_true, within

from duramen.server.roles.all_in_one import SingleServer
from log_tier.catalog.map_follower import MapFollower
from log_tier.model.errors import Unavailable
from log_tier.privacy.machine_socket import MachineSocket, connect_machine_socket, machine_socket_of
from router.endpoints.resp.server.sockets import RespSettings
from router.proto import resp_endpoint_pb2, resp_endpoint_pb2_grpc

pytestmark = [
    pytest.mark.embedded_log_only,  # what is asked is the endpoint, and not where the log is
    pytest.mark.skipif(sys.platform != "linux", reason="abstract sockets are Linux's"),
]

Description = resp_endpoint_pb2.RespEndpointDescription


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[SingleServer]:
    made = await SingleServer.open(tmp_path / "data", port=0, resp_endpoint=RespSettings(for_this_machine=True))
    yield made
    await made.close()


@pytest.fixture
async def describe(server: SingleServer) -> AsyncIterator[Callable[[bool], Any]]:
    """Asks it where its endpoint is: `open` has it opened."""
    async with grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as channel:
        stub = resp_endpoint_pb2_grpc.RespEndpointStub(channel)  # type: ignore[no-untyped-call]
        yield lambda opens: stub.Describe(resp_endpoint_pb2.DescribeRespEndpointRequest(open=opens), timeout=60)


def is_bound(folder: Path, port: int) -> bool:
    """Does any process hold the socket of this server?"""
    place = machine_socket_of(folder, port)
    assert place is not None
    return place.name in Path("/proc/net/unix").read_text()


async def answers(place: Description) -> bytes:
    """What is said to a PING at its socket."""
    made = connect_machine_socket(MachineSocket(place.machine_socket, place.owner), 20)
    made.setblocking(False)
    reader, writer = await asyncio.open_unix_connection(sock=made)
    try:
        writer.write(b"PING\r\n")
        async with within(20):
            return await reader.readline()
    finally:
        writer.close()
        await writer.wait_closed()


class FollowsOnOrder:
    """Holds the last step of an opening until it is let go on, or fails it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.entered, self.go_on = asyncio.Event(), asyncio.Event()
        self.fails: BaseException | None = None
        self.count = 0
        follow = MapFollower.follow

        async def held(follower: MapFollower, *arguments: Any, **named: Any) -> Any:
            self.count += 1
            self.entered.set()
            await self.go_on.wait()
            if self.fails is not None:
                raise self.fails
            return await follow(follower, *arguments, **named)

        monkeypatch.setattr(MapFollower, "follow", held)


async def test_two_clients_at_once_have_one_endpoint(
    server: SingleServer, describe: Callable[[bool], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    held = FollowsOnOrder(monkeypatch)
    asked = [asyncio.ensure_future(describe(True)) for _ in range(5)]
    async with within(60):
        await held.entered.wait()
    assert not any(each.done() for each in asked), "none hears of what is not open yet"
    assert (await describe(False)).machine_socket == "", "one that does not wait hears of none"
    held.go_on.set()
    places = await asyncio.gather(*asked)
    assert {place.machine_socket for place in places} == {places[0].machine_socket} != {""}
    assert held.count == 1
    assert await answers(places[0]) == b"+PONG\r\n"
    assert await describe(True) == await describe(False) == places[0]


async def test_an_opening_that_fails_half_way_leaves_nothing(
    server: SingleServer,
    describe: Callable[[bool], Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    opened = await describe(False)
    assert opened.machine_socket == ""
    held = FollowsOnOrder(monkeypatch)
    held.go_on.set()
    held.fails = Unavailable("the catalog is not there")
    for _ in range(3):
        assert await describe(True) == opened, "no name is announced at which nobody answers"
    assert held.count == 3, "each that asks may have it opened"
    assert "call by gRPC: the catalog is not there" in caplog.text
    assert not is_bound(tmp_path / "data", server.port)
    held.fails = None
    place = await describe(True)
    assert is_bound(tmp_path / "data", server.port)
    assert await answers(place) == b"+PONG\r\n"


async def test_a_client_that_leaves_ends_no_opening(
    server: SingleServer, describe: Callable[[bool], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one does whose second has passed: the next one finds it open."""
    held = FollowsOnOrder(monkeypatch)
    asked = describe(True)
    async with within(60):
        await held.entered.wait()
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    assert (await describe(False)).machine_socket == "", "the server has seen that it left"
    held.go_on.set()

    async def is_open() -> bool:
        return bool((await describe(False)).machine_socket)

    await until_true(is_open)
    assert held.count == 1
    assert await answers(await describe(False)) == b"+PONG\r\n"


async def test_a_server_that_stops_while_it_opens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = await SingleServer.open(tmp_path / "data", port=0, resp_endpoint=RespSettings(for_this_machine=True))
    held = FollowsOnOrder(monkeypatch)
    async with grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as channel:
        stub = resp_endpoint_pb2_grpc.RespEndpointStub(channel)  # type: ignore[no-untyped-call]
        asked = stub.Describe(resp_endpoint_pb2.DescribeRespEndpointRequest(open=True))
        async with within(60):
            await held.entered.wait()
        async with within(60):
            await server.close()
        with pytest.raises((grpc.aio.AioRpcError, asyncio.CancelledError)):
            await asked
    assert not is_bound(tmp_path / "data", server.port)
