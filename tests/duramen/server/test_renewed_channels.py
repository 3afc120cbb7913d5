"""Connections that take new certificates while they are used, at real servers in this process."""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from kit.certs_at_hand import CertsAtHand
from kit.deadlines import within

from duramen.server.roles.grpc_server import GrpcServer
from duramen.server.wiring.server_certificates import ServerCertificates
from log_tier.model.errors import Disconnected
from log_tier.rpc import renewed_channel
from log_tier.rpc.security import secured, shown_certificate
from log_tier.rpc.wire import Wire

pytestmark = pytest.mark.embedded_log_only

DEADLINE_S = 30


class Shown:
    """A server whose only port asks for certificates, and a client whose certificate it names."""

    def __init__(self, path: Path) -> None:
        self.certs = CertsAtHand(path)
        self.client = self.certs.issue("alice", user=True)
        self.shell: GrpcServer | None = None
        self.go_on = asyncio.Event()

    async def listen(self, port: int = 0) -> int:
        self.shell = await GrpcServer.listen(
            "127.0.0.1",
            port,
            certificates=ServerCertificates.open(self.certs.path),
            require_client_certificate=True,
        )

        async def note(_request: bytes, context: Any) -> bytes:
            return shown_certificate(context) or b""

        async def note_twice(_request: bytes, context: Any) -> AsyncIterator[bytes]:
            yield shown_certificate(context) or b""
            await self.go_on.wait()
            yield shown_certificate(context) or b""

        handlers = {
            "Note": grpc.unary_unary_rpc_method_handler(note),
            "NoteTwice": grpc.unary_stream_rpc_method_handler(note_twice),
        }
        self.shell.registry.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("test.Shown", handlers)])
        await self.shell.start(())
        return self.shell.port

    async def close(self) -> None:
        assert self.shell is not None, "it listens"
        await self.shell.close()

    def own(self) -> bytes:
        assert self.client.certificate is not None
        return self.client.certificate.read_bytes()


@asynccontextmanager
async def shown_by(path: Path) -> AsyncIterator[tuple[Shown, Wire]]:
    shown = Shown(path)
    port = await shown.listen()
    with secured(shown.client):
        wire = Wire(f"localhost:{port}")
    async with within(DEADLINE_S):
        yield shown, wire
        await wire.close()
    await shown.close()


@pytest.fixture(autouse=True)
def looking_always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are looked at with each call."""
    monkeypatch.setattr(renewed_channel, "LOOK_EVERY_S", 0.0)


async def noted(wire: Wire) -> bytes:
    reply: bytes = await wire.ask(wire.channel.unary_unary("/test.Shown/Note", bytes, bytes), b"", timeout=DEADLINE_S)
    return reply


async def until_noted(wire: Wire, certificate: bytes) -> None:
    """Call until the server sees this certificate. Each call succeeds."""
    while await noted(wire) != certificate:
        pass


async def test_a_new_certificate_is_shown_and_no_call_fails(tmp_path: Path) -> None:
    async with shown_by(tmp_path) as (shown, wire):
        for _ in range(3):
            before = shown.own()
            assert await noted(wire) == before
            shown.certs.folder.rotate("alice")
            assert shown.own() != before
            await until_noted(wire, shown.own())


async def test_many_calls_at_once(tmp_path: Path) -> None:
    """They end over the channel that they began on."""
    async with shown_by(tmp_path) as (shown, wire):

        async def ask_often() -> set[bytes]:
            return {await noted(wire) for _ in range(200)}

        asking = [asyncio.create_task(ask_often()) for _ in range(8)]
        await noted(wire)
        shown.certs.folder.rotate("alice")
        await until_noted(wire, shown.own())
        shown.certs.folder.rotate("alice")
        await until_noted(wire, shown.own())
        for each in asking:
            assert await each


async def test_a_stream_stays_and_its_channel_ends_with_it(tmp_path: Path) -> None:
    async with shown_by(tmp_path) as (shown, wire):
        before = shown.own()
        stream = wire.stream(wire.channel.unary_stream("/test.Shown/NoteTwice", bytes, bytes), b"")
        assert await anext(stream) == before
        shown.certs.folder.rotate("alice")
        await until_noted(wire, shown.own())
        [earlier] = wire._renewed._before
        shown.go_on.set()
        assert [reply async for reply in stream] == [before]
        await wire._renewed._closing.wait()
        assert (wire._renewed._before, earlier.channel.get_state()) == ([], grpc.ChannelConnectivity.SHUTDOWN)


async def test_what_the_server_does_not_take_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A certificate of another CA, then no certificate at all, then the right one."""
    monkeypatch.setattr(renewed_channel, "RECONNECTED_S", 0.3)
    caplog.set_level(logging.INFO, logger=renewed_channel.__name__)
    async with shown_by(tmp_path) as (shown, wire):
        first = await noted(wire)
        certificate, key = shown.certs.path / "alice.crt", shown.certs.path / "alice.key"
        kept = [certificate.read_bytes(), key.read_bytes()]
        other = CertsAtHand(tmp_path / "others")
        shutil.copy(other.path / "server.crt", certificate)
        shutil.copy(other.path / "server.key", key)
        while "is not reached with new certificates" not in caplog.text:
            assert await noted(wire) == first
        certificate.write_text("no certificate")
        while "cannot be used" not in caplog.text:
            assert await noted(wire) == first
        certificate.write_bytes(kept[0])
        key.write_bytes(kept[1])
        while "is called with new certificates" not in caplog.text:
            assert await noted(wire) == first


async def test_a_lost_connection_is_made_with_the_new_files(tmp_path: Path) -> None:
    """The server comes back with a CA that the client has read from its files since, and not before."""
    async with shown_by(tmp_path) as (shown, wire):
        await noted(wire)
        assert shown.shell is not None
        port = shown.shell.port
        await shown.close()
        for step in (
            shown.certs.folder.rotate_authority,
            shown.certs.folder.rotate,
            shown.certs.folder.finish_authority,
        ):
            step()
        await shown.listen(port)
        while (reply := await noted_or_not_sent(wire)) is None:
            pass
        assert reply == shown.own()


async def noted_or_not_sent(wire: Wire) -> bytes | None:
    try:
        return await noted(wire)
    except Disconnected as error:
        if error.fields.get("sent") != 0:
            raise
        return None


async def test_a_wire_that_is_closed_while_it_renews(tmp_path: Path) -> None:
    async with shown_by(tmp_path) as (shown, wire):
        await noted(wire)
        shown.certs.folder.rotate("alice")
        await noted(wire)
        assert wire._renewed._renewing is not None
        await wire.close()
        assert wire._renewed._renewing.done()
