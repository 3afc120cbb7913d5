"""The part of a log that a server passes on to users: reads, bounds and appends of tables, and nothing else.

    Spark ── grants, quotas, audit ──▶ router: PassedLogService ── mutual TLS ──▶ log server

The log of a cluster with certificates answers servers alone. The guard of the passing server decides about each call as
it does anywhere. What is here says which methods and which topics there are at all, also for the certificate of a
server, which no grant holds back.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import grpc

from log_tier.access.gate import Gate
from log_tier.model.errors import DuramenError, PermissionDenied
from log_tier.model.identifiers import table_id_from_bytes
from log_tier.model.log import Log
from log_tier.proto import log_pb2, log_pb2_grpc
from log_tier.remote.service import LogService
from log_tier.rpc.open_streams import OpenStreams
from log_tier.rpc.problems import abort

__all__ = ["PassedLogService"]

_Context = grpc.aio.ServicerContext[Any, Any]


class PassedLogService(log_pb2_grpc.LogServicer):
    """`Read`, `Bounds`, `AllBounds` and `AppendMany` of topics that are tables; other methods are not implemented.

    Each call ends with `TableNotFound` for a topic that is no table, such as the catalog, and with `PermissionDenied`
    while the catalog holds no user: then nothing decides, and the log stays the servers' own.
    """

    def __init__(self, log: Log, gate: Gate, streams: OpenStreams) -> None:
        """`log` stays the caller's to close. `streams` are the reads under way."""
        self._service = LogService(log, streams)
        self._gate = gate

    async def Read(self, request: log_pb2.LogReadRequest, context: _Context) -> None:  # noqa: N802
        await self._check((request.topic_id,), context)
        await self._service.Read(request, context)

    async def Bounds(self, request: log_pb2.BoundsRequest, context: _Context) -> log_pb2.BoundsReply:  # noqa: N802
        await self._check((request.topic_id,), context)
        return await self._service.Bounds(request, context)

    async def AllBounds(  # noqa: N802
        self, request: log_pb2.AllBoundsRequest, context: _Context
    ) -> log_pb2.AllBoundsReply:
        await self._check((request.topic_id,), context)
        return await self._service.AllBounds(request, context)

    async def AppendMany(  # noqa: N802
        self, request: log_pb2.AppendManyRequest, context: _Context
    ) -> log_pb2.AppendManyReply:
        await self._check({part.topic_id for part in request.parts}, context)
        return await self._service.AppendMany(request, context)

    async def _check(self, topics: Iterable[bytes], context: _Context) -> None:
        """End the call unless there are users, and every topic is a table."""
        try:
            if not self._gate.is_closed:
                raise PermissionDenied(
                    "this cluster has no users, so its log is for its servers alone: make a first one with `duramen "
                    "user add`, and grant it what it needs"
                )
            for topic in topics:
                self._gate.table_name(table_id_from_bytes(topic))
        except DuramenError as error:
            await abort(context, error)
