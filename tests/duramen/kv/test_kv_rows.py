"""Tables with rows by `duramen.v1.KV`: keys and values as text, updates of fields, finds, the same at every role."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable
from dataclasses import replace
from typing import Any

import grpc
import pytest
from kit.clients.kv_servers import DEADLINE_S, KVClient, number, refusal_of, refused, taken
from kit.flight_rows import LATER_SCHEMA, UNNUMBERED_FLIGHTS, flight_key

from log_tier.rows.table_index import TableIndex
from router.proto import kv_pb2 as kv
from router.proto import tables_pb2 as tables
from router.remote.definitions import definition_message

JSON = kv.KV_FORM_JSON


def row(carrier: str, flight: int, tailnum: str | None = None, dep_delay: float = 0.0, **more: Any) -> bytes:
    fields = {"carrier": carrier, "flight": flight, "tailnum": tailnum, "dep_delay": dep_delay, **more}
    return json.dumps(fields, separators=(",", ":")).encode()


def key(carrier: str, flight: int) -> bytes:
    return json.dumps([carrier, flight], separators=(",", ":")).encode()


async def settled(call: Awaitable[Any]) -> str:
    """Why a call was refused; empty: it was not."""
    try:
        await call
    except grpc.aio.AioRpcError as failure:
        return refusal_of(failure).reason
    return ""


class RowClient(KVClient):
    """Calls on a table of flights, whose keys and values are text."""

    async def create_flights(self) -> None:
        definition = definition_message(UNNUMBERED_FLIGHTS)
        request = tables.CreateTableRequest(name=self.table, partitions=6, replicas=1, definition=definition)
        await self.tables.Create(request, timeout=DEADLINE_S)

    async def index(self, name: str, *fields: str) -> None:
        change = tables.IndexChange(name=name, fields=fields)
        await self.tables.Alter(tables.AlterTableRequest(name=self.table, index=change), timeout=DEADLINE_S)

    async def alter(self) -> None:
        request = tables.AlterTableRequest(name=self.table, avro=json.dumps(LATER_SCHEMA))
        await self.tables.Alter(request, timeout=DEADLINE_S)

    async def put_row(self, *fields: Any, **how: Any) -> kv.KVPutResponse:
        return await self.put(b"", row(*fields), form=JSON, **how)

    async def find(self, where: Any = None, **how: Any) -> list[kv.KVFindResponse]:
        text = "" if where is None else json.dumps(where)
        request = kv.KVFindRequest(table=self.table, where=text, **{"form": JSON, **how})
        return [message async for message in self.stub.Find(request, timeout=DEADLINE_S)]

    async def found(self, where: Any = None, **how: Any) -> list[tuple[str, int]]:
        pages = await self.find(where, **how)
        return [tuple(json.loads(entry.key)) for page in pages for entry in page.entries]


@pytest.fixture
async def clients(ports: list[int], table_name: str) -> AsyncIterator[list[RowClient]]:
    made = [RowClient(port, f"{table_name}_rows") for port in ports]
    await made[0].create_flights()
    yield made
    for client in made:
        await client.channel.close(None)


@pytest.fixture
def client(clients: list[RowClient]) -> RowClient:
    return clients[0]


class TestKeysAndValues:
    async def test_a_row_at_every_server(self, clients: list[RowClient]) -> None:
        for at, writer in enumerate(clients):
            for flight in range(8):
                done = await writer.put(key("UA", flight), row("UA", flight, f"N{at}"), form=JSON)
                for reader in clients:
                    found = await reader.get(key("UA", flight), form=JSON, after=done.token)
                    assert (found.value, found.version) == (row("UA", flight, f"N{at}"), done.version)

    async def test_the_row_has_its_key(self, client: RowClient) -> None:
        done = await client.put_row("UA", 1545, "N14228", 2.5)
        assert (await client.get(key("UA", 1545), form=JSON, after=done.token)).value == row("UA", 1545, "N14228", 2.5)
        stored = await client.get(flight_key("UA", 1545), after=done.token)
        assert stored.value[:5] != row("UA", 1545)[:5], "the stored form is what other programs' deserializers read"
        assert await client.put(flight_key("UA", 1545), stored.value, if_version=stored.version)

    async def test_what_does_not_fit_is_refused_before_it_leaves(self, client: RowClient) -> None:
        end = await client.end_token()
        for given, reason, words in (
            (
                client.put(key("UA", 1), b'{"carrier":"UA","flight":"x","dep_delay":0}', form=JSON),
                "invalid_row",
                "flight",
            ),
            (client.put(key("UA", 2), row("UA", 1), form=JSON), "invalid_row", "make both alike"),
            (client.put(b"UA", row("UA", 1), form=JSON), "invalid_key", "list"),
            (client.put(b'["UA"]', row("UA", 1), form=JSON), "invalid_key", "fields carrier, flight"),
            (client.get(b"{", form=JSON), "invalid_key", "JSON"),
            (client.delete(b'["UA",1.5]', form=JSON), "invalid_key", "flight"),
            (client.put(key("UA", 1), row("UA", 1), form=7), "invalid_request", "KV_FORM_JSON"),
        ):
            found = await refused(given)
            assert (found.code, found.reason) == (grpc.StatusCode.INVALID_ARGUMENT, reason), found
            assert words in found.message
        assert await client.end_token() == end, "nothing was written"

    async def test_conditions_and_deletes(self, client: RowClient) -> None:
        first = await client.put_row("UA", 1, if_absent=True)
        assert (await refused(client.put_row("UA", 1, if_absent=True))).reason == "condition_failed"
        second = await client.put_row("UA", 1, "N1", if_version=first.version)
        deleted = await client.delete(key("UA", 1), if_version=second.version, form=JSON)
        assert not (await client.get(key("UA", 1), form=JSON, after=deleted.token)).HasField("value")

    async def test_many_and_a_group(self, client: RowClient) -> None:
        keys = [key("UA", flight) for flight in range(20)]
        writes = [kv.KVWrite(put=row("UA", flight)) for flight in range(10)]
        done = await client.write(*writes, kv.KVWrite(key=keys[0], delete=True), form=JSON)
        found = await client.get_many(keys, form=JSON, after=done.token)
        assert [entry.key for entry in found.entries] == keys
        assert [entry.value for entry in found.entries if entry.HasField("value")] == [
            row("UA", flight) for flight in range(1, 10)
        ]

    async def test_a_value_that_one_row_has_alone(self, client: RowClient, ports: list[int]) -> None:
        alone = RowClient(ports[-1], f"{client.table}_alone")
        index = TableIndex(1, "by_tail", ("carrier", "tailnum"), unique=True)
        definition = definition_message(replace(UNNUMBERED_FLIGHTS, indexes=(index,)))
        request = tables.CreateTableRequest(name=alone.table, partitions=3, replicas=1, definition=definition)
        await alone.tables.Create(request, timeout=DEADLINE_S)
        others = [RowClient(port, alone.table) for port in ports]
        await alone.put_row("UA", 1, "N1")
        for other in others:
            refusal = await refused(other.put_row("UA", 2, "N1"))
            assert (refusal.code, refusal.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "unique_violation")
            assert (refusal.fields["index"], refusal.fields["row"]) == ("by_tail", '["UA",1]')
        write = [kv.KVWrite(put=row("UA", 3)), kv.KVWrite(put=row("UA", 4, "N1"))]
        assert (await refused(alone.write(*write, form=JSON))).reason == "unique_violation"
        assert not (await alone.get(key("UA", 3), form=JSON, level=kv.KV_LEVEL_STRONG)).HasField("value")
        again = tables.IndexChange(name="by_tail", fields=["carrier", "tailnum"], unique=True)
        found = await alone.tables.Alter(tables.AlterTableRequest(name=alone.table, index=again), timeout=DEADLINE_S)
        assert [each.unique for each in found.indexes] == [True]
        later = tables.IndexChange(name="later", fields=["carrier", "tailnum"], unique=True)
        asked = alone.tables.Alter(tables.AlterTableRequest(name=alone.table, index=later), timeout=DEADLINE_S)
        assert (await refused(asked)).reason == "invalid_schema"
        wanted = [each.put_row("UA", 10 + at, "N9") for at, each in enumerate([alone, *others] * 4)]
        found = await asyncio.gather(*map(settled, wanted))
        assert found.count("") == 1, "of callers at all servers at once one has the value"
        assert found.count("unique_violation") == len(wanted) - 1
        for each in (alone, *others):
            await each.channel.close(None)

    async def test_a_table_of_bytes_is_as_it_is(self, client: RowClient, ports: list[int]) -> None:
        plain = KVClient(ports[0], f"{client.table}_bytes")
        await plain.create()
        done = await plain.put(b"\xff{", b"\x00", form=JSON)
        assert (await plain.get(b"\xff{", form=JSON, after=done.token)).value == b"\x00"
        request = kv.KVFindRequest(table=plain.table)
        refusal = await refused(plain.stub.Find(request, timeout=DEADLINE_S).read())
        assert (refusal.code, refusal.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "invalid_request")
        await plain.channel.close(None)


class TestUpdates:
    async def test_fields(self, client: RowClient) -> None:
        await client.put_row("UA", 7, None, 1.0)
        patch = b'{"set":{"tailnum":"N7"},"add":{"dep_delay":1.5}}'
        done = await client.update(key("UA", 7), patch=patch, form=JSON)
        found = await client.get(key("UA", 7), form=JSON, after=done.token)
        assert (found.value, found.version) == (row("UA", 7, "N7", 2.5), done.version)
        assert done.value == b""

    async def test_two_at_once_both_count(self, clients: list[RowClient]) -> None:
        await clients[0].put_row("UA", 7, None, 0.0)
        patch = b'{"add":{"dep_delay":1}}'
        every = [each.update(key("UA", 7), patch=patch, form=JSON) for each in clients for _ in range(10)]
        await asyncio.gather(*every)
        found = await clients[0].get(key("UA", 7), form=JSON, level=kv.KV_LEVEL_STRONG)
        assert json.loads(found.value)["dep_delay"] == len(every)

    @pytest.mark.parametrize(
        "patch",
        [
            b"",
            b"{",
            b"[]",
            b'{"set":1}',
            b'{"set":{}}',
            b'{"put":{"tailnum":"x"}}',
            b'{"set":{"carrier":"AA"}}',
            b'{"set":{"gate":"x"}}',
            b'{"add":{"tailnum":1}}',
            b'{"set":{"tailnum":"a"},"set":{"tailnum":"b"}}',
        ],
    )
    async def test_a_wrong_patch(self, client: RowClient, patch: bytes) -> None:
        done = await client.put_row("UA", 1)
        found = await refused(client.update(key("UA", 1), patch=patch, form=JSON))
        assert found.code == grpc.StatusCode.INVALID_ARGUMENT, found
        assert (await client.get(key("UA", 1), form=JSON, after=done.token)).version == done.version

    async def test_stored_bytes_that_are_no_patch_change_nothing(self, client: RowClient) -> None:
        done = await client.put_row("UA", 1)
        for patch in (b"", b"\0", b"\0\0\0\0\1junk", b"\xff" * 40):
            assert (await refused(client.update(flight_key("UA", 1), patch=patch))).code in (
                grpc.StatusCode.INVALID_ARGUMENT,
                grpc.StatusCode.FAILED_PRECONDITION,
            )
        assert (await client.get(key("UA", 1), form=JSON, level=kv.KV_LEVEL_STRONG)).version == done.version

    async def test_numbers_are_for_bytes(self, client: RowClient) -> None:
        await client.put_row("UA", 1)
        found = await refused(client.update(key("UA", 1), add=number(1), form=JSON))
        assert (found.reason, "patch" in found.message) == ("invalid_request", True)

    async def test_in_a_group(self, client: RowClient) -> None:
        writes = (kv.KVWrite(put=row("UA", 1)), kv.KVWrite(key=key("UA", 1), patch=b'{"set":{"tailnum":"N1"}}'))
        done = await client.write(*writes, form=JSON)
        found = await client.get(key("UA", 1), form=JSON, after=done.token)
        assert (found.value, found.version) == (row("UA", 1, "N1"), done.results[1].version)


class TestStreams:
    async def test_scans_by_the_first_fields(self, client: RowClient) -> None:
        token = ""
        for carrier in ("AA", "UA"):
            for flight in range(6):
                token = (await client.put_row(carrier, flight, after=token)).token

        async def scanned(**how: Any) -> list[tuple[str, int]]:
            pages = await client.scan(form=JSON, after=token, **how)
            return [tuple(json.loads(entry.key)) for page in pages for entry in page.entries]

        assert await scanned() == [(carrier, flight) for carrier in ("AA", "UA") for flight in range(6)]
        assert await scanned(prefix=b'["UA"]') == [("UA", flight) for flight in range(6)]
        assert await scanned(start=b'["UA",4]') == [("UA", 4), ("UA", 5)]
        assert await scanned(end=b'["UA"]', reverse=True, limit=2) == [("AA", 5), ("AA", 4)]
        assert await scanned(start_after=key("AA", 4), limit=2) == [("AA", 5), ("UA", 0)]
        assert await scanned(prefix=b'["UA"]', start_after=key("UA", 3)) == [("UA", 4), ("UA", 5)]
        assert (await refused(client.scan(form=JSON, start=b'["UA"]', start_after=key("UA", 3)))).code == (
            grpc.StatusCode.INVALID_ARGUMENT
        )

    async def test_a_watch(self, client: RowClient) -> None:
        call = client.watch(form=JSON)
        await call.read()
        await client.put_row("UA", 7)
        await client.update(key("UA", 7), patch=b'{"add":{"dep_delay":1}}', form=JSON)
        await client.delete(key("UA", 7), form=JSON)
        changes, _ = await taken(call, 3)
        call.cancel()
        assert [(each.operation, each.key, each.value) for each in changes] == [
            (kv.KV_OPERATION_PUT, key("UA", 7), row("UA", 7)),
            (kv.KV_OPERATION_PATCH, key("UA", 7), b'{"add":{"dep_delay":1.0}}'),
            (kv.KV_OPERATION_DELETE, key("UA", 7), b""),
        ]

    async def test_large_rows_fit_messages_that_clients_take(self, client: RowClient) -> None:
        """The text of a row may be many times its bytes."""
        tail = "\x01" * 100_000  # six characters each as JSON
        for flight in range(12):
            await client.put_row("UA", flight, tail)
        pages = await client.scan(form=JSON, level=kv.KV_LEVEL_STRONG)
        assert sum(len(page.entries) for page in pages) == 12
        assert max(page.ByteSize() for page in pages) < 4 << 20, (
            "what clients take unless they are configured otherwise"
        )
        call = client.watch(form=JSON, start=kv.KV_WATCH_START_EARLIEST)
        changes, _ = await taken(call, 12)
        call.cancel()
        assert all(json.loads(each.value)["tailnum"] == tail for each in changes)


class TestNewerSchemas:
    async def test_a_server_that_has_not_heard_of_it(self, clients: list[RowClient]) -> None:
        writer, reader = clients[0], clients[-1]
        before = await writer.put_row("UA", 1)
        watch = reader.watch(form=JSON)
        await watch.read()
        await writer.alter()
        done = await writer.put(b"", row("UA", 2, gate="B7"), form=JSON)
        found = await reader.get(key("UA", 2), form=JSON, after=done.token)
        assert json.loads(found.value)["gate"] == "B7"
        old = await reader.get(key("UA", 1), form=JSON, after=before.token)
        assert json.loads(old.value)["gate"] == "-", "an old row has the newer schema's default"
        again = await reader.put(b"", row("UA", 3, gate="C1"), form=JSON)
        assert again.version >= 0
        rows = await reader.found({"carrier": "UA"}, level=kv.KV_LEVEL_STRONG)
        assert rows == [("UA", 1), ("UA", 2), ("UA", 3)]
        changes, _ = await taken(watch, 2 + 6)
        watch.cancel()
        rows_seen = [json.loads(each.value) for each in changes if each.operation == kv.KV_OPERATION_PUT]
        assert [each["gate"] for each in rows_seen] == ["B7", "C1"]
        barriers = [each.key for each in changes if each.operation == kv.KV_OPERATION_BARRIER]
        assert barriers == [b""] * 6, "one for each partition"


class TestFinds:
    async def test_by_an_index_with_the_token_of_a_put(self, clients: list[RowClient]) -> None:
        await clients[0].index("by_tail", "tailnum", "dep_delay")
        token = ""
        for flight in range(12):
            tail = "N1" if flight % 3 else None
            token = (await clients[flight % len(clients)].put_row("UA", flight, tail, float(flight), after=token)).token
        for client in clients:
            pages = await client.find({"tailnum": "N1"}, order=["-dep_delay"], limit=3, after=token)
            assert [json.loads(each.value)["flight"] for page in pages for each in page.entries] == [11, 10, 8]
            assert pages[0].index == "by_tail"
            assert await client.found({"tailnum": "N1", "dep_delay": [4, 8]}, after=token) == [
                ("UA", 4),
                ("UA", 5),
                ("UA", 7),
            ]
            assert [flight for _, flight in await client.found({"tailnum": None}, after=token)] == [0, 3, 6, 9]
            assert await client.found({"tailnum": "N1", "flight": 5}, after=token) == [("UA", 5)]

    async def test_by_the_key_and_in_the_stored_form(self, client: RowClient) -> None:
        done = await client.put_row("UA", 7)
        pages = await client.find({"carrier": "UA"}, after=done.token, form=kv.KV_FORM_STORED)
        assert [(each.key, each.version) for page in pages for each in page.entries] == [
            (flight_key("UA", 7), done.version)
        ]
        assert pages[0].index == ""
        (page,) = await client.find({"carrier": "nobody"}, after=done.token)
        assert (len(page.entries), page.token != "") == (0, True)

    async def test_an_index_that_came_meanwhile_is_found_at_every_server(self, clients: list[RowClient]) -> None:
        await clients[0].put_row("UA", 1, "N1")
        found = await refused(clients[-1].find({"tailnum": "N1"}))
        assert (found.reason, "no index serves this" in found.message) == ("invalid_request", True)
        await clients[0].index("by_tail", "tailnum")
        for client in clients:
            assert await client.found({"tailnum": "N1"}, level=kv.KV_LEVEL_STRONG) == [("UA", 1)]

    @pytest.mark.parametrize(
        "where",
        [
            '{"tailnum"',
            "[]",
            '{"carrier":"UA","carrier":"AA"}',
            '{"carrier":7}',
            '{"nothing":1}',
            '{"carrier":["A"]}',
            '{"dep_delay":NaN}',
            '{"carrier":["B","A"]}',
            "[" * 20_000,
            '{"a":"' + "x" * 70_000 + '"}',
        ],
    )
    async def test_wrong_conditions(self, client: RowClient, where: str) -> None:
        call = client.stub.Find(kv.KVFindRequest(table=client.table, where=where), timeout=DEADLINE_S)
        assert (await refused(call.read())).code == grpc.StatusCode.INVALID_ARGUMENT

    async def test_of_no_such_order(self, client: RowClient) -> None:
        for how in ({"order": ["dep_delay"]}, {"order": ["-carrier", "flight"]}, {"order": ["a"] * 17}, {"limit": -1}):
            assert (await refused(client.find({"carrier": "UA"}, **how))).code == grpc.StatusCode.INVALID_ARGUMENT
