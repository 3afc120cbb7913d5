"""What a server with users notes in `_duramen_audit`: each kind of event gives its row, and no row has a secret."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest
from kit.client.audited_server import AuditedCalls, audit_rows, audited_server
from kit.deadlines import patience_s, until, until_true, within

from duramen.server.roles.log_role import LogRole
from duramen.server.roles.node_role import NodeRole
from duramen.testing.embedded.database_machine import DatabaseMachine
from log_tier.access.authenticator import basic_header
from log_tier.audit.audit_queue import REFUSED_KEYS_PER_S
from log_tier.audit.audit_settings import AuditSettings
from log_tier.model.batch import Columns, encode_batch
from log_tier.model.errors import CommandRejected, InvalidName, PermissionDenied, Unauthenticated
from log_tier.model.identifiers import AUDIT_TABLE, table_id_to_bytes
from log_tier.rows.table_spec import TableSpec
from log_tier.trust.trust_commands import RevokeRights
from router.data.requests import ScanRequest
from router.proto import admin_pb2, keyvalue_pb2, kv_pb2, tables_pb2

PASSWORD = "correct horse battery"
GET = kv_pb2.KVGetRequest(table="orders", key=b"eu:1")


@pytest.fixture
async def calls(tmp_path: Path) -> AsyncIterator[AuditedCalls]:
    settings = AuditSettings.parse(["orders:read", "ship*:write"])
    async with audited_server(tmp_path / "data", audit=replace(settings, window_s=0.05)) as (_, made):
        await made.add_user("root", "admin *", "read,write *", "read _duramen_audit")
        yield made


async def test_logins(calls: AuditedCalls) -> None:
    await calls.add_user("alice", "read orders", password=PASSWORD)
    basic = (("authorization", basic_header("alice", PASSWORD)),)
    for _ in range(3):
        assert await calls.error(calls.kv.Get(GET, metadata=basic)) is None
    (login,) = await calls.until_rows(kind="login", user="alice")
    assert (login["result"], login["proof"], login["address"], login["count"]) == (
        "allowed",
        "password",
        "127.0.0.1",
        1,
    )
    assert await calls.error(calls.kv.Get(GET, metadata=calls.of("alice"))) is None
    (login,) = await calls.until_rows(kind="login", user="alice", proof="token")
    assert login["credential"] == calls.tokens["alice"].id
    # Wrong ones: with a name that is a user's, and with one that may be a password.
    for name, shown in (("alice", "alice"), ("my secret typed as a name", "")):
        wrong = (("authorization", basic_header(name, "wrong password")),)
        assert isinstance(await calls.error(calls.kv.Get(GET, metadata=wrong)), Unauthenticated)
        (refused,) = await calls.until_rows(kind="login", result="refused", user=shown)
        assert refused["proof"] == "nothing"


async def test_refused_calls(calls: AuditedCalls) -> None:
    await calls.add_user("alice", "read orders --key eu:")
    await until(lambda: calls.catalog.map.named(AUDIT_TABLE) is not None)
    put = kv_pb2.KVPutRequest(table="orders", key=b"us:1", value=b"v")
    assert isinstance(await calls.error(calls.kv.Put(put, metadata=calls.of("alice"))), PermissionDenied)
    (row,) = await calls.until_rows(user="alice", result="refused")
    assert (row["kind"], row["table"], row["key"], row["action"]) == ("write", "orders", "us:1", "KV/Put")
    assert row["detail"] == "what is missing is 'write orders --key us:1'"
    assert row["version"] == calls.catalog.map.version
    assert isinstance(await calls.error(calls.kv.Get(GET)), Unauthenticated)
    (row,) = await calls.until_rows(user="", result="refused")
    assert (row["kind"], row["action"], row["table"], row["address"]) == ("read", "KV/Get", "orders", "127.0.0.1")
    drain = admin_pb2.AdminStartRequest(drain=admin_pb2.AdminDrain(node="n1"))
    assert isinstance(await calls.error(calls.admin.Start(drain, metadata=calls.of("alice"))), PermissionDenied)
    (row,) = await calls.until_rows(user="alice", kind="admin")
    assert (row["result"], row["action"], row["offset"]) == ("refused", "Admin/Start", -1)


async def test_commands_have_their_arguments_and_the_catalogs_offset(calls: AuditedCalls) -> None:
    # The first row creates the audit's own table: from here on nobody else writes to the catalog.
    await calls.error(calls.admin.Nodes(admin_pb2.AdminNodesRequest(), metadata=calls.of("root")))
    assert await calls.until_rows(action="Admin/Nodes", kind="admin", result="done")
    create = tables_pb2.CreateTableRequest(name="cars", partitions=2)
    assert await calls.error(calls.tables.Create(create, metadata=calls.of("root"))) is None
    (row,) = await calls.until_rows(action="Tables/Create")
    assert (row["kind"], row["result"], row["table"], row["user"]) == ("admin", "done", "cars", "root")
    assert row["detail"] == "name=cars partitions=2"
    assert row["version"] < row["offset"] == calls.catalog.map.version
    assert await calls.error(calls.tables.Create(create, metadata=calls.of("root"))) is not None
    (row,) = await calls.until_rows(action="Tables/Create", result="failed")
    drop = tables_pb2.FindTableRequest(name="cars")
    assert await calls.error(calls.tables.Drop(drop, metadata=calls.of("root"))) is None
    assert await calls.until_rows(action="Tables/Drop", result="done", table="cars")


async def test_reads_and_writes_of_chosen_tables(calls: AuditedCalls) -> None:
    of_root = calls.of("root")
    assert await calls.error(calls.kv.Get(GET, metadata=of_root)) is None
    many = kv_pb2.KVGetManyRequest(table="orders", keys=[b"eu:1", b"eu:22", b"eu:2"])
    assert await calls.error(calls.kv.GetMany(many, metadata=of_root)) is None
    for table in ("orders", "ships"):
        put = kv_pb2.KVPutRequest(table=table, key=b"k", value=b"v")
        assert await calls.error(calls.kv.Put(put, metadata=of_root)) is None
    ask = kv_pb2.KVGetRequest(table="ships", key=b"k")
    assert await calls.error(calls.kv.Get(ask, metadata=of_root)) is None
    assert await calls.until_rows(kind="write", table="ships", key="k", action="KV/Put")
    reads = await calls.rows(kind="read", result="allowed")
    assert [(row["table"], row["key"]) for row in reads] == [("orders", "eu:1"), ("orders", "eu:")]
    assert not await calls.rows(kind="write", table="orders"), "not chosen"


async def test_a_stream_that_a_revocation_ends(calls: AuditedCalls) -> None:
    await calls.add_user("alice", "read orders")
    watch = calls.kv.Watch(kv_pb2.KVWatchRequest(table="orders"), metadata=calls.of("alice"))
    await watch.read()
    await calls.submit(lambda seen: RevokeRights("alice", seen, "read orders"))
    with pytest.raises(grpc.aio.AioRpcError):
        async with within(30):
            await watch.read()
    (row,) = await calls.until_rows(user="alice", result="ended")
    assert (row["action"], row["table"], row["kind"]) == ("KV/Watch", "orders", "read")


async def test_a_flood_makes_few_rows(tmp_path: Path) -> None:
    async with audited_server(tmp_path / "data") as (_, calls):
        await calls.add_user("root", "admin *")
        await calls.add_user("alice", "read ships")
        begun = asyncio.get_running_loop().time()
        for number in range(300):
            get = kv_pb2.KVGetRequest(table="orders", key=b"%d" % number)
            await asyncio.gather(
                calls.error(calls.kv.Get(get)), calls.error(calls.kv.Get(get, metadata=calls.of("alice")))
            )
        seconds = asyncio.get_running_loop().time() - begun

        async def all_counted() -> bool:
            return sum(int(row["count"]) for row in await calls.rows(result="refused")) == 600

        await until_true(all_counted)
        rows = await calls.rows(result="refused")
        assert len(rows) <= 2 * (REFUSED_KEYS_PER_S + 1) * (seconds + 2), f"{len(rows)} rows in {seconds:.1f} s"
        for row in rows:
            assert bool(row["key"]) == (row["count"] == 1), f"a row of several keys names none: {row}"


async def test_refused_calls_on_two_keys_are_two_rows(calls: AuditedCalls) -> None:
    """Also where they come within a second: each row names what was refused."""
    await calls.add_user("alice", "read orders")
    for key in (b"ZZ:0", b"UA:1"):
        delete = kv_pb2.KVDeleteRequest(table="orders", key=key)
        assert isinstance(await calls.error(calls.kv.Delete(delete, metadata=calls.of("alice"))), PermissionDenied)
    rows = await calls.until_rows(2, user="alice", result="refused")
    assert [(row["action"], row["table"], row["key"], row["count"]) for row in rows] == [
        ("KV/Delete", "orders", "ZZ:0", 1),
        ("KV/Delete", "orders", "UA:1", 1),
    ]


async def test_no_secret_is_in_any_row(calls: AuditedCalls) -> None:
    await calls.add_user("alice", "read orders", password=PASSWORD)
    secret = calls.tokens["alice"].text
    wrong = secret.replace("_alice", "_root")
    headers = [
        f"Bearer {secret}",
        f"Bearer {wrong}",
        f"Bearer {secret[:-1]}",
        basic_header("alice", PASSWORD),
        basic_header(PASSWORD, PASSWORD),
        basic_header("alice", secret),
        basic_header("root", PASSWORD),
    ]
    for header in headers:
        await calls.error(calls.kv.Get(GET, metadata=(("authorization", header),)))
        url = f"s3://AKIA:{PASSWORD}@bucket/x"
        stage = admin_pb2.AdminStartRequest(stage=admin_pb2.AdminStage(table="orders", url=url))
        await calls.error(calls.admin.Start(stage, metadata=(("authorization", header),)))
    stage = admin_pb2.AdminStartRequest(stage=admin_pb2.AdminStage(table="orders", url=f"s3://A:{PASSWORD}@b/x"))
    await calls.error(calls.admin.Start(stage, metadata=calls.of("root")))
    await calls.until_rows(user="root", action="Admin/Start")
    text = json.dumps(await calls.rows())
    user = calls.catalog.map.trust.users["alice"]
    for hidden in (PASSWORD, secret, secret.split("_")[2], user.password, user.tokens[0].sha256):
        assert hidden not in text
    assert "Admin/Start" in text


async def test_nobody_writes_or_deletes_there(calls: AuditedCalls) -> None:
    """Through every method that changes something, by the user who may do everything that can be granted."""
    await calls.until_rows(0)
    await until(lambda: calls.catalog.map.named(AUDIT_TABLE) is not None)
    table = calls.catalog.map.find(AUDIT_TABLE)
    of_root = calls.of("root")
    name = AUDIT_TABLE
    kv, tables, admin = calls.kv, calls.tables, calls.admin
    start = admin_pb2.AdminStartRequest
    attempts: list[tuple[Any, Any]] = [
        (kv.Put, kv_pb2.KVPutRequest(table=name, key=b"k", value=b"v")),
        (kv.Delete, kv_pb2.KVDeleteRequest(table=name, key=b"k")),
        (kv.Update, kv_pb2.KVUpdateRequest(table=name, key=b"k", append=b"v")),
        (kv.Write, kv_pb2.KVWriteRequest(table=name, writes=[kv_pb2.KVWrite(key=b"k", put=b"v")])),
        (tables.Create, tables_pb2.CreateTableRequest(name=name, partitions=1)),
        (tables.Create, tables_pb2.CreateTableRequest(name="_duramen_other", partitions=1)),
        (tables.Drop, tables_pb2.FindTableRequest(name=name)),
        (tables.SetRetention, tables_pb2.SetRetentionRequest(name=name, retention_ms=1)),
        (admin.SetRetention, admin_pb2.AdminSetRetentionRequest(table=name, retention_ms=1)),
        (admin.Start, start(clear=admin_pb2.AdminClear(table=name))),
        (admin.Start, start(trim=admin_pb2.AdminTrim(table=name))),
        (admin.Start, start(compact=admin_pb2.AdminCompact(table=name))),
        (admin.Start, start(stage=admin_pb2.AdminStage(table=name, url="/tmp/x"))),
        (admin.Start, start(swap=admin_pb2.AdminSwap(table=name))),
        (admin.Start, start(rollback=admin_pb2.AdminRollback(table=name))),
        (admin.Start, start(discard=admin_pb2.AdminDiscard(table=name))),
        (admin.Start, start(set_replicas=admin_pb2.AdminSetReplicas(table=name, replicas=1))),
        (admin.Start, start(restore_table=admin_pb2.AdminRestoreTable(table="orders", target=name, time_ms=1))),
        (admin.Start, start(restore_table=admin_pb2.AdminRestoreTable(table=name, target="mine", time_ms=1))),
    ]
    part = keyvalue_pb2.WritePart(table_id=table_id_to_bytes(table.id), batch=_batch())
    attempts.append((calls.key_value.Write, keyvalue_pb2.WriteRequest(parts=[part])))
    for method, request in attempts:
        error = await calls.error(method(request, metadata=of_root))
        assert isinstance(error, PermissionDenied), f"{request}: {error!r}"
        assert isinstance(await calls.error(method(request)), Unauthenticated)
    # Those of all tables do not touch its rows.
    rows = await calls.until_rows(user="root", result="refused")
    for request in (start(trim=admin_pb2.AdminTrim()), start(compact=admin_pb2.AdminCompact())):
        await calls.error(admin.Start(request, metadata=of_root))
    every = await calls.until_rows(user="root", action="Admin/Start", kind="admin", detail="trim")
    assert every
    assert [row for row in await calls.rows(user="root", result="refused") if row in rows] == rows
    for forbidden in (f"write {name}", f"read,write {name}", f"admin {name}", "write _duramen*"):
        with pytest.raises(CommandRejected, match="can be read only"):
            await calls.add_user("mallory", forbidden)
    with pytest.raises(InvalidName):
        await calls.connection.drop_table(name, timeout=patience_s(30))
    with pytest.raises(InvalidName):
        await calls.connection.set_retention(name, ms=1, size=None, timeout=patience_s(30))


def _batch() -> bytes:
    return encode_batch(Columns([b"k"], [b"v"]))


async def test_only_a_grant_on_it_shows_it(calls: AuditedCalls) -> None:
    await calls.add_user("eve", "read *", "admin *")
    scan = kv_pb2.KVScanRequest(table=AUDIT_TABLE)
    await until(lambda: calls.catalog.map.named(AUDIT_TABLE) is not None)
    with pytest.raises(grpc.aio.AioRpcError) as refusal:
        await calls.kv.Scan(scan, metadata=calls.of("eve")).read()
    assert refusal.value.code() == grpc.StatusCode.PERMISSION_DENIED
    await calls.until_rows(user="eve", result="refused", table=AUDIT_TABLE)
    page = await calls.kv.Scan(scan, metadata=calls.of("root")).read()
    assert page.entries


async def test_nothing_is_noted_before_there_is_a_user(tmp_path: Path) -> None:
    async with audited_server(tmp_path / "data", audit=AuditSettings.parse(["*:read,write"])) as (server, calls):
        put = kv_pb2.KVPutRequest(table="orders", key=b"k", value=b"v")
        assert await calls.error(calls.kv.Put(put)) is None
        assert await calls.error(calls.admin.Nodes(admin_pb2.AdminNodesRequest())) is None
        with pytest.raises(InvalidName):
            TableSpec(AUDIT_TABLE, 1)
        create = tables_pb2.CreateTableRequest(name=AUDIT_TABLE, partitions=1)
        refused = await calls.error(calls.tables.Create(create))
        assert isinstance(refused, InvalidName), "the name is kept free"
        with pytest.raises(CommandRejected, match="there is no user"):
            await server.data_plane.create_table(TableSpec(AUDIT_TABLE, 1, of_servers=True), timeout=patience_s(30))
        assert AUDIT_TABLE not in [table.name for table in await server.data_plane.list_tables(timeout=30)]
        await calls.add_user("root", "admin *", "read,write *")
        await until(lambda: calls.catalog.map.named(AUDIT_TABLE) is not None)
        await calls.error(calls.kv.Get(GET, metadata=calls.of("root")))
        rows = await calls.until_rows(2)
        assert [row["kind"] for row in rows] == ["login", "read"]


async def test_a_clean_stop_writes_what_is_left_and_a_restart_keeps_it(tmp_path: Path) -> None:
    async with audited_server(tmp_path / "data") as (_, calls):
        await calls.add_user("root", "admin *")
        assert isinstance(await calls.error(calls.kv.Get(GET)), Unauthenticated)
    for number in range(2):
        async with audited_server(tmp_path / "data") as (_, calls):
            rows = await calls.rows(result="refused")
            assert [row["count"] for row in rows] == [1] * (number + 1)
            assert isinstance(await calls.error(calls.kv.Get(GET)), Unauthenticated)


@pytest.mark.embedded_log_only
async def test_a_full_disk_loses_nothing_that_the_queue_holds(caplog: pytest.LogCaptureFixture) -> None:
    machine = DatabaseMachine(1)
    try:
        quick = AuditSettings(window_s=0.05)
        async with audited_server(machine.folder / "data", audit=quick, machine=machine.parts) as (_, calls):
            await calls.add_user("root", "admin *", "read orders")
            await calls.add_user("alice", "read orders")
            await calls.until_rows(0)
            await until(lambda: calls.catalog.map.named(AUDIT_TABLE) is not None)
            machine.faults.disk_full()
            for user in ("alice", "root"):
                put = kv_pb2.KVPutRequest(table="ships", key=b"k", value=b"v")
                assert isinstance(await calls.error(calls.kv.Put(put, metadata=calls.of(user))), PermissionDenied)
            assert isinstance(await calls.error(calls.kv.Get(GET)), Unauthenticated)
            await until(lambda: "the audit cannot be written" in caplog.text)
            assert await calls.rows(result="refused") == []
            machine.faults.disk_has_room()
            rows = await calls.until_rows(3, result="refused")
            assert sorted(row["user"] for row in rows) == ["", "alice", "root"]
            await until(lambda: "the audit is written again: 0 events were lost" in caplog.text)
    finally:
        machine.close()


async def test_what_the_queue_has_no_room_for_is_counted(tmp_path: Path) -> None:
    async with audited_server(tmp_path / "data", audit=AuditSettings.parse(["orders:read"])) as (server, calls):
        await calls.add_user("root", "admin *", "read orders")
        await until(lambda: calls.catalog.map.named(AUDIT_TABLE) is not None)
        queue = server.access.audit.queue
        queue._rows_max = 5
        for number in range(20):
            get = kv_pb2.KVGetRequest(table="orders", key=b"%d" % number)
            assert await calls.error(calls.kv.Get(get, metadata=calls.of("root"))) is None
        await until(lambda: len(queue) == 0)
        rows = await calls.until_rows(1, kind="lost")
        assert sum(row["count"] for row in rows) == queue.lost > 0
        reads = await calls.rows(kind="read", result="allowed")
        assert sum(row["count"] for row in reads) + queue.lost + len(await calls.rows(kind="login")) == 21


async def test_rows_expire(tmp_path: Path) -> None:
    settings = AuditSettings.parse(days=3 / 86_400)
    async with audited_server(tmp_path / "data", audit=settings) as (server, calls):
        await calls.add_user("root", "admin *")
        assert isinstance(await calls.error(calls.kv.Get(GET)), Unauthenticated)
        await calls.until_rows(result="refused")

        first = (await calls.rows(result="refused"))[0]

        async def is_gone() -> bool:
            await calls.error(calls.kv.Get(GET))
            return first not in await calls.rows(result="refused")

        await until_true(is_gone)
        found = server.data_plane.catalog.map.find(AUDIT_TABLE)
        assert found.retention_ms == 3000


@pytest.mark.embedded_log_only
async def test_two_servers_of_a_cluster_write_at_once(tmp_path: Path) -> None:
    """They race for the table; one wins, and both write to it."""
    log = await LogRole.open(tmp_path / "log", host="127.0.0.1", port=0)
    nodes: list[NodeRole] = []
    try:
        for name in ("n1", "n2"):
            url = f"grpc://127.0.0.1:{log.port}"
            nodes.append(await NodeRole.open(tmp_path / name, node_id=name, log_url=url, host="127.0.0.1", port=0))
        users = AuditedCalls(nodes[0].port, nodes[0].data_plane.catalog, nodes[0].data_plane)
        others = AuditedCalls(nodes[1].port, nodes[1].data_plane.catalog, nodes[1].data_plane)
        await users.add_user("root", "admin *", "read *")
        for number in range(5):
            for calls in (users, others):
                get = kv_pb2.KVGetRequest(table=f"t{number}", key=b"k")
                assert isinstance(await calls.error(calls.kv.Get(get)), Unauthenticated)

        async def all_there() -> bool:
            # Nodes without certificates refuse each other as well.
            rows = [row for row in await audit_rows(nodes[0].data_plane) if row["action"] == "KV/Get"]
            return [sum(row["count"] for row in rows if row["server"] == name) for name in ("n1", "n2")] == [5, 5]

        await until_true(all_there)
        for calls in (users, others):
            await calls.channel.close(None)
        table = nodes[1].data_plane.catalog.map.find(AUDIT_TABLE)
        assert len(table.assignments[0]) == 2, "it has replicas as other tables"
        page = await nodes[1].data_plane.scan(ScanRequest(table.id, strong=True), timeout=patience_s(30))
        assert list(page.keys) == sorted(page.keys)
    finally:
        for node in reversed(nodes):
            await node.close()
        await log.close()
