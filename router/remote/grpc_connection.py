"""The client's side of the endpoint: a `Connection` to a server, with the same contract as the data plane itself."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final, cast

from log_tier.concurrency.forking import IMPORTING
from log_tier.concurrency.tasks import every_step
from log_tier.model.errors import Disconnected, DuramenError, UnknownFormat
from log_tier.model.identifiers import Offset, Partition, TableId, table_id_to_bytes
from log_tier.model.retention import Retention, check_retention
from log_tier.model.table_ref import TableRef
from log_tier.rpc.credentials import CREDENTIALS
from log_tier.rpc.security import SECURITY
from log_tier.rpc.wire import Wire
from router.data.in_time import time_left
from router.data.requests import (
    OutcomesPart,
    ReadPart,
    ReadResult,
    ScanRequest,
    ScanResult,
    TableDescription,
    WatchEvent,
    WritePart,
    WriteResult,
)
from router.proto import keyvalue_pb2 as kv
from router.proto import keyvalue_pb2_grpc, resp_endpoint_pb2, resp_endpoint_pb2_grpc, tables_pb2_grpc
from router.proto import tables_pb2 as tables
from router.remote import messages
from router.remote.resp_place import NOWHERE, RespPlace
from router.remote.table_messages import description_from, ref_from

if TYPE_CHECKING:
    from log_tier.rows.alter_table import TableChange
    from log_tier.rows.definition import TableDefinition
    from log_tier.rows.table_spec import TableSpec
    from router.remote.short_way import ShortWay

__all__ = ["GrpcConnection"]

# The server has just answered. If it does not answer this question in time, calls go on by gRPC.
_ENDPOINT_S: Final = 1.0

_LOOK_AFTER: Final = 16
"""Requests by gRPC, until the server is asked for its endpoint; then twice as many, and so on."""


class GrpcConnection:
    """A `Connection` over one gRPC channel to one server. It connects at the first call, and again after a loss."""

    def __init__(self, target: str, *, alone: bool = False, pass_on: bool = False) -> None:
        """`alone`: this server is the whole cluster. `pass_on`: the server passes on what it does not hold."""
        self.target = target
        self.alone = alone
        self._pass_on = pass_on
        self._wire = Wire(target)
        self._kv = keyvalue_pb2_grpc.KeyValueStub(self._wire.channel)  # type: ignore[no-untyped-call]
        self._tables = tables_pb2_grpc.TablesStub(self._wire.channel)  # type: ignore[no-untyped-call]
        self._resp_endpoint = resp_endpoint_pb2_grpc.RespEndpointStub(self._wire.channel)  # type: ignore[no-untyped-call]
        self.short_way: ShortWay | None = None
        """To a server that is the whole cluster, when some requests have been made: see `_miss`."""
        self._secured, self._credentials = SECURITY.get() is not None, CREDENTIALS.get()
        self._missed = 0

    async def resp_endpoint(self, *, opens: bool, timeout: float) -> RespPlace | None:
        """Where the RESP endpoint of a server is that is the whole cluster: `NOWHERE` where it has none, or one that
        wants a password of its own; None where it is not that. `opens`: open the one for this machine."""
        if not self.alone:
            return None
        try:
            said = await self._wire.ask(
                self._resp_endpoint.Describe,
                resp_endpoint_pb2.DescribeRespEndpointRequest(open=opens),
                timeout=timeout,
            )
        except DuramenError:
            return NOWHERE
        if said.password and not said.users:
            return NOWHERE
        return RespPlace(
            self.target.rpartition(":")[0], int(said.port), said.machine_socket, said.owner, said.tls, said.users
        )

    def _miss(self) -> None:
        """Count a request that goes by gRPC. After some of them the short way is looked for: most programs that make
        few never cause the server to open it, nor import what it needs.
        """
        self._missed += 1
        if self.short_way is None and self._missed >= _LOOK_AFTER:
            with IMPORTING:
                from router.remote.short_way import ShortWay
            self.short_way = ShortWay(self._opened_endpoint, secured=self._secured, credentials=self._credentials)
        if self.short_way is not None and self._missed >= self.short_way.look_at:
            self._missed = 0
            self.short_way.look()

    async def _opened_endpoint(self) -> RespPlace | None:
        return await self.resp_endpoint(opens=True, timeout=_ENDPOINT_S)

    async def read(
        self, parts: Sequence[ReadPart], *, timeout: float, patience: float = 0.0
    ) -> Sequence[ReadResult | DuramenError]:
        if self.short_way is not None and self.short_way.lines is not None:
            left_s = time_left(timeout)
            answer = await self.short_way.read(parts, timeout=timeout)
            if answer is not None:
                return answer
            timeout = left_s()
        elif self.alone:
            self._miss()
        request = messages.read_request(parts, patience=patience)
        request.pass_on = self._pass_on
        return messages.read_results_from(await self._wire.ask(self._kv.Read, request, timeout=timeout))

    async def write(
        self, parts: Sequence[WritePart], *, timeout: float, patience: float = 0.0
    ) -> Sequence[WriteResult | DuramenError]:
        if self.short_way is not None and self.short_way.lines is not None:
            left_s = time_left(timeout)
            answer = await self.short_way.write(parts, timeout=timeout)
            if answer is not None:
                return answer
            timeout = left_s()
        elif self.alone:
            self._miss()
        request = messages.write_request(parts, patience=patience)
        request.pass_on = self._pass_on
        return messages.write_results_from(await self._wire.ask(self._kv.Write, request, timeout=timeout))

    async def outcomes(self, parts: Sequence[OutcomesPart], *, timeout: float) -> list[WriteResult | DuramenError]:
        request = messages.outcomes_request(parts)
        request.pass_on = self._pass_on
        return messages.write_results_from(await self._wire.ask(self._kv.Outcomes, request, timeout=timeout))

    async def scan(self, request: ScanRequest, *, timeout: float) -> ScanResult:
        message = messages.scan_request(request)
        message.pass_on = self._pass_on
        return messages.scan_result_from(await self._wire.ask(self._kv.Scan, message, timeout=timeout))

    async def watch(
        self, table_id: TableId, start: Mapping[Partition, Offset], partitions: Sequence[Partition] = ()
    ) -> AsyncGenerator[WatchEvent, None]:
        """Raises `Disconnected` when the server goes away; the caller resumes from its last position."""
        request = kv.WatchRequest(
            table_id=table_id_to_bytes(table_id),
            start=[kv.PartitionOffset(partition=p, offset=o) for p, o in start.items()],
            partitions=partitions,
            pass_on=self._pass_on,
        )
        async with aclosing(cast("Any", self._wire.stream(self._kv.Watch, request))) as replies:
            async for reply in replies:
                yield messages.watch_event_from(reply)
        raise Disconnected(f"the server at {self.target} ended the watch; watch again from the last token")

    async def producer(
        self, table_id: TableId, producer_id: int, *, timeout: float, partitions: Sequence[Partition] = ()
    ) -> dict[Partition, int]:
        request = kv.ProducerRequest(
            table_id=table_id_to_bytes(table_id),
            producer_id=producer_id,
            partitions=partitions,
            pass_on=self._pass_on,
        )
        reply = await self._wire.ask(self._kv.Producer, request, timeout=timeout)
        return {Partition(position.partition): position.last_sequence for position in reply.positions}

    async def create_table(self, spec: TableSpec, *, timeout: float) -> TableRef:
        from router.remote.definitions import definition_message

        request = tables.CreateTableRequest(
            name=spec.name,
            partitions=spec.partitions,
            replicas=spec.replicas,
            over=spec.over,
            partitioner=spec.partitioner,
            retention_ms=spec.retention.ms,
            retention_bytes=spec.retention.bytes,
            definition=None if spec.definition is None else definition_message(spec.definition),
        )
        return ref_from(await self._wire.ask(self._tables.Create, request, timeout=timeout))

    async def find_table(self, name: str, *, timeout: float) -> TableRef:
        request = tables.FindTableRequest(name=name)
        return ref_from(await self._wire.ask(self._tables.Find, request, timeout=timeout))

    async def definition(self, table_id: TableId, *, schema: int = 0, timeout: float) -> TableDefinition | None:
        from router.remote.definitions import definition_from

        request = tables.DefinitionRequest(table_id=table_id_to_bytes(table_id), schema=schema)
        return definition_from(await self._wire.ask(self._tables.Definition, request, timeout=timeout))

    async def list_tables(self, *, timeout: float) -> list[TableRef]:
        reply = await self._wire.ask(self._tables.List, tables.ListTablesRequest(), timeout=timeout)
        return [ref_from(table) for table in reply.tables]

    async def describe_table(self, name: str, *, timeout: float) -> TableDescription:
        request = tables.FindTableRequest(name=name)
        return description_from(await self._wire.ask(self._tables.Describe, request, timeout=timeout))

    async def alter_table(self, name: str, change: TableChange, *, timeout: float) -> TableDefinition:
        from router.remote.definitions import change_message, definition_from

        found = definition_from(await self._wire.ask(self._tables.Alter, change_message(name, change), timeout=timeout))
        if found is None:
            raise UnknownFormat(f"the server at {self.target} altered table {name}, and names no definition: update it")
        return found

    async def set_retention(self, name: str, *, ms: int | None, size: int | None, timeout: float) -> Retention:
        check_retention(Retention(ms or 0, size or 0))  # a message carries no others
        request = tables.SetRetentionRequest(name=name, retention_ms=ms, retention_bytes=size)
        reply = await self._wire.ask(self._tables.SetRetention, request, timeout=timeout)
        return Retention(reply.retention_ms, reply.retention_bytes)

    async def drop_table(self, name: str, *, timeout: float) -> None:
        await self._wire.ask(self._tables.Drop, tables.FindTableRequest(name=name), timeout=timeout)

    async def close(self) -> None:
        """Close the channel. Calls under way end with `Disconnected`, later ones with `DatabaseClosed`."""
        await every_step(self._close_short_way, self._wire.close)

    async def _close_short_way(self) -> None:
        if self.short_way is not None:
            await self.short_way.close()
