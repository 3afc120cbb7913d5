"""Calls of a server whose catalog has users: who is let in, method by method, and what a revocation ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import grpc
import pytest
from kit.clients.programs import ROOT
from kit.deadlines import patience_s, until_true
from kit.guarded_grpc import Guarded
from kit.resp.raw_client import Raw, RawError

from duramen.server.roles.all_in_one import SingleServer
from duramen.server.roles.guarding import ALL_RULES, UNGUARDED_SERVICES
from log_tier.access.authenticator import basic_header
from log_tier.model.errors import DuramenError, Overloaded, PermissionDenied, Unauthenticated
from log_tier.model.identifiers import AUDIT_TABLE
from log_tier.proto import cluster_pb2, cluster_pb2_grpc, log_pb2, log_pb2_grpc
from log_tier.rows.table_spec import TableSpec
from log_tier.rpc.problems import error_of_call
from log_tier.trust.trust_commands import (
    GrantRights,
    RemoveUser,
    RevokeRights,
    RevokeToken,
    SetQuota,
)
from router.endpoints.resp.server.sockets import RespSettings
from router.proto import admin_pb2, admin_pb2_grpc, kv_pb2, tables_pb2, tables_pb2_grpc

pytestmark = pytest.mark.embedded_log_only  # users in Kafka: test_users_service.py

PASSWORD = "correct horse battery"


@pytest.fixture
async def guarded(tmp_path: Path) -> AsyncIterator[Guarded]:
    server = await SingleServer.open(tmp_path / "data", port=0)
    made = Guarded(server)
    try:
        for name in ("orders", "ships"):
            await server.data_plane.create_table(TableSpec(name, 2), timeout=patience_s(30))
        await made.add_user("root", "admin *", "read,write *")
        yield made
    finally:
        await made.channel.close(None)
        await server.close()


def test_every_method_of_every_service_has_a_rule() -> None:
    """A new method without one would be for servers alone, and its author has to say for whom it is."""
    files = [path.relative_to(ROOT) for path in ROOT.glob("*/proto/*.proto")]
    names = [".".join(path.with_suffix("").parts) for path in files]
    names += [f"router.proto.{path.stem}" for path in (ROOT / "protos").rglob("*.proto")]
    assert len(names) > 10
    services = [
        service for name in names for service in import_module(f"{name}_pb2").DESCRIPTOR.services_by_name.values()
    ]
    methods = {f"/{service.full_name}/{method.name}" for service in services for method in service.methods}
    assert methods == set(ALL_RULES), "methods without a rule, or rules without a method"


async def test_nobody_is_let_in_once_there_is_a_user(guarded: Guarded) -> None:
    get = kv_pb2.KVGetRequest(table="orders", key=b"k")
    assert isinstance(await guarded.error(guarded.kv.Get(get)), Unauthenticated)
    assert await guarded.error(guarded.kv.Get(get, metadata=guarded.of("root"))) is None


@pytest.mark.parametrize(
    "header",
    [
        "Bearer dt1_000000000000_" + "0" * 64 + "_root",
        "Bearer nonsense",
        "Basic !!!",
        "Basic " + "A" * 5000,
        "Digest x",
        basic_header("root", PASSWORD),
        basic_header("nobody", PASSWORD),
        "",
    ],
)
async def test_a_proof_that_is_none_is_refused(guarded: Guarded, header: str) -> None:
    get = kv_pb2.KVGetRequest(table="orders", key=b"k")
    refusal = await guarded.error(guarded.kv.Get(get, metadata=(("authorization", header),)))
    assert isinstance(refusal, Unauthenticated), refusal


async def test_a_password_is_a_proof_and_wrong_ones_are_not(guarded: Guarded) -> None:
    await guarded.add_user("alice", "read orders", password=PASSWORD)
    get = kv_pb2.KVGetRequest(table="orders", key=b"k")

    async def refusal(header: str) -> str:
        error = await guarded.error(guarded.kv.Get(get, metadata=(("authorization", header),)))
        return "" if error is None else error.message

    for _ in range(2):  # the second time from memory
        assert await refusal(basic_header("alice", PASSWORD)) == ""
    assert await refusal(basic_header("alice", "wrong password")) == "there is no user 'alice' with this password"
    assert await refusal(basic_header("bob", "wrong password")) == "there is no user 'bob' with this password"
    assert await refusal(basic_header("alice", guarded.tokens["alice"].text)) == "", "a token does as a password"
    await guarded.submit(lambda seen: RemoveUser("alice", seen))
    assert await refusal(basic_header("alice", PASSWORD)) == "there is no user 'alice' with this password"


KEY, OTHER = b"eu:1", b"us:1"

CALLS: list[tuple[str, str, Callable[[bytes], Any]]] = [
    # method, the grant that is enough, a request about a key
    ("Get", "read orders --key eu:", lambda key: kv_pb2.KVGetRequest(table="orders", key=key)),
    ("GetMany", "read orders --key eu:", lambda key: kv_pb2.KVGetManyRequest(table="orders", keys=[KEY, key])),
    ("Put", "write orders --key eu:", lambda key: kv_pb2.KVPutRequest(table="orders", key=key, value=b"v")),
    ("Delete", "write orders --key eu:", lambda key: kv_pb2.KVDeleteRequest(table="orders", key=key)),
    ("Write", "write orders --key eu:", lambda key: group(kv_pb2.KVWrite(key=key, put=b"v"))),
    ("Put", "read,write orders --key eu:", lambda key: kv_pb2.KVPutRequest(table="orders", key=key, if_version=-1)),
    ("Update", "read,write orders --key eu:", lambda key: kv_pb2.KVUpdateRequest(table="orders", key=key, append=b"v")),
    ("Write", "read,write orders --key eu:", lambda key: group(kv_pb2.KVWrite(key=key, append=b"v"))),
    ("Write", "read,write orders --key eu:", lambda key: group(kv_pb2.KVWrite(key=key, put=b"v", if_absent=True))),
]


def group(write: kv_pb2.KVWrite) -> kv_pb2.KVWriteRequest:
    return kv_pb2.KVWriteRequest(table="orders", writes=[write])


@pytest.mark.parametrize(("method", "grant", "request_of"), CALLS, ids=[f"{c[0]} {c[1]}" for c in CALLS])
async def test_a_grant_covers_its_keys_and_no_others(
    guarded: Guarded, method: str, grant: str, request_of: Callable[[bytes], Any]
) -> None:
    await guarded.add_user("alice", grant)
    call = getattr(guarded.kv, method)
    assert await guarded.error(call(request_of(KEY), metadata=guarded.of("alice"))) is None
    refusal = await guarded.error(call(request_of(OTHER), metadata=guarded.of("alice")))
    assert isinstance(refusal, PermissionDenied), refusal
    assert "what is missing is" in refusal.message
    assert "--key us:1" in refusal.message
    # Each right is needed.
    rights, rest = grant.split(" ", 1)
    for number, right in enumerate(rights.split(",")):
        name = f"only{number}"
        await guarded.add_user(
            name, *(f"{other} {rest}" for other in ("read", "write", "admin") if other != right and (other != "admin"))
        )
        refusal = await guarded.error(call(request_of(KEY), metadata=guarded.of(name)))
        assert isinstance(refusal, PermissionDenied), f"{method} without {right}: {refusal}"


async def test_the_log_is_for_servers(guarded: Guarded) -> None:
    log: Any = log_pb2_grpc.LogStub(guarded.channel)  # type: ignore[no-untyped-call]
    refusal = await guarded.error(log.Topics(log_pb2.TopicsRequest(), metadata=guarded.of("root")))
    assert isinstance(refusal, PermissionDenied), refusal
    assert "a certificate of a server of this cluster" in refusal.message


async def test_tables_are_listed_to_those_who_see_them(guarded: Guarded) -> None:
    await guarded.add_user("alice", "read orders --key eu:")
    tables: Any = tables_pb2_grpc.TablesStub(guarded.channel)  # type: ignore[no-untyped-call]

    async def names(user: str) -> list[str]:
        reply = await tables.List(tables_pb2.ListTablesRequest(), metadata=guarded.of(user))
        # Root is shown the audit's table as well, from when it is made.
        return [table.name for table in reply.tables if table.name != AUDIT_TABLE]

    assert [await names("root"), await names("alice")] == [["orders", "ships"], ["orders"]]
    drop = tables_pb2.FindTableRequest(name="orders")
    assert isinstance(await guarded.error(tables.Drop(drop, metadata=guarded.of("alice"))), PermissionDenied)


async def test_the_cluster_is_for_its_administrators(guarded: Guarded) -> None:
    await guarded.add_user("alice", "read,write,admin orders")
    admin: Any = admin_pb2_grpc.AdminStub(guarded.channel)  # type: ignore[no-untyped-call]
    nodes = admin_pb2.AdminNodesRequest()
    assert isinstance(await guarded.error(admin.Nodes(nodes, metadata=guarded.of("alice"))), PermissionDenied)
    assert await guarded.error(admin.Nodes(nodes, metadata=guarded.of("root"))) is None
    drain = admin_pb2.AdminStartRequest(dry_run=True, drain=admin_pb2.AdminDrain(node="n1"))
    assert isinstance(await guarded.error(admin.Start(drain, metadata=guarded.of("alice"))), PermissionDenied)
    lag = admin_pb2.AdminTableRequest(table="orders")
    assert await guarded.error(admin.Lag(lag, metadata=guarded.of("alice"))) is None


@pytest.mark.parametrize("ending", ["grant", "token", "user", "expiry"])
async def test_an_open_watch_ends_with_what_allowed_it(guarded: Guarded, ending: str) -> None:
    await guarded.add_user("alice", "read,write orders")
    if ending == "expiry":
        now_ms = guarded.server.data_plane.node.clock.wall_ms()
        await guarded.add_token("alice", expires_ms=now_ms + 1500)
    watch = guarded.kv.Watch(kv_pb2.KVWatchRequest(table="orders"), metadata=guarded.of("alice"))
    await watch.read()
    other = guarded.kv.Watch(kv_pb2.KVWatchRequest(table="orders"), metadata=guarded.of("root"))
    await other.read()
    put = kv_pb2.KVPutRequest(table="orders", key=b"k", value=b"v")
    await guarded.kv.Put(put, metadata=guarded.of("root"))
    assert [change.key for change in (await watch.read()).changes] == [b"k"]
    if ending == "grant":
        await guarded.submit(lambda seen: RevokeRights("alice", seen, "read,write orders"))
    elif ending == "token":
        await guarded.submit(lambda seen: RevokeToken("alice", seen, guarded.tokens["alice"].id))
    elif ending == "user":
        await guarded.submit(lambda seen: RemoveUser("alice", seen))
    with pytest.raises(grpc.aio.AioRpcError) as ended:
        async with asyncio.timeout(patience_s(30)):
            await watch.read()
    error = error_of_call(ended.value, "the server")
    assert isinstance(error, PermissionDenied if ending == "grant" else Unauthenticated), error
    await guarded.kv.Put(put, metadata=guarded.of("root"))
    assert (await other.read()).changes, "the other watch goes on"
    other.cancel()


async def test_a_watch_of_nobody_ends_with_the_first_user(tmp_path: Path) -> None:
    server = await SingleServer.open(tmp_path / "data", port=0)
    guarded = Guarded(server)
    try:
        await server.data_plane.create_table(TableSpec("orders", 2), timeout=patience_s(30))
        watch = guarded.kv.Watch(kv_pb2.KVWatchRequest(table="orders"))
        await watch.read()
        await guarded.add_user("root", "admin *")
        with pytest.raises(grpc.aio.AioRpcError) as ended:
            async with asyncio.timeout(patience_s(30)):
                await watch.read()
        assert isinstance(error_of_call(ended.value, "the server"), Unauthenticated)
    finally:
        await guarded.channel.close(None)
        await server.close()


async def test_a_grant_counts_at_once(guarded: Guarded) -> None:
    await guarded.add_user("alice")
    get = kv_pb2.KVGetRequest(table="orders", key=b"k")
    for _ in range(20):
        assert isinstance(await guarded.error(guarded.kv.Get(get, metadata=guarded.of("alice"))), PermissionDenied)
        await guarded.submit(lambda seen: GrantRights("alice", seen, "read orders"))
        assert await guarded.error(guarded.kv.Get(get, metadata=guarded.of("alice"))) is None
        await guarded.submit(lambda seen: RevokeRights("alice", seen, "read orders"))


async def test_health_and_reflection_answer_everybody(guarded: Guarded) -> None:
    from grpc_health.v1 import health_pb2, health_pb2_grpc

    stub: Any = health_pb2_grpc.HealthStub(guarded.channel)
    assert (await stub.Check(health_pb2.HealthCheckRequest())).status == health_pb2.HealthCheckResponse.SERVING
    assert len(UNGUARDED_SERVICES) == 2, "every other service is guarded"


async def test_the_map_is_for_users(guarded: Guarded) -> None:
    await guarded.add_user("alice")
    cluster: Any = cluster_pb2_grpc.ClusterStub(guarded.channel)  # type: ignore[no-untyped-call]
    once = cluster_pb2.FollowRequest(once=True)
    view = await cluster.Follow(once, metadata=guarded.of("alice")).read()
    assert b"alice" not in view.SerializeToString(), "no user is in a map that is sent"
    with pytest.raises(grpc.aio.AioRpcError) as refusal:
        await cluster.Follow(once).read()
    assert isinstance(error_of_call(refusal.value, "the server"), Unauthenticated)


async def test_a_quota_of_calls_is_kept_for_one_user_and_not_for_another_one(guarded: Guarded) -> None:
    await guarded.add_user("alice", "read orders")
    await guarded.submit(lambda seen: SetQuota("user:alice", seen, calls_s=5))
    get = kv_pb2.KVGetRequest(table="orders", key=b"k")

    async def refusals(name: str) -> list[DuramenError]:
        calls = (guarded.error(guarded.kv.Get(get, metadata=guarded.of(name))) for _ in range(40))
        return [error for error in await asyncio.gather(*calls) if error is not None]

    refused = await refusals("alice")
    assert {type(error) for error in refused} == {Overloaded}
    assert len(refused) >= 20, "five, and what comes back while they are under way"
    assert "user:alice has a quota of 5 calls a second" in refused[0].message
    assert int(refused[0].fields["wait_ms"]) >= 1
    assert await refusals("root") == []


async def test_grpc_and_the_redis_protocol_take_of_one_quota(tmp_path: Path) -> None:
    server = await SingleServer.open(tmp_path / "data", port=0, resp_endpoint=RespSettings(port=0))
    guarded = Guarded(server)
    try:
        await server.data_plane.create_table(TableSpec("orders", 1), timeout=patience_s(30))
        await guarded.add_user("root", "admin *", "read,write *")
        await guarded.submit(lambda seen: SetQuota("user:root", seen, bytes_out_s=100))

        def ask() -> object:
            with Raw(("127.0.0.1", server.resp_port)) as raw:
                raw.call("AUTH", guarded.tokens["root"].text)
                return raw.call("ECHO", "e" * 5000)

        assert await asyncio.to_thread(ask) == b"e" * 5000, "one passes"
        get = kv_pb2.KVGetRequest(table="orders", key=b"k")
        refusal = await guarded.error(guarded.kv.Get(get, metadata=guarded.of("root")))
        assert isinstance(refusal, Overloaded), refusal
        assert "user:root has a quota of 100 bytes of replies a second" in refusal.message
        reply = await asyncio.to_thread(ask)
        assert isinstance(reply, RawError)
        assert reply.text.startswith("TRYAGAIN user:root has a quota of 100 bytes of replies a second")
    finally:
        await guarded.channel.close(None)
        await server.close()


async def test_a_quota_of_streams_is_free_again_when_they_end(guarded: Guarded) -> None:
    await guarded.submit(lambda seen: SetQuota("table:ord*", seen, watches=2))
    request = kv_pb2.KVWatchRequest(table="orders")
    watches = [guarded.kv.Watch(request, metadata=guarded.of("root")) for _ in range(2)]
    for watch in watches:
        await watch.read()
    refusal = await guarded.error(guarded.kv.Watch(request, metadata=guarded.of("root")).read())
    assert isinstance(refusal, Overloaded), refusal
    watches[0].cancel()

    async def is_let_in() -> bool:
        watch = guarded.kv.Watch(request, metadata=guarded.of("root"))
        try:
            return await guarded.error(watch.read()) is None
        finally:
            watch.cancel()

    await until_true(is_let_in)
    watches[1].cancel()


async def test_a_quota_of_replies_slows_down_a_watch(guarded: Guarded) -> None:
    """It gets everything; by processor and log it would take milliseconds."""
    await guarded.add_user("alice", "read orders")
    await guarded.submit(lambda seen: SetQuota("user:alice", seen, bytes_out_s=20_000))
    watch = guarded.kv.Watch(kv_pb2.KVWatchRequest(table="orders"), metadata=guarded.of("alice"))
    await watch.read()
    loop = asyncio.get_running_loop()
    begun = loop.time()
    for _ in range(6):
        put = kv_pb2.KVPutRequest(table="orders", key=b"k", value=b"v" * 10_000)
        await guarded.kv.Put(put, metadata=guarded.of("root"))
        assert len((await watch.read()).changes) == 1
    assert loop.time() - begun >= 1.0, "50 kB before the last one, at 20 kB a second, of which 20 kB were saved up"
    watch.cancel()
