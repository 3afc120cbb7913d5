"""`Console/Get` by the fields of a key: the row as JSON, what the table keeps, and the versions of the key."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from kit.client.with_users import WithUsers
from kit.flight_rows import FLIGHT_SCHEMA, flight_key
from kit.http import http_call

from duramen import aio
from duramen.server.roles.all_in_one import SingleServer

HOSTILE = '<img src=x onerror="harmed=1">'
CHANGES = 5


def plane(number: int, tail: str) -> dict[str, Any]:
    return {"carrier": "UA", "flight": number, "tailnum": tail, "dep_delay": float(number)}


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[SingleServer]:
    """`flights` of rows keeps all, `prices` of bytes two changes of each key, and `orders` nothing."""
    opened = await SingleServer.open(tmp_path / "data", port=0)
    await opened.serve_http(0)
    async with await aio.connect(f"127.0.0.1:{opened.port}") as db:
        flights = await db.create_table("flights", row=FLIGHT_SCHEMA, key=("carrier", "flight"), history="all")
        for change in range(CHANGES):
            await flights.put(plane(7, f"N{change}"))
        await flights.delete("UA", 7)
        await flights.put(plane(7, HOSTILE))
        prices = await db.create_table("prices", history=2)
        for change in range(CHANGES):
            await prices.put(b"JFK", b"%d" % change)
        await (await db.create_table("orders", partitions=1)).put(b"k", b"v")
    yield opened
    await opened.close()


async def key_asked(server: SingleServer, table: str, token: str = "", **request: Any) -> tuple[int, Any]:
    document = {"format": 1, "method": "Console/Get", "request": {"table": table, **request}}
    status, answer = await http_call(server.http_port, document, token)
    return status, answer["replies"][0] if status == 200 else answer


def b64(data: bytes) -> str:
    return b64encode(data).decode()


async def test_a_row_by_the_fields_of_its_key(server: SingleServer) -> None:
    status, found = await key_asked(server, "flights", key_fields='["UA", 7]')
    assert (status, found["key"], found["key_text"]) == (200, b64(flight_key("UA", 7)), '["UA",7]')
    assert json.loads(found["row"])["tailnum"] == HOSTILE
    assert (found["keeps"], found["versions"]) == ("all", [])
    _, by_bytes = await key_asked(server, "flights", key=found["key"])
    assert by_bytes["row"] == found["row"]
    _, absent = await key_asked(server, "flights", key_fields='["UA",8]', eventual=True)
    assert ("entry" in absent, absent["row"], absent["key"]) == (False, "", b64(flight_key("UA", 8)))
    _, found = await key_asked(server, "orders", key=b64(b"k"))
    assert (found["row"], found["keeps"], found["key"]) == ("", "", b64(b"k"))


async def test_the_versions_of_a_key_the_newest_first(server: SingleServer) -> None:
    _, found = await key_asked(server, "flights", key_fields='["UA",7]', versions=3)
    tails = [None if each["deleted"] else json.loads(b64decode(each["value"]))["tailnum"] for each in found["versions"]]
    assert tails == [HOSTILE, None, f"N{CHANGES - 1}"]
    assert [each["offset"] for each in found["versions"]] == [6, 5, 4]
    assert all(each["time_ms"] > 0 for each in found["versions"])
    _, found = await key_asked(server, "prices", key=b64(b"JFK"), versions=100, value_bytes_max=1)
    assert found["keeps"] == "2"
    assert [b64decode(each["value"]) for each in found["versions"]][:2] == [b"4", b"3"]
    assert len(found["versions"]) <= 3
    _, found = await key_asked(server, "prices", key=b64(b"LGA"), versions=100)
    assert found["versions"] == []


@pytest.mark.parametrize(
    ("table", "request_", "code"),
    [
        ("flights", {"key_fields": '["UA","seven"]'}, "invalid_key"),
        ("flights", {"key_fields": '["UA"]'}, "invalid_key"),
        ("flights", {"key_fields": '["UA",7,1]'}, "invalid_key"),
        ("flights", {"key_fields": '["UA",true]'}, "invalid_key"),
        ("flights", {"key_fields": '["UA",null]'}, "invalid_key"),
        ("flights", {"key_fields": f'["UA",{"9" * 5000}]'}, "invalid_key"),
        ("flights", {"key_fields": f'["{"x" * 600}",7]'}, "invalid_key"),
        ("flights", {"key_fields": f'["{"x" * 20_000}",7]'}, "invalid_key"),
        ("flights", {"key_fields": "[" * 10_000}, "invalid_key"),
        ("flights", {"key_fields": f'["{HOSTILE[1:4]}\n\x00'}, "invalid_key"),
        ("flights", {"key_fields": json.dumps([HOSTILE, HOSTILE])}, "invalid_key"),
        ("flights", {"key_fields": '["UA",7]', "key": b64(b"k")}, "invalid_request"),
        ("flights", {}, "invalid_key"),
        ("orders", {"key_fields": '["k"]'}, "invalid_request"),
        ("prices", {"key_fields": '["JFK"]'}, "invalid_request"),
        ("prices", {"key": b64(b"JFK"), "versions": 101}, "limit_exceeded"),
        ("orders", {"key": b64(b"k"), "versions": 1}, "invalid_request"),
    ],
)
async def test_what_is_no_key_is_refused_in_one_line(
    server: SingleServer, table: str, request_: dict[str, Any], code: str
) -> None:
    status, answer = await key_asked(server, table, **request_)
    assert (answer["code"], status in (400, 429)) == (code, True), answer
    assert "\n" not in answer["error"]
    assert len(answer["error"]) < 400


async def test_fields_are_for_who_may_read_the_whole_table(server: SingleServer) -> None:
    users = WithUsers(server)
    await users.add_user("root", "admin *")
    reader = await users.add_user("reader", "read flights")
    some = await users.add_user("some", "read flights --key base64:" + b64(b"\x02UA"))
    assert (await key_asked(server, "flights", reader, key_fields='["UA",7]', versions=2))[0] == 200
    status, answer = await key_asked(server, "flights", some, key_fields='["UA",7]')
    assert (status, answer["code"]) == (403, "permission_denied")
    assert (await key_asked(server, "flights", some, key=b64(flight_key("UA", 7)), versions=2))[0] == 200
    status, answer = await key_asked(server, "flights", some, key=b64(flight_key("AA", 7)))
    assert (status, answer["code"]) == (403, "permission_denied")
