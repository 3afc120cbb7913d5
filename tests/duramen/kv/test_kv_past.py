"""The past of a table by `duramen.v1.KV`, the same at every role: `at_token` and `at_time_ms` of reads, and History."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Coroutine
from dataclasses import replace
from random import Random
from typing import Any

import grpc
import pytest
from kit.clients.kv_servers import DEADLINE_S, KVClient, refused
from kit.deadlines import until_true
from kit.flight_rows import LATER_SCHEMA, UNNUMBERED_FLIGHTS

from log_tier.model.kept_history import ALL, KeptHistory
from log_tier.model.tokens import Token
from router.proto import kv_pb2 as kv
from router.proto import tables_pb2 as tables
from router.remote.definitions import definition_message

Model = dict[bytes, bytes]

JSON = kv.KV_FORM_JSON
INVALID = grpc.StatusCode.INVALID_ARGUMENT
LAST_MS = (1 << 63) - 1


@pytest.fixture
async def clients(ports: list[int], table_name: str) -> AsyncIterator[list[KVClient]]:
    made = [KVClient(port, table_name) for port in ports]
    await made[0].create_kept(ALL)
    yield made
    for each in made:
        await each.channel.close(None)


async def scanned(client: KVClient, **how: Any) -> Model:
    return {entry.key: entry.value for page in await client.scan(**how) for entry in page.entries}


async def test_every_state_is_what_was_there(clients: list[KVClient]) -> None:
    chance = Random("states of KV")
    client, keys = clients[0], [b"%03d" % number for number in range(60)]
    model: Model = {}
    states: list[tuple[str, Model]] = [(await client.end_token(), {})]
    for _ in range(4):
        for _ in range(60):
            key = chance.choice(keys)
            if chance.random() < 0.3:
                await client.delete(key)
                model.pop(key, None)
            else:
                model[key] = b"%d" % chance.randrange(99)
                await client.put(key, model[key])
        states.append((await client.end_token(), dict(model)))
    for token, expected in states:
        reader = chance.choice(clients)
        assert await scanned(reader, at_token=token) == expected
        part = {key: value for key, value in expected.items() if b"01" <= key < b"03"}
        assert await scanned(reader, at_token=token, start=b"01", end=b"03") == part
        assert await scanned(reader, at_token=token, prefix=b"01", reverse=True, limit=3) == dict(
            sorted((pair for pair in expected.items() if pair[0].startswith(b"01")), reverse=True)[:3]
        )
        many = await reader.get_many(keys, at_token=token)
        assert {each.key: each.value for each in many.entries if each.HasField("value")} == expected
        assert all(each.HasField("value") or each.version == -1 for each in many.entries)
        assert many.token == token, "the state that was read"
        for key in chance.sample(keys, 4):
            found = await reader.get(key, at_token=token)
            assert (found.value if found.HasField("value") else None) == expected.get(key)


async def test_the_versions_of_a_key(clients: list[KVClient]) -> None:
    client, other = clients[0], clients[-1]
    first = await client.put(b"JFK", b"100")
    gone = await client.delete(b"JFK")
    last = await client.put(b"JFK", b"90", ttl_ms=3_600_000)
    found = await other.history(b"JFK", after=last.token)
    values = [each.value if each.HasField("value") else None for each in found.versions]
    assert values == [b"90", None, b"100"]
    assert [each.version for each in found.versions][::2] == [last.version, first.version]
    assert [bool(each.expires_at_ms) for each in found.versions] == [True, False, False]
    times = [each.time_ms for each in found.versions]
    assert times == sorted(times, reverse=True)
    assert min(times) > 0
    for each, value in zip(found.versions, values, strict=True):
        read = await other.get(b"JFK", at_token=each.token)
        assert (read.value if read.HasField("value") else None) == value
        assert read.version == (-1 if value is None else each.version)
    until = await other.history(b"JFK", at_token=gone.token, limit=1)
    assert [each.token for each in until.versions] == [found.versions[1].token]
    assert until.token == gone.token
    assert not (await other.history(b"LGA", after=found.token)).versions
    assert not (await other.history(b"JFK", at_time_ms=0)).versions


async def test_a_time(clients: list[KVClient]) -> None:
    client, other = clients[0], clients[-1]
    await client.put(b"a", b"1")
    taken_ms = (await client.history(b"a", at_token=await client.end_token())).versions[0].time_ms

    async def later() -> bool:
        return time.time() * 1000 > taken_ms + 1

    await until_true(later)
    await client.put(b"a", b"2")
    await client.put(b"b", b"2")
    for at_ms, value in ((-(1 << 63), None), (0, None), (1, None), (taken_ms, b"1"), (LAST_MS, b"2")):
        found = await other.get(b"a", at_time_ms=at_ms)
        assert (found.value if found.HasField("value") else None) == value
        again = await client.get(b"a", at_token=found.token)
        assert (again.HasField("value"), again.value) == (value is not None, value or b"")
    pages = await other.scan(at_time_ms=taken_ms)
    assert [entry.key for page in pages for entry in page.entries] == [b"a"]
    assert await scanned(client, at_token=pages[-1].token) == {b"a": b"1"}
    many = await other.get_many([b"a", b"b"], at_time_ms=taken_ms)
    assert [each.HasField("value") for each in many.entries] == [True, False]


async def test_what_is_written_meanwhile_is_in_no_later_message(clients: list[KVClient]) -> None:
    client = clients[0]
    rows = {b"%04d" % number: b"old" for number in range(900)}

    async def put_all(value: bytes) -> None:
        await asyncio.gather(*(client.put(key, value) for key in rows))

    await put_all(b"old")
    state = await client.end_token()
    for how in ({"at_token": state}, {"at_time_ms": LAST_MS}):
        asked = kv.KVScanRequest(table=client.table, **how)
        call = aiter(clients[-1].stub.Scan(asked, timeout=DEADLINE_S))
        pages = [await anext(call)]
        await put_all(b"new")
        await client.put(b"0000+", b"added")
        pages += [page async for page in call]
        found = [(entry.key, entry.value) for page in pages for entry in page.entries]
        assert found == sorted(rows.items())
        # A scan that goes on names the state that the interrupted one had.
        rest = await scanned(client, at_token=pages[0].token, start_after=found[99][0])
        assert sorted(rest.items()) == found[100:]
        await client.delete(b"0000+")
        await put_all(b"old")


async def test_rows_as_text(clients: list[KVClient], table_name: str) -> None:
    client, other = clients[0].named(f"{table_name}_rows"), clients[-1].named(f"{table_name}_rows")
    definition = definition_message(replace(UNNUMBERED_FLIGHTS, keeps=KeptHistory(versions=50)))
    await client.tables.Create(
        tables.CreateTableRequest(name=client.table, partitions=2, definition=definition), timeout=DEADLINE_S
    )
    row = b'{"carrier":"UA","flight":1,"tailnum":"N%d","dep_delay":0.0}'
    first = await client.put(b"", row % 1, form=JSON)
    await client.put(b"", row % 2, form=JSON)
    asked = tables.AlterTableRequest(name=client.table, avro=json.dumps(LATER_SCHEMA))
    await client.tables.Alter(asked, timeout=DEADLINE_S)
    last = await client.put(b"", row % 3, form=JSON)
    key = b'["UA",1]'
    then = json.loads((await other.get(key, at_token=first.token, form=JSON)).value)
    assert then["tailnum"] == "N1"
    newest = (await other.get(key, form=JSON, after=last.token)).value
    assert json.loads(newest).keys() == then.keys(), "by the newest schema"
    versions = (await other.history(key, form=JSON, after=last.token)).versions
    assert [json.loads(each.value)["tailnum"] for each in versions] == ["N3", "N2", "N1"]
    state = await client.end_token()
    (entry,) = (await other.get_many([key], at_token=state, form=JSON)).entries
    assert (entry.key, entry.value) == (key, newest)
    pages = await other.scan(at_token=state, prefix=b'["UA"]', form=JSON)
    assert [each.value for page in pages for each in page.entries] == [newest]
    stored = (await other.history(key, form=kv.KV_FORM_JSON, at_time_ms=LAST_MS, limit=1)).versions
    assert [each.value for each in stored] == [newest]


async def test_what_is_no_state_is_refused(clients: list[KVClient], table_name: str) -> None:
    client, plain = clients[0], clients[0].named(f"{table_name}_plain")
    await plain.create()
    theirs = (await plain.put(b"k", b"1")).token
    done = await client.put(b"k", b"1")
    whole = await client.end_token()
    ((table, offsets),) = Token.parse(whole).tables.items()
    ahead = str(Token({table: {each: type(offset)(offset + 1000) for each, offset in offsets.items()}}))
    for reader in clients:
        for how, code, reason, why in (
            ({"at_token": ""}, INVALID, "invalid_token", "no token"),
            ({"at_token": "d1.nonsense"}, INVALID, "invalid_token", ""),
            ({"at_token": theirs}, INVALID, "invalid_token", ""),
            ({"at_token": whole, "after": whole}, INVALID, "invalid_request", "leave out after"),
            ({"at_time_ms": 5, "after": whole}, INVALID, "invalid_request", "leave out after"),
            ({"at_token": ahead}, grpc.StatusCode.OUT_OF_RANGE, "token_ahead", ""),
        ):
            calls = (reader.get(b"k", **how), reader.get_many([b"k"], **how), reader.scan(**how))
            for call in (*calls, reader.history(b"k", **how)):
                found = await refused(call)
                assert (found.code, found.reason) == (code, reason), how
                assert why in found.message
        levels = ({"level": kv.KV_LEVEL_STRONG}, {"level": kv.KV_LEVEL_BOUNDED, "max_lag_ms": 5}, {"max_lag_ms": 5})
        for level in levels:
            for call in (reader.get(b"k", at_token=whole, **level), reader.scan(at_time_ms=9, **level)):
                assert (await refused(call)).reason == "invalid_request"
        lone: dict[str, Any] = {"at_token": done.token}
        for call in (reader.scan(**lone), reader.get_many([b"%d" % number for number in range(40)], **lone)):
            found = await refused(call)
            assert (found.reason, "names no offset of partition" in found.message) == ("invalid_token", True)
        for limit in (-1, 10_001, LAST_MS):
            found = await refused(reader.history(b"k", limit=limit))
            assert (found.reason, "limit is 1 to 10000" in found.message) == ("invalid_request", True)
        assert (await refused(reader.history(b""))).reason == "invalid_key"
        assert (await refused(reader.history(b"k" * 512, at_time_ms=1))).reason == "invalid_key"
    for reader in clients:
        plain = reader.named(plain.table)
        state = await plain.end_token()
        asked: list[Coroutine[Any, Any, object]] = [
            plain.get(b"k", at_token=theirs),
            plain.get(b"k", at_time_ms=1),
            plain.get_many([b"k", b"l"], at_token=state),
            plain.scan(at_token=state),
            plain.scan(at_time_ms=1),
            plain.history(b"k"),
            plain.scan(at_token=theirs),
            plain.get_many([b"%d" % number for number in range(40)], at_token=theirs),
            *(plain.get(b"%d" % number, at_token=theirs) for number in range(6)),
            *(plain.history(b"%d" % number, at_token=theirs) for number in range(6)),
        ]
        for each in asked:
            found = await refused(each)
            assert (found.code, found.reason) == (INVALID, "invalid_request")
            assert "keeps no history" in found.message


async def test_a_state_that_is_not_kept_any_more(clients: list[KVClient], table_name: str) -> None:
    client = clients[0].named(f"{table_name}_short")
    await client.create_kept(KeptHistory(versions=2), partitions=1)
    done = [await client.put(b"k", b"%d" % number) for number in range(5)]
    early: dict[str, Any] = {"at_token": done[0].token}
    for reader in clients:
        client = reader.named(client.table)
        await client.get(b"k", after=done[-1].token)
        for call in (client.get(b"k", **early), client.get_many([b"k"], **early), client.scan(**early)):
            found = await refused(call)
            assert (found.code, found.reason) == (grpc.StatusCode.OUT_OF_RANGE, "history_gone")
            assert found.fields["earliest"] == "2"
        assert (await client.get(b"k", at_token=done[2].token)).value == b"2"
        assert [each.value for each in (await client.history(b"k")).versions] == [b"4", b"3", b"2"]
    await client.tables.Drop(tables.FindTableRequest(name=client.table), timeout=DEADLINE_S)
    await client.create_kept(ALL, partitions=1)
    found = await refused(client.get(b"k", **early))
    assert found.reason == "invalid_token"
