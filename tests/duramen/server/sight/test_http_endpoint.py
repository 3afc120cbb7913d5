"""Health and status over HTTP: what is answered, to whom, and what hostile clients cost."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from kit.deadlines import until_true
from kit.http import http_get, http_raw

from duramen import aio
from duramen.certificates.folder import CertificateFolder
from duramen.certificates.identity import CertificateIdentity
from duramen.server.roles.all_in_one import SingleServer
from duramen.server.sight.http_limits import HttpLimits
from duramen.server.sight.observed import Observed
from duramen.server.wiring.server_certificates import ServerCertificates
from log_tier.access.authenticator import bearer_header
from log_tier.access.tokens import mint_token
from log_tier.model.errors import PortInUse
from log_tier.trust.trust_commands import AddToken, AddUser
from router.proto import kv_pb2


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[SingleServer]:
    opened = await SingleServer.open(tmp_path / "data", port=0)
    await opened.serve_http(0)
    yield opened
    await opened.close()


async def let_in(port: int) -> bool:
    """Is one more connection answered?"""
    with suppress(ConnectionError):
        return bool(await http_raw(port, b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"))
    return False


async def test_health_and_status(server: SingleServer) -> None:
    assert (await http_get(server.http_port, "/livez"))[0] == 200
    code, fields, body = await http_get(server.http_port, "/readyz?verbose")
    assert (code, json.loads(body)) == (200, {"ready": True, "troubles": []})
    assert (fields["cache-control"], fields["x-content-type-options"]) == ("no-store", "nosniff")
    code, fields, body = await http_get(server.http_port, "/status", "User-Agent: Mozilla/5.0 (X11; Linux x86_64)")
    assert (code, json.loads(body)["role"]) == (200, "single")
    assert fields["content-type"].startswith("application/json")
    code, fields, body = await http_get(server.http_port, "/status", method="HEAD")
    assert (code, body) == (200, b"")
    assert int(fields["content-length"]) > 100


async def test_readiness_turns_false_and_says_why(server: SingleServer) -> None:
    async with await aio.connect(f"127.0.0.1:{server.port}") as db:
        await db.create_table("flights", partitions=1)
    (replica,) = server.data_plane.node
    await replica.wait_ready()
    replica.state = "behind"

    async def is_ready(ready: bool) -> bool:
        return (await http_get(server.http_port, "/readyz"))[0] == (200 if ready else 503)

    await until_true(partial(is_ready, False))
    _, _, body = await http_get(server.http_port, "/readyz")
    assert json.loads(body)["troubles"][0]["kind"] == "behind"
    assert (await http_get(server.http_port, "/livez"))[0] == 200
    replica.state = "ready"
    await until_true(partial(is_ready, True))


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (b"GET /../../etc/passwd HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 404),
        (b"GET /status%00 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 404),
        (b"DELETE /status HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 405),
        (b"GET /status HTTP/1.1\r\nConnection: close\r\n\r\n", 400),  # HTTP/1.1 needs a host
        (b"POST /status HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc", 413),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\r\n\r\n", 400),  # a TLS hello
        (b"GET /" + b"a" * 20_000, 431),
        (b"GET / HTTP/1.1\r\n" + b"".join(b"h%d: %s\r\n" % (each, b"v" * 90) for each in range(300)), 431),
    ],
)
async def test_hostile_requests(server: SingleServer, sent: bytes, code: int) -> None:
    assert (await http_raw(server.http_port, sent)).split(b" ", 2)[1] == str(code).encode()
    assert (await http_get(server.http_port, "/livez"))[0] == 200


async def test_a_client_that_sends_nothing_is_let_go(server: SingleServer) -> None:
    await server.serve_http(0, limits=HttpLimits(timeout_s=0.05))
    assert await http_raw(server.http_port, b"GET /livez HT") == b""


async def test_a_client_that_reads_nothing_is_let_go(server: SingleServer) -> None:
    await server.serve_http(0, limits=HttpLimits(connections_max=1, timeout_s=0.2))
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)  # a kernel may take all replies in the client's place
    client.connect(("127.0.0.1", server.http_port))
    reader, writer = await asyncio.open_connection(sock=client, limit=1)
    writer.write(b"GET /x HTTP/1.1\r\nHost: x\r\n\r\n" * 100_000)

    await until_true(lambda: let_in(server.http_port), seconds=30)
    answered = b""
    with suppress(ConnectionError):
        while received := await reader.read(1 << 20):
            answered += received
    assert answered.count(b"HTTP/1.1 404") < 100_000, "it was not read to its end"
    writer.transport.abort()
    with suppress(ConnectionError):
        await writer.wait_closed()


async def test_connections_are_bounded(server: SingleServer) -> None:
    await server.serve_http(0, limits=HttpLimits(connections_max=1))
    reader, writer = await asyncio.open_connection("127.0.0.1", server.http_port)
    writer.write(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
    assert not await let_in(server.http_port), "a stream lasts"
    writer.close()
    await until_true(lambda: let_in(server.http_port), seconds=30)


async def test_an_idle_connection_yields_its_place(server: SingleServer) -> None:
    await server.serve_http(0, limits=HttpLimits(connections_max=1))
    reader, writer = await asyncio.open_connection("127.0.0.1", server.http_port)
    for _ in range(2):  # one connection, two requests
        writer.write(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
        assert await reader.readline() == b'{"alive":true}\n'
    assert await let_in(server.http_port)
    with suppress(ConnectionError):
        assert await reader.read() == b""
    writer.close()


async def test_ten_scrapers_at_once(server: SingleServer) -> None:
    found = await asyncio.gather(*(http_get(server.http_port, "/status") for _ in range(10)))
    assert [code for code, _, _ in found] == [200] * 10


async def test_users(server: SingleServer) -> None:
    catalog: Any = server.data_plane.catalog
    async with await aio.connect(f"127.0.0.1:{server.port}") as db:
        for name in ("orders", "secret"):
            await db.create_table(name, partitions=1)
    token = mint_token("alice")
    await catalog.submit(AddUser("root", catalog.map.version, "", ("admin *",)))
    await catalog.submit(AddUser("alice", catalog.map.version, "", ("read orders",)))
    await catalog.submit(AddToken("alice", catalog.map.version, token.id, token.sha256, 0))
    code, fields, body = await http_get(server.http_port, "/status")
    assert (code, b"orders" in body) == (401, False)
    assert "Bearer" in fields["www-authenticate"]
    assert (await http_get(server.http_port, "/status", "Authorization: Bearer nonsense"))[0] == 401
    code, _, body = await http_get(server.http_port, "/status", f"Authorization: {bearer_header(token.text)}")
    assert (code, b"secret" in body) == (200, False)
    assert "orders" in {each["table"] for each in json.loads(body)["partitions"]}
    assert (await http_get(server.http_port, "/livez"))[0] == 200
    slow = server.access.slow
    for name in ("orders", "secret"):
        get = kv_pb2.KVGetRequest(table=name, key=b"k")
        slow.called("/duramen.v1.KV/Get", get, "ipv4:127.0.0.1:4000", slow.now_s() - 1, "done")
    assert (await http_get(server.http_port, "/slow"))[0] == 401
    code, _, body = await http_get(server.http_port, "/slow", f"Authorization: {bearer_header(token.text)}")
    # On a busy machine the calls that made the tables are slow as well: those have no key.
    shown = [(call["table"], call["key"]) for call in json.loads(body)["calls"] if call["key"]]
    assert (code, shown) == (200, [("orders", "k")])
    for replica in server.data_plane.node:
        replica.state = "behind"

    async def is_not_ready() -> bool:
        return (await http_get(server.http_port, "/readyz"))[0] == 503

    await until_true(is_not_ready)
    _, _, body = await http_get(server.http_port, "/readyz")
    assert json.loads(body)["troubles"] == [{"kind": "hidden", "blocks": True}]


async def test_https(tmp_path: Path) -> None:
    folder = CertificateFolder(tmp_path / "certs")
    folder.make_authority()
    folder.issue(CertificateIdentity("server", "server"), ["localhost"])
    certificates = ServerCertificates.open(tmp_path / "certs")
    server = await SingleServer.open(tmp_path / "data", port=0, certificates=certificates)
    try:
        await server.serve_http(0, certificates)
        trust = ssl.create_default_context(cafile=str(tmp_path / "certs" / "ca.crt"))
        code, _, body = await http_get(server.http_port, "/status", tls=trust)
        assert (code, len(json.loads(body)["certificates"])) == (200, 2)
        assert not (await http_raw(server.http_port, b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")).startswith(b"HTTP")
    finally:
        await server.close()


async def test_a_port_in_use(server: SingleServer) -> None:
    with pytest.raises(PortInUse, match="--http-port"):
        await server.serve_http(server.http_port)


@pytest.mark.parametrize(
    "name", ["localhost:7080", "LOCALHOST", "a.localhost:1", "127.0.0.1", "127.0.0.1:80", "[::1]:80"]
)
async def test_an_open_server_is_asked_by_its_own_names(server: SingleServer, name: str) -> None:
    request = f"GET /status HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n"
    assert (await http_raw(server.http_port, request.encode())).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    "name", ["evil.example:7080", "localhost.evil.example", "127.0.0.1.evil.example", "", "[::1", "::"]
)
async def test_a_web_page_of_another_name_reads_no_status(server: SingleServer, name: str) -> None:
    request = f"GET /status HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n"
    answer = await http_raw(server.http_port, request.encode())
    assert answer.split()[1] in (b"400", b"403"), answer
    assert b"partitions" not in answer
    probe = f"GET /livez HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n"
    assert (await http_raw(server.http_port, probe.encode())).split()[1] in (b"200", b"400")


async def test_who_asks_without_end_costs_one_look_in_a_while(
    server: SingleServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert server.sight is not None
    looks, observe = 0, server.sight.observe

    async def counted() -> Observed:
        nonlocal looks
        looks += 1
        return await observe()

    monkeypatch.setattr(server.sight, "observe", counted)
    began_s = time.monotonic()
    answers = await asyncio.gather(*(http_get(server.http_port, "/readyz") for _ in range(50)))
    assert {code for code, _, _ in answers} == {200}
    assert looks <= 1 + 2 * (time.monotonic() - began_s)
