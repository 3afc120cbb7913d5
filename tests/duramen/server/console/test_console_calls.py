"""`POST /console/call`: answered as gRPC answers, by the same guard; not for pages of others, nor what is no call."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.client.audited_server import audit_rows
from kit.client.with_users import WithUsers
from kit.deadlines import until, until_true
from kit.http import CALL_HEADERS, http_call, http_get, http_post

from duramen import aio
from duramen.server.console.calls import local_call
from duramen.server.console.calls.call_messages import METHODS, parse_call
from duramen.server.roles.all_in_one import SingleServer
from duramen.server.roles.guarding import ALL_RULES
from duramen.server.roles.log_role import LogRole
from log_tier.model.errors import InvalidRequest
from log_tier.trust.trust_commands import RevokeToken

pytestmark = pytest.mark.embedded_log_only  # what a page may ask is the same with every log

NODES = {"format": 1, "method": "Admin/Nodes"}
MINUTES = {"format": 1, "method": "Admin/AuditData", "request": {"table": "orders"}}


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[SingleServer]:
    opened = await SingleServer.open(tmp_path / "data", port=0)
    await opened.serve_http(0)
    async with await aio.connect(f"127.0.0.1:{opened.port}") as db:
        table = await db.create_table("orders", partitions=2)
        for number in range(20):
            await table.put(b"eu:%d" % number, b"v")
    yield opened
    await opened.close()


async def test_a_reply_and_a_stream(server: SingleServer) -> None:
    status, answer = await http_call(server.http_port, NODES)
    assert (status, answer["format"], answer["more"]) == (200, 1, False)
    assert answer["replies"][0]["nodes"][0]["node"] == "n1"
    status, all_of_it = await http_call(server.http_port, {**MINUTES, "messages": 1000})
    assert (status, all_of_it["more"]) == (200, False)
    assert sum(each["written"]["offsets"] for each in all_of_it["replies"]) == 20, "numbers are numbers"
    status, answer = await http_call(server.http_port, {**MINUTES, "messages": 1})
    assert (status, answer["replies"], answer["more"]) == (200, all_of_it["replies"][:1], True)
    assert len(server.shell.streams) == len(server.shell.bound) == 0, "what was not wanted has ended"


async def test_errors_are_typed(server: SingleServer) -> None:
    explain = {"format": 1, "method": "Admin/Explain", "request": {"table": "nowhere", "key": "aw=="}}
    status, answer = await http_call(server.http_port, explain)
    assert (status, answer["code"], answer["retryable"]) == (404, "table_not_found", False)
    assert "nowhere" in answer["error"]
    status, answer = await http_call(server.http_port, {**explain, "request": {"table": "orders", "key": ""}})
    assert (status, answer["code"]) == (400, "invalid_key")
    status, answer = await http_call(server.http_port, {"format": 1, "method": "Admin/Healing"})
    assert (status, answer["code"]) == (400, "invalid_request"), "a single server heals no nodes"


@pytest.mark.parametrize(
    "document",
    [
        [],
        {},
        {"format": 2, "method": "Admin/Nodes"},
        {"format": 1},
        {"format": 1, "method": 5},
        {"format": 1, "method": "KeyValue/Read"},
        {"format": 1, "method": "Log/Read"},
        {"format": 1, "method": "/duramen.v1.Admin/Nodes"},
        {**NODES, "request": []},
        {**NODES, "request": {"nothing": 1}},
        {**NODES, "more": 1},
        {**MINUTES, "messages": 0},
        {**MINUTES, "messages": True},
        {**MINUTES, "messages": 10**9},
        {**MINUTES, "timeout_s": "5"},
        {**MINUTES, "timeout_s": float("nan")},
        {**MINUTES, "timeout_s": 1e300},
        {"format": 1, "method": "Admin/Explain", "request": {"table": "\ud800"}},
        {"format": 1, "method": "Admin/Explain", "request": {"writes": -1}},
    ],
)
async def test_what_is_no_call(document: Any) -> None:
    with pytest.raises(InvalidRequest):
        parse_call(json.dumps(document).encode())


@given(st.binary() | st.recursive(st.none() | st.text() | st.floats(), st.lists).map(json.dumps).map(str.encode))
def test_whatever_is_sent_the_error_is_typed(body: bytes) -> None:
    with pytest.raises(InvalidRequest):
        parse_call(body)


def test_deep_json_is_refused() -> None:
    with pytest.raises(InvalidRequest):
        parse_call(b"[" * 60_000)
    with pytest.raises(InvalidRequest):
        parse_call(b'{"format":1,"method":"Admin/Start","request":' + b'{"move":' * 5000 + b"}" * 5001)


async def test_other_pages_cannot_have_a_browser_call(server: SingleServer) -> None:
    async def status(*headers: str, host: str = f"127.0.0.1:{server.http_port}") -> int:
        answer = await http_post(server.http_port, "/console/call", json.dumps(NODES).encode(), *headers, host=host)
        return answer[0]

    own = f"Origin: http://127.0.0.1:{server.http_port}"
    assert await status(*CALL_HEADERS) == 200, "curl"
    assert await status(*CALL_HEADERS, own, "Sec-Fetch-Site: same-origin") == 200
    assert await status(*CALL_HEADERS, "Origin: https://elsewhere.example") == 403
    assert await status(*CALL_HEADERS, "Origin: null") == 403
    assert await status(*CALL_HEADERS, f"Origin: http://127.0.0.1:{server.http_port + 1}") == 403
    assert await status(*CALL_HEADERS, "Sec-Fetch-Site: same-site", own) == 403
    assert await status(*CALL_HEADERS, host="elsewhere.example") == 403, "whose name points here"
    assert await status("Content-Type: text/plain", own) == 400, "which a form can send"
    assert await status(own) == 400
    assert (await http_get(server.http_port, "/console/call", method="OPTIONS"))[0] == 405, "no permission for others"
    assert (await http_get(server.http_port, "/console/call"))[0] == 405


async def test_a_body_has_a_bound(server: SingleServer) -> None:
    body = json.dumps({**NODES, "request": {"x": "y" * 70_000}}).encode()
    assert (await http_post(server.http_port, "/console/call", body, *CALL_HEADERS))[0] == 413
    assert (await http_post(server.http_port, "/status", b"{}", *CALL_HEADERS))[0] == 413, "others take none"


async def test_replies_have_a_bound(server: SingleServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_call, "REPLY_BYTES_MAX", 20)
    status, answer = await http_call(server.http_port, NODES)
    assert (status, answer["code"]) == (429, "limit_exceeded")
    status, answer = await http_call(server.http_port, {**MINUTES, "messages": 1000})
    assert (status, answer["replies"], answer["more"]) == (200, [], True)


async def test_calls_have_a_bound_in_number_and_time(server: SingleServer, monkeypatch: pytest.MonkeyPatch) -> None:
    admitted: list[Any] = []
    answers, goes_on = server.data_plane.log.all_bounds, asyncio.Event()

    async def silent(table: Any) -> Any:
        admitted.append(asyncio.current_task())
        await goes_on.wait()
        return await answers(table)

    monkeypatch.setattr(server.data_plane.log, "all_bounds", silent)
    slow = {"format": 1, "method": "Admin/Partitions", "request": {"table": "orders"}}
    status, answer = await http_call(server.http_port, {**slow, "timeout_s": 0.05})
    assert (status, answer["code"], answer["retryable"]) == (504, "deadline_exceeded", True)
    assert all(each.done() for each in admitted), "nobody works on for nobody"
    admitted.clear()
    calls = [asyncio.ensure_future(http_call(server.http_port, {**slow, "timeout_s": 30})) for _ in range(16)]
    await until(lambda: len(admitted) == 16)
    status, answer = await http_call(server.http_port, NODES)
    assert (status, answer["code"]) == (429, "overloaded")
    goes_on.set()
    assert {status for status, _ in await asyncio.gather(*calls)} == {200}


class SilentLog:
    """The log of a server whose questions are not answered until a test says so."""

    def __init__(self, server: SingleServer, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[asyncio.Task[Any]] = []
        self.goes_on = asyncio.Event()
        answers = server.data_plane.log.all_bounds

        async def silent(table: Any) -> Any:
            task = asyncio.current_task()
            assert task is not None
            self.asked.append(task)
            await self.goes_on.wait()
            return await answers(table)

        monkeypatch.setattr(server.data_plane.log, "all_bounds", silent)


def _request(document: Any) -> bytes:
    body = json.dumps(document).encode()
    lines = ["POST /console/call HTTP/1.1", "Host: localhost", *CALL_HEADERS, f"Content-Length: {len(body)}", "", ""]
    return "\r\n".join(lines).encode() + body


SLOW = {"format": 1, "method": "Admin/Partitions", "request": {"table": "orders"}, "timeout_s": 30}


@pytest.mark.parametrize("how", ["closed", "reset", "half closed"])
async def test_a_call_ends_when_its_page_has_gone(
    server: SingleServer, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    log = SilentLog(server, monkeypatch)
    gone, writer = await asyncio.open_connection("127.0.0.1", server.http_port)
    # Its deadline comes first: it is answered only if the other one has ended before its own.
    other = asyncio.ensure_future(http_call(server.http_port, {**SLOW, "timeout_s": 20}))
    writer.write(_request(SLOW))
    await until(lambda: len(log.asked) == 2)
    if how == "closed":
        writer.close()
    elif how == "reset":
        writer.transport.abort()
    else:
        writer.write_eof()
    await until(lambda: any(task.done() for task in log.asked))
    log.goes_on.set()
    assert (await other)[0] == 200, "the call of another page goes on"
    assert len(server.shell.bound) == 0
    if how == "half closed":
        assert await gone.read() == b""
        writer.close()


async def test_a_client_that_sends_its_next_call_ahead_gets_both_answers(
    server: SingleServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = SilentLog(server, monkeypatch)
    reader, writer = await asyncio.open_connection("127.0.0.1", server.http_port)
    writer.write(_request(SLOW))
    await until(lambda: len(log.asked) == 1)
    writer.write(_request(NODES))
    await writer.drain()
    log.goes_on.set()
    for found in (b'"partition"', b'"node"'):
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 ")
        length = next(
            int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")
        )
        assert found in await reader.readexactly(length)
    writer.close()


async def test_users_see_what_they_may(server: SingleServer) -> None:
    users = WithUsers(server)
    root, alice = (
        await users.add_user("root", "admin *", "read orders"),
        await users.add_user("alice", "read orders --key eu:"),
    )
    explain = {"format": 1, "method": "Admin/Explain", "request": {"table": "orders", "key": "ZXU6MQ=="}}
    for document in (NODES, explain, MINUTES, {"format": 1, "method": "Tables/List"}):
        status, answer = await http_call(server.http_port, document)
        assert (status, answer["code"]) == (401, "unauthenticated"), document
        status, answer = await http_call(server.http_port, document, "drm_nonsense")
        assert (status, answer["code"]) == (401, "unauthenticated"), document
    for document in (NODES, explain, MINUTES):
        assert (await http_call(server.http_port, document, alice))[0] == 403, document
        assert (await http_call(server.http_port, document, root))[0] == 200, document
    status, answer = await http_call(server.http_port, {"format": 1, "method": "Tables/List"}, alice)
    assert (status, [each["name"] for each in answer["replies"][0]["tables"]]) == (200, ["orders"])
    await users.submit(lambda seen: RevokeToken("alice", seen, users.token_ids["alice"]))
    status, answer = await http_call(server.http_port, {"format": 1, "method": "Tables/List"}, alice)
    assert (status, "revoked" in answer["error"]) == (401, True)

    async def noted() -> list[tuple[str, str, str, str]]:
        rows = await audit_rows(server.data_plane)
        return [(each["user"], each["action"], each["result"], each["address"]) for each in rows]

    wanted = {
        ("alice", "Admin/Nodes", "refused", "127.0.0.1"),
        ("root", "Admin/Explain", "done", "127.0.0.1"),
    }

    async def has_noted() -> bool:
        return wanted <= set(await noted())

    await until_true(has_noted)


async def test_a_log_server_takes_no_calls(tmp_path: Path) -> None:
    log = await LogRole.open(tmp_path / "log", host="127.0.0.1", port=0)
    try:
        await log.serve_http(0)
        assert (await http_post(log.http_port, "/console/call", json.dumps(NODES).encode(), *CALL_HEADERS))[0] == 413
    finally:
        await log.close()


def test_each_method_of_a_page_has_its_rule() -> None:
    missing = {
        name for name, each in METHODS.items() if f"/{each.containing_service.full_name}/{each.name}" not in ALL_RULES
    }
    assert missing == set()
    assert not any(each.client_streaming for each in METHODS.values())
