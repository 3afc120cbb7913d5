"""The same accesses leave the same rows in `_duramen_audit`, by whichever endpoint they come."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from kit.client.audited_server import AuditedCalls, Row, audited_server
from kit.deadlines import patience_s, until, until_true, within
from kit.resp.raw_client import Raw, Status, packed

from log_tier.audit.audit_settings import AuditSettings
from log_tier.model.batch import Columns, encode_batch
from log_tier.model.errors import PermissionDenied
from log_tier.model.identifiers import AUDIT_TABLE, table_id_to_bytes
from log_tier.rows.table_spec import TableSpec
from log_tier.trust.trust_commands import RevokeRights
from router.endpoints.resp.server.sockets import RespSettings
from router.proto import keyvalue_pb2, kv_pb2

pytestmark = pytest.mark.embedded_log_only  # rows in Kafka: test_auditing.py

OK = Status("OK")
ALIKE = ("kind", "result", "user", "proof", "credential", "address", "table", "key", "detail", "version", "offset")
"""The fields that do not say how or when a row came."""


def counted(rows: list[Row]) -> Counter[tuple[Any, ...]]:
    """How often each event is in rows: equal ones of a second are in one row."""
    found: Counter[tuple[Any, ...]] = Counter()
    for row in rows:
        found[tuple(row[name] for name in ALIKE)] += row["count"]
    return found


class BothEndpoints:
    """A server whose user `root` may do everything. What is done to `default` is audited, and reads of `orders`."""

    def __init__(self, calls: AuditedCalls, port: int) -> None:
        self.calls = calls
        self.port = port

    async def by_redis(self, *commands: tuple[Any, ...], user: str = "root") -> list[Any]:
        """The replies on a connection of its own, in a thread: readers wait for this event loop."""

        def say() -> list[Any]:
            with Raw(("127.0.0.1", self.port)) as raw:
                assert raw.call("AUTH", user, self.calls.tokens[user].text) == OK
                raw.send(b"".join(packed(*each) for each in commands))
                return [raw.reply() for _ in commands]

        return await asyncio.to_thread(say)

    async def accesses(self, wanted: int) -> list[Row]:
        """The rows of reads and writes of `root`, when they count as many, in the order of their times."""

        async def rows() -> list[Row]:
            every = await self.calls.rows(user="root", result="allowed")
            return [row for row in every if row["kind"] in ("read", "write")]

        async def are_there() -> bool:
            counts: list[int] = [row["count"] for row in await rows()]
            return sum(counts) >= wanted

        await until_true(are_there)
        return sorted(await rows(), key=lambda row: (row["time_ms"], row["kind"]))


@pytest.fixture(params=[0, 2], ids=["one process", "two readers"])
async def both(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[BothEndpoints]:
    audit = AuditSettings.parse(["default:read,write", "orders:read"])
    resp = RespSettings(port=0, readers=request.param)
    async with audited_server(tmp_path / "data", audit=audit, resp=resp) as (server, calls):
        await server.data_plane.create_table(TableSpec("default", 1), timeout=patience_s(30))
        await calls.add_user("root", "admin *", "read,write *", "read _duramen_audit")
        await until(lambda: calls.catalog.map.named(AUDIT_TABLE) is not None)
        yield BothEndpoints(calls, server.resp_port)


async def _watch(calls: AuditedCalls) -> None:
    watch = calls.kv.Watch(kv_pb2.KVWatchRequest(table="default"), metadata=calls.of("root"))
    await watch.read()
    watch.cancel()


async def _scan(calls: AuditedCalls, prefix: bytes) -> None:
    async for _ in calls.kv.Scan(kv_pb2.KVScanRequest(table="default", prefix=prefix), metadata=calls.of("root")):
        pass


def _kv(method: str, request: Any) -> Callable[[AuditedCalls], Awaitable[Any]]:
    return lambda calls: getattr(calls.kv, method)(request, metadata=calls.of("root"))


def _put(**condition: Any) -> kv_pb2.KVPutRequest:
    return kv_pb2.KVPutRequest(table="default", key=b"eu:1", value=b"v", **condition)


def _table_id(calls: AuditedCalls) -> bytes:
    return table_id_to_bytes(calls.catalog.map.find("default").id)


def _native_read(calls: AuditedCalls) -> Awaitable[Any]:
    part = keyvalue_pb2.ReadPart(table_id=_table_id(calls), keys=[b"eu:1"])
    return calls.key_value.Read(keyvalue_pb2.ReadRequest(parts=[part]), metadata=calls.of("root"))  # type: ignore[no-any-return]


def _native_write(calls: AuditedCalls) -> Awaitable[Any]:
    part = keyvalue_pb2.WritePart(table_id=_table_id(calls), batch=BATCH)
    return calls.key_value.Write(keyvalue_pb2.WriteRequest(parts=[part]), metadata=calls.of("root"))  # type: ignore[no-any-return]


BATCH = encode_batch(Columns([b"eu:1", b"eu:2"], [b"v", b"v"]))
GROUP = [kv_pb2.KVWrite(key=b"eu:1", put=b"v"), kv_pb2.KVWrite(key=b"eu:2", put=b"v")]
COUNTED = [*GROUP, kv_pb2.KVWrite(key=b"n", append=b"1")]

Commands = Callable[[AuditedCalls], list[tuple[Any, ...]]]


def _of(*commands: tuple[Any, ...]) -> Commands:
    return lambda _: list(commands)


ACCESSES: dict[str, tuple[Callable[[AuditedCalls], Awaitable[Any]], Commands, int]] = {
    "a key is read": (_kv("Get", kv_pb2.KVGetRequest(table="default", key=b"eu:1")), _of(("GET", "eu:1")), 1),
    "keys are read": (
        _kv("GetMany", kv_pb2.KVGetManyRequest(table="default", keys=[b"eu:1", b"eu:22", b"eu:2"])),
        _of(("MGET", "eu:1", "eu:22", "eu:2")),
        1,
    ),
    "a key is written": (_kv("Put", _put()), _of(("SET", "eu:1", "v")), 1),
    "a key is written if it is absent": (_kv("Put", _put(if_absent=True)), _of(("SET", "eu:1", "v", "NX")), 2),
    "a key is updated": (
        _kv("Update", kv_pb2.KVUpdateRequest(table="default", key=b"eu:1", append=b"v")),
        _of(("APPEND", "eu:1", "v")),
        2,
    ),
    "a group is written": (
        _kv("Write", kv_pb2.KVWriteRequest(table="default", writes=GROUP)),
        _of(("MULTI",), ("SET", "eu:1", "v"), ("SET", "eu:2", "v"), ("EXEC",)),
        1,
    ),
    "a group is written, of which one tells": (
        _kv("Write", kv_pb2.KVWriteRequest(table="default", writes=COUNTED)),
        _of(("MULTI",), ("SET", "eu:1", "v"), ("SET", "eu:2", "v"), ("APPEND", "n", "1"), ("EXEC",)),
        2,
    ),
    "a walk": (lambda calls: _scan(calls, b"eu:"), _of(("SCAN", 0, "MATCH", "eu:*")), 1),
    "changes are followed": (_watch, _of(("SUBSCRIBE", "__keyevent@0__:set")), 1),
    "a client of ours reads": (_native_read, lambda calls: [("DURAMEN.READ", _id(calls), 0, -1, "eu:1")], 1),
    "a client of ours reads some keys": (
        _native_read,
        lambda calls: [("DURAMEN.FETCH", _id(calls), 0, -1, "eu:1")],
        1,
    ),
    "a client of ours writes": (_native_write, lambda calls: [("DURAMEN.WRITE", _id(calls), 0, BATCH)], 1),
    "a table that is not chosen": (
        _kv("Put", kv_pb2.KVPutRequest(table="orders", key=b"k", value=b"v")),
        _of(("SELECT", "orders"), ("SET", "k", "v")),
        0,
    ),
}
"""What is done by gRPC, and by the Redis protocol, and how many rows each of them leaves."""


def _id(calls: AuditedCalls) -> str:
    return str(calls.catalog.map.find("default").id)


async def test_the_same_accesses_leave_the_same_rows(both: BothEndpoints) -> None:
    calls = both.calls
    for by_grpc, by_redis, _ in ACCESSES.values():
        error = await calls.error(by_grpc(calls))
        assert not isinstance(error, PermissionDenied), error
        await both.by_redis(*by_redis(calls))
    wanted = sum(each[2] for each in ACCESSES.values())
    rows = await both.accesses(2 * wanted)
    grpc = [row for row in rows if "/" in row["action"]]
    redis = [row for row in rows if "/" not in row["action"]]
    assert counted(redis) == counted(grpc)
    assert counted(redis).total() == wanted
    assert {row["action"] for row in redis} == {
        *("get", "mget", "set", "append", "exec", "scan", "subscribe", "duramen.read", "duramen.fetch"),
        "duramen.write",
    }


async def test_rows_of_a_user_whose_grant_is_revoked_meanwhile(both: BothEndpoints) -> None:
    calls = both.calls
    await calls.add_user("alice", "read default")
    assert await both.by_redis(("GET", "k"), ("SET", "k", "v"), user="alice") == [None, ANY_REFUSAL]
    await calls.submit(lambda seen: RevokeRights("alice", seen, "read default"))
    assert await both.by_redis(("GET", "k"), user="alice") == [ANY_REFUSAL]
    rows = await calls.until_rows(3, user="alice", table="default")
    assert sorted((row["kind"], row["result"], row["action"]) for row in rows) == [
        ("read", "allowed", "get"),
        ("read", "refused", "get"),
        ("write", "refused", "set"),
    ]


class _AnyRefusal:
    def __eq__(self, other: object) -> bool:
        return str(getattr(other, "text", "")).startswith("NOPERM")

    __hash__ = None  # type: ignore[assignment]


ANY_REFUSAL = _AnyRefusal()


async def test_a_client_that_others_wrote(both: BothEndpoints) -> None:
    """redis-cli: it sends HELLO and COMMAND DOCS of its own."""
    tool = shutil.which("redis-cli")
    if tool is None:
        pytest.skip("redis-cli is not installed")
    calls = both.calls
    login = [tool, "-p", str(both.port), "--user", "root", "--pass", calls.tokens["root"].text, "--no-auth-warning"]
    for words in (["SET", "eu:1", "v"], ["GET", "eu:1"], ["-n", "0", "INCR", "n"], ["--scan", "--pattern", "eu:*"]):
        async with within(60):
            done = await asyncio.to_thread(subprocess.run, [*login, *words], capture_output=True, text=True, check=True)
        assert "ERR" not in done.stdout
    rows = await both.accesses(5)
    assert [(row["action"], row["kind"], row["key"]) for row in rows] == [
        ("set", "write", "eu:1"),
        ("get", "read", "eu:1"),
        ("incr", "read", "n"),
        ("incr", "write", "n"),
        ("scan", "read", "eu:"),
    ]
