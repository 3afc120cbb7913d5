"""`duramen.v1.Console` of a server: a key, a page, and the log, as pages ask for them."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from kit.client.with_users import WithUsers
from kit.http import http_call

from duramen import aio
from duramen.server.roles.all_in_one import SingleServer

BINARY = b"\xff\xfe<script>"


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[SingleServer]:
    opened = await SingleServer.open(tmp_path / "data", port=0)
    await opened.serve_http(0)
    async with await aio.connect(f"127.0.0.1:{opened.port}") as db:
        table = await db.create_table("orders", partitions=2)
        for number in range(20):
            await table.put(b"eu:%02d" % number, b"v%d" % number)
        await table.put(BINARY, b"\x00" * (1 << 20), ttl=3600.0)
    yield opened
    await opened.close()


def b64(data: bytes) -> str:
    return b64encode(data).decode()


async def asked(server: SingleServer, method: str, token: str = "", **request: Any) -> tuple[int, Any]:
    document = {"format": 1, "method": f"Console/{method}", "request": {"table": "orders", **request}}
    status, answer = await http_call(server.http_port, document, token)
    return status, answer["replies"][0] if status == 200 else answer


async def test_a_key(server: SingleServer) -> None:
    status, found = await asked(server, "Get", key=b64(b"eu:07"))
    assert (status, found["entry"]["value"], found["entry"]["value_bytes"]) == (200, b64(b"v7"), 2)
    assert (found["partitioner"], found["entry"]["expires_at_ms"]) == ("slot", 0)
    assert found["applied"] >= found["entry"]["version"] >= 0
    assert found["slot"] * 2 // 16384 == found["partition"]
    _, found = await asked(server, "Get", key=b64(BINARY), value_bytes_max=100)
    assert (found["entry"]["value"], found["entry"]["value_bytes"]) == (b64(bytes(100)), 1 << 20)
    assert 0 < found["entry"]["expires_at_ms"] - found["now_ms"] <= 3_600_000
    _, found = await asked(server, "Get", key=b64(b"nothing"), eventual=True)
    assert "entry" not in found
    for request in ({"key": ""}, {"key": b64(b"k" * 600)}, {"key": b64(b"k"), "value_bytes_max": 1 << 30}):
        status, answer = await asked(server, "Get", **request)
        assert (status, answer["code"]) in ((400, "invalid_key"), (429, "limit_exceeded")), request
    status, answer = await asked(server, "Get", key=b64(b"k"), table="<script>")
    assert (status, answer["code"]) == (400, "invalid_name")


async def test_pages_of_a_range(server: SingleServer) -> None:
    seen: list[str] = []
    request: dict[str, Any] = {"prefix": b64(b"eu:"), "limit": 8}
    while True:
        _, page = await asked(server, "Scan", **request)
        seen += [each["key"] for each in page["entries"]]
        if not page["more"]:
            break
        request = {"start": page["start"], "end": page["end"], "limit": 8}
    assert seen == [b64(b"eu:%02d" % number) for number in range(20)]
    _, page = await asked(server, "Scan", prefix=b64(b"eu:"), reverse=True, limit=2)
    assert [each["key"] for each in page["entries"]] == [b64(b"eu:19"), b64(b"eu:18")]
    _, page = await asked(server, "Scan", start=page["start"], end=page["end"], reverse=True, limit=1, eventual=True)
    assert [each["key"] for each in page["entries"]] == [b64(b"eu:17")]
    _, page = await asked(server, "Scan", start=b64(b"eu:99"), limit=500)
    assert [(each["key"], each["value_bytes"], len(each["value"])) for each in page["entries"]] == [
        (b64(BINARY), 1 << 20, len(b64(bytes(1024))))
    ]
    _, page = await asked(server, "Scan", start=b64(b"z"), end=b64(b"a"))
    assert page == {"entries": [], "more": False, "start": "", "end": "", "index": ""}
    for request in ({"limit": 501}, {"prefix": b64(b"a"), "start": b64(b"b")}, {"prefix": b64(b"k" * 600)}):
        assert (await asked(server, "Scan", **request))[0] in (400, 429), request


async def test_the_log(server: SingleServer) -> None:
    pages = [(await asked(server, "Records", partition=number, limit=500))[1] for number in range(2)]
    keys = sorted(each["key"] for page in pages for each in page["records"])
    assert keys == sorted(b64(key) for key in (BINARY, *(b"eu:%02d" % number for number in range(20))))
    status, answer = await asked(server, "Records", partition=2)
    assert (status, answer["code"]) == (400, "invalid_request")


async def test_who_may_read_a_prefix_sees_that_alone(server: SingleServer) -> None:
    users = WithUsers(server)
    await users.add_user("root", "admin *")
    alice = await users.add_user("alice", "read orders --key eu:")
    assert (await asked(server, "Get", alice, key=b64(b"eu:07")))[0] == 200
    assert (await asked(server, "Scan", alice, prefix=b64(b"eu:0")))[0] == 200
    for method, request in (
        ("Get", {"key": b64(BINARY)}),
        ("Scan", {}),
        ("Scan", {"prefix": b64(b"e")}),
        ("Records", {}),
    ):
        status, answer = await asked(server, method, alice, **request)
        assert (status, answer["code"]) == (403, "permission_denied"), (method, request)
        assert (await asked(server, method, **request))[0] == 401
