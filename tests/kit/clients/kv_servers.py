"""The service `duramen.v1.KV` behind each role, and what tests of it need: stubs, details of errors, shorthands."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from copy import copy
from pathlib import Path
from typing import Any, Literal, NamedTuple

import grpc
import pytest
from google.rpc.error_details_pb2 import ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status

from duramen.server.roles.all_in_one import SingleServer
from duramen.server.roles.log_role import LogRole
from duramen.server.roles.node_role import NodeRole
from duramen.server.roles.router_role import RouterRole
from kit.deadlines import within
from log_tier.model.kept_history import KeptHistory
from log_tier.rows.definition import TableDefinition
from log_tier.rpc.status_codes import STATUS_KEY
from router.proto import kv_pb2 as kv
from router.proto import kv_pb2_grpc, tables_pb2_grpc
from router.proto import tables_pb2 as tables
from router.remote.definitions import definition_message

DEADLINE_S = 20.0
TABLE = "flights"

Way = Literal["single", "node", "router"]


class Refusal(NamedTuple):
    """What an error says to its caller."""

    code: grpc.StatusCode
    reason: str
    fields: Mapping[str, str]
    retry_s: float | None
    message: str


def refusal_of(failure: grpc.aio.AioRpcError) -> Refusal:
    """Read an error as any language's library does."""
    trailing: Any = failure.trailing_metadata()
    status = Status.FromString(dict(trailing)[STATUS_KEY])
    assert status.code == failure.code().value[0]
    info, retry = ErrorInfo(), RetryInfo()
    retry_s = None
    for detail in status.details:
        if detail.Unpack(info):
            assert info.domain == "duramen"
        elif detail.Unpack(retry):
            retry_s = retry.retry_delay.ToTimedelta().total_seconds()
    return Refusal(failure.code(), info.reason, dict(info.metadata), retry_s, failure.details() or "")


async def refused(call: Awaitable[Any]) -> Refusal:
    """What a call that must fail failed with."""
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await call
    return refusal_of(raised.value)


class KVClient:
    """Stubs for one server, with the table's name filled in."""

    def __init__(self, port: int, table: str = TABLE) -> None:
        self.channel = grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=[("grpc.use_local_subchannel_pool", 1)])
        self.stub: Any = kv_pb2_grpc.KVStub(self.channel)  # type: ignore[no-untyped-call]
        self.tables: Any = tables_pb2_grpc.TablesStub(self.channel)  # type: ignore[no-untyped-call]
        self.table = table

    def named(self, table: str) -> KVClient:
        """The same connection, for another table."""
        other = copy(self)
        other.table = table
        return other

    async def create(self, *, partitions: int = 6, replicas: int = 1, name: str = "") -> None:
        request = tables.CreateTableRequest(name=name or self.table, partitions=partitions, replicas=replicas)
        await self.tables.Create(request, timeout=DEADLINE_S)

    async def put(self, key: bytes, value: bytes, **how: Any) -> kv.KVPutResponse:
        request = kv.KVPutRequest(table=self.table, key=key, value=value, **how)
        reply: kv.KVPutResponse = await self.stub.Put(request, timeout=DEADLINE_S)
        return reply

    async def get(self, key: bytes, *, timeout: float = DEADLINE_S, **how: Any) -> kv.KVGetResponse:
        request = kv.KVGetRequest(table=self.table, key=key, **how)
        reply: kv.KVGetResponse = await self.stub.Get(request, timeout=timeout)
        return reply

    async def get_many(self, keys: list[bytes], **how: Any) -> kv.KVGetManyResponse:
        request = kv.KVGetManyRequest(table=self.table, keys=keys, **how)
        reply: kv.KVGetManyResponse = await self.stub.GetMany(request, timeout=DEADLINE_S)
        return reply

    async def delete(self, key: bytes, **how: Any) -> kv.KVDeleteResponse:
        request = kv.KVDeleteRequest(table=self.table, key=key, **how)
        reply: kv.KVDeleteResponse = await self.stub.Delete(request, timeout=DEADLINE_S)
        return reply

    async def update(self, key: bytes, **how: Any) -> kv.KVUpdateResponse:
        request = kv.KVUpdateRequest(table=self.table, key=key, **how)
        reply: kv.KVUpdateResponse = await self.stub.Update(request, timeout=DEADLINE_S)
        return reply

    async def write(self, *writes: kv.KVWrite, **how: Any) -> kv.KVWriteResponse:
        request = kv.KVWriteRequest(table=self.table, writes=writes, **how)
        reply: kv.KVWriteResponse = await self.stub.Write(request, timeout=DEADLINE_S)
        return reply

    async def scan(self, **how: Any) -> list[kv.KVScanResponse]:
        call = self.stub.Scan(kv.KVScanRequest(table=self.table, **how), timeout=DEADLINE_S)
        return [message async for message in call]

    def watch(self, **how: Any) -> Any:
        return self.stub.Watch(kv.KVWatchRequest(table=self.table, **how))

    async def create_kept(self, keeps: KeptHistory, *, partitions: int = 6) -> None:
        """A table that keeps a history; each partition has three replicas where there are as many nodes."""
        definition = definition_message(TableDefinition(keeps=keeps))
        request = tables.CreateTableRequest(name=self.table, partitions=partitions, definition=definition)
        await self.tables.Create(request, timeout=DEADLINE_S)

    async def history(self, key: bytes, **how: Any) -> kv.KVHistoryResponse:
        request = kv.KVHistoryRequest(table=self.table, key=key, **how)
        reply: kv.KVHistoryResponse = await self.stub.History(request, timeout=DEADLINE_S)
        return reply

    async def end_token(self) -> str:
        return str((await self.stub.EndToken(kv.KVEndTokenRequest(table=self.table), timeout=DEADLINE_S)).token)


def number(value: float) -> kv.KVNumber:
    return kv.KVNumber(integer=value) if isinstance(value, int) else kv.KVNumber(real=value)


async def taken(call: Any, count: int) -> tuple[list[kv.KVChange], str]:
    """The next `count` changes of a watch, and the token behind the last message of them."""
    changes: list[kv.KVChange] = []
    async with within(DEADLINE_S):
        while True:
            message = await call.read()
            changes += message.changes
            if len(changes) >= count:
                return changes, str(message.token)


@asynccontextmanager
async def served(way: Way, folder: Path) -> AsyncIterator[list[int]]:
    """Ports that serve the same data: of a whole server, of a cluster's three nodes, or of a router before those."""
    async with AsyncExitStack() as opened:
        if way == "single":
            server = await SingleServer.open(folder / "single", port=0)
            opened.push_async_callback(server.close)
            yield [server.port]
            return
        log = await LogRole.open(folder / "log", host="127.0.0.1", port=0)
        opened.push_async_callback(log.close)
        url = f"grpc://127.0.0.1:{log.port}"
        nodes = []
        for name in ("n1", "n2", "n3"):
            node = await NodeRole.open(folder / name, node_id=name, log_url=url, host="127.0.0.1", port=0)
            opened.push_async_callback(node.close)
            nodes.append(node)
        if way == "node":
            yield [node.port for node in nodes]
            return
        router = await RouterRole.open(log_url=url, host="127.0.0.1", port=0)
        opened.push_async_callback(router.close)
        yield [router.port]
