"""A user learns of those tables alone in which a grant gives it a right: by lists, maps, status streams and errors."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from kit.deadlines import patience_s, until, until_true
from kit.flight_rows import FLIGHTS, UNNUMBERED_FLIGHTS
from kit.resp.raw_client import Raw, RawError

from duramen.server.roles.all_in_one import SingleServer
from log_tier.access.authenticator import bearer_header
from log_tier.access.tokens import mint_token
from log_tier.catalog.cluster_map import ClusterMap, SnapshotEntry
from log_tier.catalog.commands import AddSnapshot
from log_tier.catalog.map_json import map_from_json
from log_tier.model.batch import Columns, encode_batch
from log_tier.model.errors import DuramenError, PermissionDenied, TableNotFound, Unauthenticated
from log_tier.model.identifiers import AUDIT_TABLE, Offset, Partition, table_id_from_bytes, table_id_to_bytes
from log_tier.proto import cluster_pb2, cluster_pb2_grpc, log_pb2, log_pb2_grpc
from log_tier.rows.table_spec import TableSpec
from log_tier.rpc.problems import error_of_call
from log_tier.trust.trust_commands import AddToken, AddUser, GrantRights, RevokeRights
from router.endpoints.resp.server.sockets import RespSettings
from router.proto import (
    admin_pb2,
    admin_pb2_grpc,
    keyvalue_pb2,
    keyvalue_pb2_grpc,
    kv_pb2,
    kv_pb2_grpc,
    tables_pb2,
    tables_pb2_grpc,
)
from serving_tier.proto import node_pb2, node_pb2_grpc

pytestmark = pytest.mark.embedded_log_only  # users in Kafka: test_users_service.py

TABLES = ("orders", "orders-old", "secret")

SLOW_S = 60


class Shop:
    """A server with three tables and users, and what they call it by."""

    def __init__(self, server: SingleServer) -> None:
        self.server = server
        self.catalog = server.data_plane.catalog
        self.tokens: dict[str, str] = {}
        channel = self.channel = grpc.aio.insecure_channel(f"127.0.0.1:{server.port}")
        self.tables: Any = tables_pb2_grpc.TablesStub(channel)  # type: ignore[no-untyped-call]
        self.cluster: Any = cluster_pb2_grpc.ClusterStub(channel)  # type: ignore[no-untyped-call]
        self.node: Any = node_pb2_grpc.NodeStub(channel)  # type: ignore[no-untyped-call]
        self.keyvalue: Any = keyvalue_pb2_grpc.KeyValueStub(channel)  # type: ignore[no-untyped-call]
        self.log: Any = log_pb2_grpc.LogStub(channel)  # type: ignore[no-untyped-call]
        self.admin: Any = admin_pb2_grpc.AdminStub(channel)  # type: ignore[no-untyped-call]

    async def add_user(self, name: str, *grants: str) -> None:
        token = mint_token(name)
        await self.catalog.submit(AddUser(name, self.catalog.map.version, "", grants))
        await self.catalog.submit(AddToken(name, self.catalog.map.version, token.id, token.sha256, 0))
        self.tokens[name] = token.text

    async def grant(self, to: str, grant: str) -> None:
        await self.catalog.submit(GrantRights(to, self.catalog.map.version, grant))

    async def revoke(self, to: str, grant: str) -> None:
        await self.catalog.submit(RevokeRights(to, self.catalog.map.version, grant))

    def of(self, name: str) -> tuple[tuple[str, str], ...]:
        return (("authorization", bearer_header(self.tokens[name])),) if name else ()

    async def id_of(self, name: str) -> bytes:
        return table_id_to_bytes((await self.server.data_plane.find_table(name, timeout=patience_s(30))).id)

    async def listed(self, name: str) -> set[str]:
        reply = await self.tables.List(tables_pb2.ListTablesRequest(), metadata=self.of(name))
        return {each.name for each in reply.tables}

    async def mapped(self, name: str) -> ClusterMap:
        call = self.cluster.Follow(cluster_pb2.FollowRequest(once=True), metadata=self.of(name))
        return map_from_json((await call.read()).map)

    async def status_of(self, name: str) -> set[str]:
        """The tables of whose replicas the node's status says something."""
        call = self.node.Status(node_pb2.StatusRequest(once=True), metadata=self.of(name))
        names = {each.id: each.name for each in self.catalog.map.tables.values()}
        return {names[table_id_from_bytes(each.table_id)] for each in (await call.read()).replicas}

    async def document_of(self, name: str) -> set[str]:
        """The tables of which the server's status document says something."""
        reply = await self.cluster.Status(cluster_pb2.ServerStatusRequest(), metadata=self.of(name))
        hidden = [each.encode() for each in TABLES if f'"table":"{each}"'.encode() not in reply.status]
        assert not any(b'"%s' % each in reply.status for each in hidden), "a table that is not shown is named"
        return {each["table"] for each in json.loads(reply.status)["partitions"]}

    async def slow_of(self, name: str) -> set[str]:
        """The tables of whose slow calls the server says something."""
        reply = await self.cluster.SlowCalls(cluster_pb2.SlowCallsRequest(), metadata=self.of(name))
        return {each["table"] for each in json.loads(reply.slow_calls)["calls"]}

    def call_slowly(self) -> None:
        """A call on each table has taken more than a minute, as no other call does here, on any machine."""
        slow = self.server.access.slow
        for each in TABLES:
            put = kv_pb2.KVPutRequest(table=each, key=b"eu:1")
            slow.called("/duramen.v1.KV/Put", put, "ipv4:10.0.0.9:4000", slow.now_s() - 2 * SLOW_S, "done")


async def failure(call: Any) -> DuramenError:
    """How a call fails. A stream's first reply is waited for."""
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await (call.read() if isinstance(call, grpc.aio.UnaryStreamCall) else call)
    return error_of_call(raised.value, "the server")


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[Shop]:
    server = await SingleServer.open(folder, port=0, resp_endpoint=RespSettings(port=0), slow_call_ms=SLOW_S * 1000)
    made = Shop(server)
    try:
        for name in TABLES:
            await server.data_plane.create_table(TableSpec(name, 2), timeout=patience_s(30))
        yield made
    finally:
        await made.channel.close(None)
        await server.close()


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Shop]:
    async with opened(tmp_path / "data") as made:
        await made.add_user("root", "admin *", "read *")
        await until(lambda: made.catalog.map.named(AUDIT_TABLE) is not None)
        yield made


GRANTED: dict[str, tuple[tuple[str, ...], set[str]]] = {
    "nothing": ((), set()),
    "a-key-to-read": (("read orders --key eu:",), {"orders"}),
    "a-key-to-write": (("write orders --key eu:",), {"orders"}),
    "admin-of-one": (("admin secret",), {"secret"}),
    "a-prefix": (("read orders*",), {"orders", "orders-old"}),
    "all-tables": (("read *",), set(TABLES)),
    "the-audit": (("read _duramen*",), {AUDIT_TABLE}),
    "cluster-admin": (("admin *",), {*TABLES, AUDIT_TABLE}),
}


async def test_a_map_has_the_schemas_of_shown_tables_alone(shop: Shop) -> None:
    spec = TableSpec("flights", 1, definition=UNNUMBERED_FLIGHTS)
    await shop.server.data_plane.create_table(spec, timeout=patience_s(30))
    await shop.add_user("flyer", "read flights --key UA")
    await shop.add_user("seller", "write orders")
    assert dict((await shop.mapped("flyer")).schemas) == {1: FLIGHTS.schemas[0].schema.text}
    assert dict((await shop.mapped("seller")).schemas) == {}
    assert dict((await shop.mapped("root")).schemas) == {1: FLIGHTS.schemas[0].schema.text}


@pytest.mark.parametrize("name", GRANTED)
async def test_what_is_shown_follows_from_any_grant(shop: Shop, name: str) -> None:
    grants, expected = GRANTED[name]
    await shop.add_user(name, *grants)
    assert await shop.listed(name) == expected
    cluster = await shop.mapped(name)
    assert {table.name for table in cluster.tables.values()} == expected
    assert cluster.version >= 0
    assert len(cluster.nodes) == 1, "who may connect learns where the nodes are"
    assert await shop.status_of(name) == expected
    assert await shop.document_of(name) == expected
    shop.call_slowly()
    assert await shop.slow_of(name) == expected - {AUDIT_TABLE}


async def test_slow_calls_of_two_users(shop: Shop) -> None:
    await shop.add_user("reader", "read orders --key eu:")
    await shop.add_user("writer", "write orders")
    await shop.grant("writer", "read secret --key us:")
    shop.call_slowly()

    async def calls_of(name: str) -> list[tuple[Any, ...]]:
        reply = await shop.cluster.SlowCalls(cluster_pb2.SlowCallsRequest(count=10), metadata=shop.of(name))
        calls = json.loads(reply.slow_calls)["calls"]
        return [(each["table"], each["key"], each["peer"]) for each in calls]

    assert await calls_of("reader") == [("orders", "eu:1", None)]
    assert set(await calls_of("writer")) == {("orders", None, None), ("secret", None, None)}
    assert len(await calls_of("root")) == len(TABLES)
    assert ("secret", "eu:1", "10.0.0.9:4000") in await calls_of("root")
    assert isinstance(await failure(shop.cluster.SlowCalls(cluster_pb2.SlowCallsRequest())), Unauthenticated)


async def test_without_users_everything_is_shown(tmp_path: Path) -> None:
    async with opened(tmp_path / "data") as shop:
        assert await shop.listed("") == set(TABLES)
        assert {table.name for table in (await shop.mapped("")).tables.values()} == set(TABLES)
        assert await shop.status_of("") == set(TABLES)
        error = await failure(shop.tables.Find(tables_pb2.FindTableRequest(name="none")))
        assert "orders" in error.message, "and an error names them"


async def test_an_open_map_shows_what_is_granted_and_hides_what_is_revoked(shop: Shop) -> None:
    await shop.add_user("alice", "read orders")
    call = shop.cluster.Follow(cluster_pb2.FollowRequest(), metadata=shop.of("alice"))

    async def check_shown(expected: set[str]) -> None:
        async with asyncio.timeout(patience_s(30)):
            while {table.name for table in map_from_json((await call.read()).map).tables.values()} != expected:
                pass

    await check_shown({"orders"})
    await shop.grant("alice", "write secret --key eu:")
    await check_shown({"orders", "secret"})
    await shop.revoke("alice", "read orders")
    await check_shown({"secret"})
    call.cancel()


async def test_an_open_status_shows_what_is_granted_and_takes_back_what_is_revoked(shop: Shop) -> None:
    await shop.add_user("alice", "read orders")
    names = {each.id: each.name for each in shop.catalog.map.tables.values()}
    known: set[str] = set()
    call = shop.node.Status(node_pb2.StatusRequest(), metadata=shop.of("alice"))

    async def check_known(expected: set[str]) -> None:
        async with asyncio.timeout(patience_s(30)):
            while known != expected:
                message = await call.read()
                known.update(names[table_id_from_bytes(each.table_id)] for each in message.replicas)
                known.difference_update(names[table_id_from_bytes(each.table_id)] for each in message.gone)

    await check_known({"orders"})
    await shop.grant("alice", "read secret")
    await check_known({"orders", "secret"})
    await shop.revoke("alice", "read orders")
    await check_known({"secret"})
    await shop.grant("alice", "admin *")
    await check_known({*TABLES, AUDIT_TABLE})
    await shop.revoke("alice", "admin *")
    await check_known({"secret"})
    call.cancel()


def _read(table_id: bytes) -> Any:
    return keyvalue_pb2.ReadRequest(parts=[keyvalue_pb2.ReadPart(table_id=table_id, keys=[b"k"])])


def _write(table_id: bytes) -> Any:
    batch = encode_batch(Columns((b"k",), (b"v",)))
    return keyvalue_pb2.WriteRequest(parts=[keyvalue_pb2.WritePart(table_id=table_id, batch=batch)])


CALLS_BY_ID: dict[str, Callable[[Shop, bytes], tuple[Any, Any]]] = {
    "read": lambda shop, id_: (shop.keyvalue.Read, _read(id_)),
    "write": lambda shop, id_: (shop.keyvalue.Write, _write(id_)),
    "scan": lambda shop, id_: (shop.keyvalue.Scan, keyvalue_pb2.ScanRequest(table_id=id_, limit=1)),
    "watch": lambda shop, id_: (shop.keyvalue.Watch, keyvalue_pb2.WatchRequest(table_id=id_)),
    "producer": lambda shop, id_: (shop.keyvalue.Producer, keyvalue_pb2.ProducerRequest(table_id=id_, producer_id=1)),
    "copy": lambda shop, id_: (shop.node.Copy, node_pb2.CopyRequest(table_id=id_)),
    "log read": lambda shop, id_: (shop.log.Read, log_pb2.LogReadRequest(topic_id=id_)),
    "log bounds": lambda shop, id_: (shop.log.Bounds, log_pb2.BoundsRequest(topic_id=id_)),
}


@pytest.mark.parametrize("call", CALLS_BY_ID)
async def test_an_id_that_is_not_shown_is_answered_as_one_that_is_not_there(shop: Shop, call: str) -> None:
    await shop.add_user("alice", "read,write orders")
    secret, none = await shop.id_of("secret"), bytes(range(16))
    said = []
    for table_id in (secret, none):
        method, request = CALLS_BY_ID[call](shop, table_id)
        error = await failure(method(request, metadata=shop.of("alice")))
        assert type(error) is PermissionDenied, f"{call} of {table_id.hex()}: {error!r}"
        said.append(error.message.replace(str(table_id_from_bytes(table_id)), "ID").partition(" at version")[0])
        assert "secret" not in error.message
    assert said[0] == said[1], "the words tell whether the table is there"


async def test_a_name_that_is_not_shown_is_answered_as_one_that_is_not_there(shop: Shop) -> None:
    await shop.add_user("alice", "read orders", "admin lost*")
    said = []
    for name in ("secret", "no-such"):
        find = shop.tables.Find(tables_pb2.FindTableRequest(name=name), metadata=shop.of("alice"))
        error = await failure(find)
        assert type(error) is PermissionDenied
        said.append(error.message.replace(name, "NAME"))
    assert said[0] == said[1]


async def test_an_error_about_a_table_names_no_others(shop: Shop) -> None:
    """Alice may have a table of that name, and there is none."""
    await shop.add_user("alice", "read,admin lost")
    for call in (
        shop.tables.Find(tables_pb2.FindTableRequest(name="lost"), metadata=shop.of("alice")),
        shop.tables.Drop(tables_pb2.FindTableRequest(name="lost"), metadata=shop.of("alice")),
        shop.admin.Partitions(admin_pb2.AdminTableRequest(table="lost"), metadata=shop.of("alice")),
    ):
        error = await failure(call)
        assert type(error) is TableNotFound, error
        assert not any(name in error.message for name in TABLES), error.message


async def test_who_was_shown_a_table_learns_that_it_was_dropped(shop: Shop) -> None:
    for name, grant in (("alice", "read orders"), ("bob", "read secret")):
        await shop.add_user(name, grant)
    table_id = await shop.id_of("orders")
    await shop.server.data_plane.drop_table("orders", timeout=patience_s(30))
    for name, expected in (("alice", TableNotFound), ("root", TableNotFound), ("bob", PermissionDenied)):
        error = await failure(shop.keyvalue.Scan(keyvalue_pb2.ScanRequest(table_id=table_id), metadata=shop.of(name)))
        assert type(error) is expected, name


async def test_the_redis_protocol_answers_an_id_that_is_not_shown_as_one_that_is_not_there(shop: Shop) -> None:
    await shop.add_user("alice", "read,write orders")
    secret = str(table_id_from_bytes(await shop.id_of("secret")))
    none = str(table_id_from_bytes(bytes(range(16))))

    def answers() -> list[str]:
        said = []
        with Raw(("127.0.0.1", shop.server.resp_port)) as raw:
            raw.call("AUTH", "alice", shop.tokens["alice"])
            for table_id in (secret, none):
                reply = raw.call("DURAMEN.AWAIT", table_id, "0", "0")
                assert isinstance(reply, RawError), reply
                said.append(str(reply).replace(table_id, "ID"))
        return said

    said = await asyncio.to_thread(answers)
    assert said[0] == said[1], "the words tell whether the table is there"
    assert "NOPERM" in said[0], said


@pytest.mark.parametrize(
    ("grant", "counts"),
    [
        ("read,write orders --key eu:", False),
        ("write orders", False),
        ("read orders", True),
        ("admin ord*", True),
    ],
)
async def test_how_many_keys_there_are_learns_who_may_read_all_of_them(shop: Shop, grant: str, counts: bool) -> None:
    """Or who administers the table: a grant on some keys shows no number of the others, nor their size."""
    await shop.add_user("writer", "write orders")
    put = kv_pb2.KVPutRequest(table="orders", key=b"us:1", value=b"v")
    done = await kv_pb2_grpc.KVStub(shop.channel).Put(put, metadata=shop.of("writer"))  # type: ignore[no-untyped-call]
    assert done.token
    await shop.add_user("clerk", grant)
    orders = await shop.id_of("orders")
    table = table_id_from_bytes(orders)
    snapshot = SnapshotEntry("s1", table, Partition(0), Offset(0), 0, keys=1, bytes=1, path="s1", node="single")
    await shop.catalog.submit(AddSnapshot(snapshot))

    async def counted(name: str) -> dict[str, tuple[int, int]]:
        described = await shop.tables.Describe(tables_pb2.FindTableRequest(name="orders"), metadata=shop.of(name))
        status = await shop.node.Status(node_pb2.StatusRequest(once=True), metadata=shop.of(name)).read()
        replicas = [each for each in status.replicas if each.table_id == orders]
        assert len(replicas) == len(described.partitions) > 0
        return {
            "described": (
                sum(each.keys for each in described.partitions),
                sum(each.index_bytes for each in described.partitions),
            ),
            "status": (sum(each.keys for each in replicas), sum(each.bytes for each in replicas)),
        }

    async def is_applied() -> bool:
        return (await counted("root"))["described"][0] == 1

    await until_true(is_applied)
    for keys, size in (await counted("clerk")).values():
        assert (keys == 1, size > 0) == (counts, counts)
    snapshots = (await shop.mapped("clerk")).snapshots.values()
    assert [each.keys for taken in snapshots for each in taken] == [1] * counts
