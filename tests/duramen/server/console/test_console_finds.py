"""`Console/Find`: rows by their fields, as JSON that is cut, with the index that was read."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from kit.client.with_users import WithUsers
from kit.flight_rows import FLIGHT_SCHEMA, LATER_SCHEMA, flight_key
from kit.http import http_call

from duramen import aio
from duramen.server.roles.all_in_one import SingleServer

FLIGHTS = 30
LONG = 40


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[SingleServer]:
    """With `flights`, half of them of one plane, and `orders`, which has no rows."""
    opened = await SingleServer.open(tmp_path / "data", port=0)
    await opened.serve_http(0)
    async with await aio.connect(f"127.0.0.1:{opened.port}") as db:
        flights = await db.create_table(
            "flights", row=FLIGHT_SCHEMA, key=("carrier", "flight"), indexes={"by_tail": ("tailnum", "dep_delay")}
        )
        await flights.put_many([row(number) for number in range(FLIGHTS)])
        await db.create_table("orders", partitions=1)
    yield opened
    await opened.close()


def row(number: int) -> dict[str, Any]:
    """One flight; the earlier ones are later."""
    tail = "N14228" if number % 2 else "N24211"
    return {"carrier": "UA", "flight": number, "tailnum": tail, "dep_delay": float(FLIGHTS - number)}


async def asked(server: SingleServer, token: str = "", table: str = "flights", **request: Any) -> tuple[int, Any]:
    if "where" in request and not isinstance(request["where"], str):
        request["where"] = json.dumps(request["where"])
    document = {"format": 1, "method": "Console/Find", "request": {"table": table, **request}}
    status, answer = await http_call(server.http_port, document, token)
    return status, answer["replies"][0] if status == 200 else answer


def rows_of(page: Any) -> list[Any]:
    return [json.loads(b64decode(each["value"])) for each in page["entries"]]


async def test_rows_by_an_index(server: SingleServer) -> None:
    wanted = [row(number) for number in range(FLIGHTS - 1, 0, -2)]
    status, page = await asked(server, where={"tailnum": "N14228"})
    assert (status, page["index"], page["more"]) == (200, "by_tail", False)
    assert rows_of(page) == wanted, "in the order of the index, by delay"
    assert [b64decode(each["key"]) for each in page["entries"]] == [flight_key("UA", each["flight"]) for each in wanted]
    assert all(each["version"] >= 0 for each in page["entries"])
    _, page = await asked(server, where={"tailnum": "N14228"}, order=["-dep_delay"], limit=3, eventual=True)
    assert (rows_of(page), page["more"]) == (wanted[::-1][:3], True)
    _, page = await asked(server, where={"tailnum": "N14228"}, limit=len(wanted))
    assert (rows_of(page), page["more"]) == (wanted, False), "as many as there are"
    _, page = await asked(server, where={"tailnum": "N14228"}, limit=len(wanted) - 1)
    assert (rows_of(page), page["more"]) == (wanted[:-1], True), "one is left"


async def test_rows_by_the_key(server: SingleServer) -> None:
    status, page = await asked(server, where={"carrier": "UA", "flight": [5, 8]})
    assert (status, page["index"], rows_of(page)) == (200, "", [row(5), row(6), row(7)])
    _, page = await asked(server, where={"carrier": "UA", "dep_delay": [None, 3]})
    assert (page["index"], rows_of(page)) == ("", [row(28), row(29)]), "the other condition is looked at"
    _, page = await asked(server)
    assert rows_of(page) == [row(number) for number in range(FLIGHTS)]
    _, page = await asked(server, where={"tailnum": "none"})
    assert page == {"entries": [], "more": False, "start": "", "end": "", "index": "by_tail"}


async def test_a_row_that_is_cut_says_how_long_its_text_is(server: SingleServer) -> None:
    _, page = await asked(server, where={"carrier": "UA", "flight": 5}, value_bytes_max=9)
    (entry,) = page["entries"]
    whole = json.dumps(row(5), separators=(",", ":")).encode()
    assert (b64decode(entry["value"]), entry["value_bytes"]) == (whole[:9], len(whole))


async def test_rows_of_an_earlier_schema_have_the_fields_of_the_newest(server: SingleServer) -> None:
    assert rows_of((await asked(server, where={"carrier": "UA", "flight": 5}))[1]) == [row(5)]
    async with await aio.connect(f"127.0.0.1:{server.port}") as db:
        await db.alter_table("flights", row=LATER_SCHEMA)
    _, page = await asked(server, where={"carrier": "UA", "flight": 5})
    assert rows_of(page) == [{**row(5), "gate": "-"}]


@pytest.mark.parametrize(
    ("request_", "code", "words"),
    [
        ({"where": {"dep_delay": [60, None]}}, "invalid_request", "no index serves this"),
        ({"where": {"tailnum": "N14228"}, "order": ["flight"]}, "invalid_request", "flight"),
        ({"where": {"tailnum": 5}}, "invalid_request", "tailnum"),
        ({"where": {"colour": "red"}}, "invalid_request", "colour"),
        ({"where": "{"}, "invalid_request", "where is no JSON"),
        ({"where": "[]"}, "invalid_request", "where is an object"),
        ({"where": '{"flight":1,"flight":2}'}, "invalid_request", "twice"),
        ({"order": ["flight"] * 99}, "invalid_request", "order has at most"),
        ({"limit": 501}, "limit_exceeded", "500 rows"),
        ({"value_bytes_max": 1 << 30}, "limit_exceeded", "65536 bytes"),
        ({"table": "orders"}, "invalid_request", "are bytes"),
        ({"table": "nowhere"}, "table_not_found", "nowhere"),
    ],
)
async def test_what_is_refused_says_why(server: SingleServer, request_: Any, code: str, words: str) -> None:
    status, answer = await asked(server, **request_)
    assert (status >= 400, answer["code"]) == (True, code)
    assert words in answer["error"]


async def test_a_find_is_for_who_reads_the_whole_table(server: SingleServer) -> None:
    users = WithUsers(server)
    await users.add_user("root", "admin *")
    reader = await users.add_user("reader", "read flights")
    some = await users.add_user("some", "read flights --key UA")
    where = {"tailnum": "N14228"}
    assert (await asked(server, reader, where=where))[0] == 200
    status, answer = await asked(server, some, where=where)
    assert (status, answer["code"]) == (403, "permission_denied")
    assert (await asked(server, where=where))[0] == 401


async def test_keys_are_shown_as_their_fields(server: SingleServer) -> None:
    """A person read the bytes of `pack_key`."""
    _, page = await asked(server, where={"carrier": "UA", "flight": 7})
    (entry,) = page["entries"]
    assert (b64decode(entry["key"]), entry["key_text"]) == (flight_key("UA", 7), '["UA",7]')
    for method, key_there in (("Console/Get", "entry"), ("Console/Scan", "entries")):
        request = {"table": "flights", "key": entry["key"]} if key_there == "entry" else {"table": "flights"}
        document = {"format": 1, "method": method, "request": request}
        _, answer = await http_call(server.http_port, document)
        found = answer["replies"][0][key_there]
        assert (found if key_there == "entry" else found[7])["key_text"] == '["UA",7]'
    keys, rows = set(), set()
    for partition in range(64):
        document = {"format": 1, "method": "Console/Records", "request": {"table": "flights", "partition": partition}}
        status, answer = await http_call(server.http_port, document)
        if status != 200:
            break
        keys |= {each["key_text"] for each in answer["replies"][0]["records"]}
        rows |= {json.loads(each["row"])["flight"] for each in answer["replies"][0]["records"]}
    assert keys == {f'["UA",{number}]' for number in range(FLIGHTS)}, "in the log"
    assert rows == set(range(FLIGHTS))
    document = {"format": 1, "method": "Console/Get", "request": {"table": "flights", "key": "bm9uZQ=="}}
    _, answer = await http_call(server.http_port, document)
    assert answer["replies"][0].get("key_text", "") == "", "a key that is none of the definition"
