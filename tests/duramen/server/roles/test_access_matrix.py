"""Every method of every gRPC service, called by everybody there can be.

What a method needs stands here once more, in a few words, and not in the words of the rules that the server uses. A
method that is not here fails the test.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import grpc
from kit.deadlines import patience_s, until

from duramen.server.roles.all_in_one import SingleServer
from duramen.server.roles.guarding import ALL_RULES
from log_tier.access.authenticator import basic_header, bearer_header
from log_tier.access.tokens import MintedToken, mint_token
from log_tier.model.batch import Columns, encode_batch
from log_tier.model.identifiers import table_id_to_bytes
from log_tier.model.record import Operation, attribute_of
from log_tier.proto import cluster_pb2, log_pb2
from log_tier.rows.table_spec import TableSpec
from log_tier.trust.trust_commands import AddToken, AddUser, RevokeToken
from router.endpoints.resp.server.sockets import RespSettings
from router.proto import admin_pb2 as admin
from router.proto import console_pb2 as console
from router.proto import keyvalue_pb2 as keyvalue
from router.proto import kv_pb2 as kv
from router.proto import resp_endpoint_pb2
from router.proto import tables_pb2 as tables
from router.proto import users_pb2 as users
from serving_tier.proto import node_pb2

KEY: Final = b"eu:1"
TABLE: Final = "orders"
JSON: Final = kv.KV_FORM_JSON


class Row(NamedTuple):
    """A call, and what it needs: `read`, `write` or both `of` a key, a table; or to be of a kind."""

    method: str
    needs: str
    request: Callable[[bytes], Any]
    """Of the table's id."""


def batch(*attributes: int) -> bytes:
    return encode_batch(Columns((KEY,), (b"1",), attributes or None))


def write_of(encoded: bytes) -> Callable[[bytes], Any]:
    return lambda table_id: keyvalue.WriteRequest(parts=[keyvalue.WritePart(table_id=table_id, batch=encoded)])


def append_of(encoded: bytes) -> Callable[[bytes], Any]:
    return lambda table_id: log_pb2.AppendRequest(topic_id=table_id, batch=encoded)


def start(**change: Any) -> Callable[[bytes], Any]:
    return lambda _: admin.AdminStartRequest(dry_run=True, **change)


ROWS: Final = [
    Row("KV/Put", "write of key", lambda _: kv.KVPutRequest(table=TABLE, key=KEY)),
    Row("KV/Put", "read,write of key", lambda _: kv.KVPutRequest(table=TABLE, key=KEY, if_present=True)),
    Row("KV/Get", "read of key", lambda _: kv.KVGetRequest(table=TABLE, key=KEY)),
    Row("KV/GetMany", "read of key", lambda _: kv.KVGetManyRequest(table=TABLE, keys=[KEY])),
    Row("KV/History", "read of key", lambda _: kv.KVHistoryRequest(table=TABLE, key=KEY)),
    Row("KV/Delete", "write of key", lambda _: kv.KVDeleteRequest(table=TABLE, key=KEY)),
    Row("KV/Delete", "read,write of key", lambda _: kv.KVDeleteRequest(table=TABLE, key=KEY, if_version=3)),
    Row("KV/Update", "read,write of key", lambda _: kv.KVUpdateRequest(table=TABLE, key=KEY, append=b"v")),
    Row("KV/Write", "write of key", lambda _: kv.KVWriteRequest(table=TABLE, writes=[kv.KVWrite(key=KEY, put=b"")])),
    Row("KV/Scan", "read of key", lambda _: kv.KVScanRequest(table=TABLE, prefix=b"eu:")),
    Row("KV/Scan", "read of key", lambda _: kv.KVScanRequest(table=TABLE, start=b"eu:1", end=b"eu:9")),
    Row("KV/Scan", "read of table", lambda _: kv.KVScanRequest(table=TABLE)),
    Row("KV/Scan", "read of table", lambda _: kv.KVScanRequest(table=TABLE, at_time_ms=1)),
    Row("KV/Scan", "read of key", lambda _: kv.KVScanRequest(table=TABLE, prefix=b"eu:", at_time_ms=1)),
    Row("KV/Scan", "read of key", lambda _: kv.KVScanRequest(table=TABLE, start_after=b"eu:1", end=b"eu:9")),
    Row("KV/Watch", "read of table", lambda _: kv.KVWatchRequest(table=TABLE)),
    Row("KV/Find", "read of table", lambda _: kv.KVFindRequest(table=TABLE)),
    # Of keys as text nobody knows the prefix that is stored.
    Row("KV/Get", "read of table", lambda _: kv.KVGetRequest(table=TABLE, key=KEY, form=JSON)),
    Row("KV/GetMany", "read of table", lambda _: kv.KVGetManyRequest(table=TABLE, keys=[KEY], form=JSON)),
    Row("KV/History", "read of table", lambda _: kv.KVHistoryRequest(table=TABLE, key=KEY, form=JSON)),
    Row("KV/Put", "write of table", lambda _: kv.KVPutRequest(table=TABLE, key=KEY, value=b"v", form=JSON)),
    Row("KV/Delete", "write of table", lambda _: kv.KVDeleteRequest(table=TABLE, key=KEY, form=JSON)),
    Row("KV/Update", "read,write of table", lambda _: kv.KVUpdateRequest(table=TABLE, key=KEY, append=b"v", form=JSON)),
    Row(
        "KV/Write",
        "read,write of table",
        lambda _: kv.KVWriteRequest(table=TABLE, writes=[kv.KVWrite(key=KEY, put=b"", if_absent=True)], form=JSON),
    ),
    Row("KV/Scan", "read of table", lambda _: kv.KVScanRequest(table=TABLE, prefix=b"eu:", form=JSON)),
    Row("KV/EndToken", "some of table", lambda _: kv.KVEndTokenRequest(table=TABLE)),
    Row(
        "KeyValue/Read",
        "read of key",
        lambda id_: keyvalue.ReadRequest(parts=[keyvalue.ReadPart(table_id=id_, keys=[KEY])]),
    ),
    Row("KeyValue/Write", "write of key", write_of(batch())),
    Row("KeyValue/Write", "read,write of key", write_of(batch(attribute_of(Operation.APPEND)))),
    Row("KeyValue/Scan", "read of table", lambda id_: keyvalue.ScanRequest(table_id=id_, limit=1)),
    Row("KeyValue/Scan", "read of key", lambda id_: keyvalue.ScanRequest(table_id=id_, start=b"eu:", end=b"eu:9")),
    Row(
        "KeyValue/Scan",
        "read of table",
        lambda id_: keyvalue.ScanRequest(table_id=id_, start=b"eu:", end=b"eu:9", index="a"),
    ),
    Row(
        "KeyValue/Scan",
        "read of table",
        lambda id_: keyvalue.ScanRequest(table_id=id_, limit=1, search=keyvalue.TextSearch(index="w", query="fog")),
    ),
    Row("KeyValue/Watch", "read of table", lambda id_: keyvalue.WatchRequest(table_id=id_)),
    Row("KeyValue/Producer", "some of table", lambda id_: keyvalue.ProducerRequest(table_id=id_, producer_id=1)),
    Row(
        "KeyValue/Outcomes",
        "read,write of table",
        lambda id_: keyvalue.OutcomesRequest(parts=[keyvalue.OutcomesPart(table_id=id_, span=1)]),
    ),
    Row("Console/Get", "read of key", lambda _: console.ConsoleGetRequest(table=TABLE, key=KEY)),
    Row("Console/Get", "read of table", lambda _: console.ConsoleGetRequest(table=TABLE, key_fields='["eu:7"]')),
    Row("Console/Scan", "read of key", lambda _: console.ConsoleScanRequest(table=TABLE, prefix=b"eu:")),
    Row("Console/Scan", "read of key", lambda _: console.ConsoleScanRequest(table=TABLE, start=b"eu:1", end=b"eu:9")),
    Row("Console/Scan", "read of table", lambda _: console.ConsoleScanRequest(table=TABLE)),
    Row("Console/Find", "read of table", lambda _: console.ConsoleFindRequest(table=TABLE)),
    Row("Console/Records", "read of table", lambda _: console.ConsoleRecordsRequest(table=TABLE)),
    Row("Tables/Create", "admin of table", lambda _: tables.CreateTableRequest(name=TABLE, partitions=1)),
    Row("Tables/Find", "some of table", lambda _: tables.FindTableRequest(name=TABLE)),
    Row("Tables/List", "user", lambda _: tables.ListTablesRequest()),
    Row("Tables/Definition", "some of table", lambda id_: tables.DefinitionRequest(table_id=id_)),
    Row("Tables/Describe", "some of table", lambda _: tables.FindTableRequest(name=TABLE)),
    Row("Tables/Alter", "admin of table", lambda _: tables.AlterTableRequest(name=TABLE)),
    Row("Tables/SetRetention", "admin of table", lambda _: tables.SetRetentionRequest(name=TABLE)),
    Row("Tables/Drop", "admin of table", lambda _: tables.FindTableRequest(name=TABLE)),
    Row("Cluster/Follow", "user", lambda _: cluster_pb2.FollowRequest(once=True)),
    Row("Cluster/Status", "user", lambda _: cluster_pb2.ServerStatusRequest()),
    Row("Cluster/SlowCalls", "user", lambda _: cluster_pb2.SlowCallsRequest()),
    Row("Node/Status", "user", lambda _: node_pb2.StatusRequest(once=True)),
    Row("Node/Copy", "read of table", lambda id_: node_pb2.CopyRequest(table_id=id_)),
    Row("Node/Digest", "admin", lambda id_: node_pb2.DigestRequest(table_id=id_)),
    Row("Node/Tally", "admin", lambda id_: node_pb2.TallyRequest(table_id=id_)),
    Row("Node/Voids", "read of table", lambda id_: node_pb2.VoidsRequest(table_id=id_)),
    Row("RespEndpoint/Describe", "user", lambda _: resp_endpoint_pb2.DescribeRespEndpointRequest()),
    Row("Admin/Nodes", "admin", lambda _: admin.AdminNodesRequest()),
    Row("Admin/Partitions", "admin of table", lambda _: admin.AdminTableRequest(table=TABLE)),
    Row("Admin/Partitions", "admin", lambda _: admin.AdminTableRequest()),
    Row("Admin/Lag", "admin of table", lambda _: admin.AdminTableRequest(table=TABLE)),
    Row("Admin/Snapshots", "admin of table", lambda _: admin.AdminTableRequest(table=TABLE)),
    Row("Admin/Versions", "admin of table", lambda _: admin.AdminTableRequest(table=TABLE)),
    Row("Admin/Explain", "read,admin of table", lambda _: admin.AdminExplainRequest(table=TABLE, key=KEY)),
    Row("Admin/Verify", "admin of table", lambda _: admin.AdminVerifyRequest(table=TABLE)),
    Row("Admin/AuditData", "admin of table", lambda _: admin.AdminAuditDataRequest(table=TABLE)),
    Row("Admin/NoteAudit", "admin of table", lambda _: admin.AdminNoteAuditRequest(table=TABLE)),
    Row("Admin/Start", "admin", start(drain=admin.AdminDrain(node="n1"))),
    Row("Admin/Start", "admin", start(take_snapshots=admin.AdminTakeSnapshots())),
    Row("Admin/Start", "admin of table", start(take_snapshots=admin.AdminTakeSnapshots(table=TABLE))),
    Row("Admin/Start", "admin of table", start(clear=admin.AdminClear(table=TABLE))),
    Row("Admin/Start", "admin", start(move=admin.AdminMove(table=TABLE, source="n1", target="n2"))),
    Row("Admin/Start", "admin", start(retire=admin.AdminRetire(node="n1"))),
    Row("Admin/Start", "admin", start(rebalance=admin.AdminRebalance())),
    Row("Admin/Start", "admin", start(automate=admin.AdminAutomate(what="heal"))),
    Row("Admin/Start", "admin", start(restore_node=admin.AdminRestoreNode(node="n1"))),
    Row("Admin/Start", "admin of table", start(set_replicas=admin.AdminSetReplicas(table=TABLE, replicas=1))),
    Row("Admin/Start", "admin of table", start(trim=admin.AdminTrim(table=TABLE))),
    Row("Admin/Start", "admin of table", start(compact=admin.AdminCompact(table=TABLE))),
    Row("Admin/Start", "admin of table", start(stage=admin.AdminStage(table=TABLE, url="file:///none"))),
    Row("Admin/Start", "admin of table", start(swap=admin.AdminSwap(table=TABLE))),
    Row("Admin/Start", "admin of table", start(rollback=admin.AdminRollback(table=TABLE))),
    Row("Admin/Start", "admin of table", start(discard=admin.AdminDiscard(table=TABLE, version=1))),
    Row("Admin/Start", "read,admin of table", start(restore_table=admin.AdminRestoreTable(table=TABLE, target=TABLE))),
    Row("Admin/Start", "admin", start()),
    Row("Admin/Jobs", "admin", lambda _: admin.AdminJobsRequest()),
    Row("Admin/Job", "admin", lambda _: admin.AdminJobRequest(job=1)),
    Row("Admin/SetRetention", "admin of table", lambda _: admin.AdminSetRetentionRequest(table=TABLE)),
    Row("Admin/Abort", "admin", lambda _: admin.AdminGoOnRequest(job=1, dry_run=True)),
    Row("Admin/Resume", "admin", lambda _: admin.AdminGoOnRequest(job=1, dry_run=True)),
    Row("Admin/Changes", "admin", lambda _: admin.AdminChangesRequest()),
    Row("Admin/Healing", "admin", lambda _: admin.AdminHealingRequest()),
    Row("Users/AddUser", "admin", lambda _: users.AddUserRequest(user="a b")),
    Row("Users/RemoveUser", "admin", lambda _: users.RemoveUserRequest(user="not-there")),
    Row("Users/ListUsers", "admin", lambda _: users.ListUsersRequest()),
    Row("Users/SetPassword", "user", lambda _: users.SetPasswordRequest(password="short")),
    Row("Users/SetPassword", "admin", lambda _: users.SetPasswordRequest(user="root", password="short")),
    Row("Users/AddToken", "user", lambda _: users.AddTokenRequest(ttl_ms=2**60)),
    Row("Users/AddToken", "admin", lambda _: users.AddTokenRequest(user="root", ttl_ms=2**60)),
    Row("Users/RevokeToken", "user", lambda _: users.RevokeTokenRequest(token_id="none")),
    Row("Users/RevokeToken", "admin", lambda _: users.RevokeTokenRequest(user="root", token_id="none")),
    Row("Users/Grant", "admin", lambda _: users.GrantRequest(to="not-there", grant="read *")),
    Row("Users/Revoke", "admin", lambda _: users.RevokeRequest(to="not-there", grant="read *")),
    Row("Users/AddRole", "admin", lambda _: users.AddRoleRequest(role="a b")),
    Row("Users/RemoveRole", "admin", lambda _: users.RemoveRoleRequest(role="not-there")),
    Row("Users/AssignRole", "admin", lambda _: users.AssignRoleRequest(user="not-there", role="r")),
    Row("Users/UnassignRole", "admin", lambda _: users.UnassignRoleRequest(user="not-there", role="r")),
    Row("Users/SetQuota", "admin", lambda _: users.SetQuotaRequest(user="not-there")),
    Row("Users/ListQuotas", "admin", lambda _: users.ListQuotasRequest()),
    Row("Users/WhoAmI", "user", lambda _: users.WhoAmIRequest()),
    Row("Log/CreateTopic", "server", lambda _: log_pb2.CreateTopicRequest(name="t", partitions=1)),
    Row("Log/AdoptTopic", "server", lambda _: log_pb2.AdoptTopicRequest(name="t")),
    Row("Log/DeleteTopic", "server", lambda id_: log_pb2.DeleteTopicRequest(topic_id=id_)),
    Row("Log/Topics", "server", lambda _: log_pb2.TopicsRequest()),
    Row("Log/Append", "write of key", append_of(batch())),
    Row("Log/Append", "read,write of key", append_of(batch(attribute_of(Operation.APPEND)))),
    Row("Log/Append", "server", lambda _: log_pb2.AppendRequest(topic_id=bytes(16), batch=batch())),
    Row("Log/AppendMany", "write of key", lambda id_: log_pb2.AppendManyRequest(parts=[append_of(batch())(id_)])),
    Row("Log/AppendMany", "server", lambda _: log_pb2.AppendManyRequest()),
    Row("Log/Read", "read of table", lambda id_: log_pb2.LogReadRequest(topic_id=id_)),
    Row("Log/Bounds", "some of table", lambda id_: log_pb2.BoundsRequest(topic_id=id_)),
    Row("Log/AllBounds", "some of table", lambda id_: log_pb2.AllBoundsRequest(topic_id=id_)),
    Row("Log/Trim", "server", lambda id_: log_pb2.TrimRequest(topic_id=id_)),
    Row("Log/Retain", "server", lambda id_: log_pb2.RetainRequest(topic_id=id_)),
    Row("Log/Compact", "server", lambda id_: log_pb2.CompactRequest(topic_id=id_)),
]

GRANTS: Final[dict[str, tuple[str, ...]]] = {
    "granted-nothing": (),
    "another-table": ("read,write,admin ships",),
    "another-key": ("read,write orders --key us:",),
    "reads-the-key": ("read orders --key eu:",),
    "writes-the-key": ("write orders --key eu:",),
    "has-the-key": ("read,write orders --key eu:",),
    "reads": ("read orders",),
    "writes": ("write orders",),
    "reads-and-writes": ("read,write ord*",),
    "administers-the-table": ("admin orders",),
    "has-the-table": ("read,write,admin orders",),
    "administers": ("admin *",),
    "has-all": ("read,write,admin *",),
}


def may(needs: str, name: str) -> bool:
    """What a reader of the pages would expect, by the grants' texts."""
    if needs == "server":
        return False
    if needs == "user":
        return True
    grants = GRANTS[name]
    if needs == "admin":
        return any("admin" in grant and grant.endswith(" *") for grant in grants)
    rights, _, what = needs.partition(" of ")
    for grant in grants:
        granted, table, key = grant.split(" ")[0].split(","), grant.split(" ")[1], grant.partition(" --key ")[2]
        if table not in ("orders", "ord*", "*"):
            continue
        if rights == "some":
            return True
        covers = key == "" or (what == "key" and key == "eu:")
        if covers and set(rights.split(",")) <= set(granted):
            return True
    return False


class Callers:
    """A server whose catalog has a user for each of `GRANTS`, and what each of them shows."""

    def __init__(self, server: SingleServer) -> None:
        self.server = server
        self.channel = grpc.aio.insecure_channel(f"127.0.0.1:{server.port}")
        self.headers: dict[str, str] = {}
        self.unproved: dict[str, str | None] = {"no header": None}

    async def make(self) -> None:
        catalog = self.server.data_plane.catalog
        for name, grants in {"root": ("admin *",), **GRANTS}.items():
            await catalog.submit(AddUser(name, catalog.map.version, "", grants))
            self.headers[name] = bearer_header((await self.token(name)).text)
        revoked = await self.token("has-all")
        await catalog.submit(RevokeToken("has-all", catalog.map.version, revoked.id))
        self.unproved["revoked token"] = bearer_header(revoked.text)
        clock = self.server.data_plane.node.clock
        expires_ms = clock.wall_ms() + 200
        self.unproved["expired token"] = bearer_header((await self.token("has-all", expires_ms=expires_ms)).text)
        await until(lambda: clock.wall_ms() >= expires_ms)
        self.unproved["unknown token"] = bearer_header(mint_token("has-all").text)
        self.unproved["wrong password"] = basic_header("has-all", "wrong password")
        self.unproved["unknown user"] = basic_header("nobody", "wrong password")

    async def token(self, name: str, *, expires_ms: int = 0) -> MintedToken:
        catalog, token = self.server.data_plane.catalog, mint_token(name)
        await catalog.submit(AddToken(name, catalog.map.version, token.id, token.sha256, expires_ms))
        return token

    async def outcome(self, row: Row, header: str | None) -> grpc.StatusCode:
        """How a call ends; OK too where it is a stream that began. Nothing is changed by those that are let in."""
        metadata = () if header is None else (("authorization", header),)
        table = await self.server.data_plane.find_table(TABLE, timeout=patience_s(30))
        raw = row.request(table_id_to_bytes(table.id)).SerializeToString()
        call = self.channel.unary_stream(f"/duramen.v1.{row.method}", None, None)(
            raw, metadata=metadata, timeout=patience_s(20)
        )
        try:
            await call.read()
        except grpc.aio.AioRpcError as failure:
            return failure.code()
        finally:
            call.cancel()
        return grpc.StatusCode.OK


@asynccontextmanager
async def open_callers(folder: Path) -> AsyncIterator[Callers]:
    server = await SingleServer.open(folder, port=0, resp_endpoint=RespSettings(port=0))
    callers = Callers(server)
    try:
        for name in (TABLE, "ships"):
            await server.data_plane.create_table(TableSpec(name, 2), timeout=patience_s(30))
        await callers.make()
        yield callers
    finally:
        await callers.channel.close(None)
        await server.close()


def test_every_method_has_a_row() -> None:
    assert {f"/duramen.v1.{row.method}" for row in ROWS} == set(ALL_RULES), "a method without a row, or the other way"


def test_every_verb_of_administration_has_a_row() -> None:
    begun = {row.request(b"").WhichOneof("change") for row in ROWS if row.method == "Admin/Start"} - {None}
    members = {field.name for field in admin.AdminStartRequest.DESCRIPTOR.oneofs_by_name["change"].fields}
    assert begun == members, "a verb without a row, or the other way"


async def test_everybody_calls_everything(tmp_path: Path) -> None:
    async with open_callers(tmp_path / "data") as callers:
        wrong = []
        for row in ROWS:
            for shown, header in callers.unproved.items():
                code = await callers.outcome(row, header)
                # A brute force has to wait: that is RESOURCE_EXHAUSTED.
                slowed = code is grpc.StatusCode.RESOURCE_EXHAUSTED and ("password" in shown or "user" in shown)
                if code is not grpc.StatusCode.UNAUTHENTICATED and not slowed:
                    wrong.append(f"{row.method}, {shown}: {code.name}")
            for name in GRANTS:
                if row.method == "Tables/Drop" and may(row.needs, name):
                    continue
                code = await callers.outcome(row, callers.headers[name])
                refused = code in (grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNAUTHENTICATED)
                if refused is may(row.needs, name):
                    wrong.append(f"{row.method} needs {row.needs}, {name} has {GRANTS[name]}: {code.name}")
        assert wrong == [], f"{len(wrong)} calls ended otherwise than their grants say"
        dropped = await callers.outcome(
            next(row for row in ROWS if row.method == "Tables/Drop"), callers.headers["administers-the-table"]
        )
        assert dropped is grpc.StatusCode.OK
