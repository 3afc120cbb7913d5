"""`duramen.v1.Admin`: each method asks the core, and translates."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable
from contextlib import aclosing
from typing import Any, Final, cast

import grpc

from log_tier.model.errors import DuramenError
from log_tier.model.identifiers import Partition
from log_tier.rpc.problems import abort
from log_tier.rpc.streams import OpenStreams
from router.admin.admin import Admin, OpenAdmin
from router.admin.messages import change_from
from router.proto import admin_pb2 as pb
from router.proto import admin_pb2_grpc

__all__ = ["AdminService"]

_Context = grpc.aio.ServicerContext[Any, Any]

# For callers that set no deadline: what one question about a digest may take.
_TIMEOUT_DEFAULT_S: Final = 120.0

# The reply must be on its way before the caller's deadline, else it learns nothing of what we know.
_REPLY_MARGIN_S: Final = 0.05

_WRITES_DEFAULT: Final = 10


class AdminService(admin_pb2_grpc.AdminServicer):
    """Serves what `admin` gives when it is called. `streams`: the streams under way, for who shuts down."""

    def __init__(self, admin: OpenAdmin, streams: OpenStreams | None = None) -> None:
        self._admin = admin
        self._streams = OpenStreams() if streams is None else streams

    @classmethod
    def at_hand(cls, admin: Admin, streams: OpenStreams | None = None) -> AdminService:
        """Serve an admin that is open already."""

        async def given() -> Admin:
            return admin

        return cls(given, streams)

    async def Nodes(self, request: pb.AdminNodesRequest, context: _Context) -> pb.AdminDocuments:  # noqa: N802
        return await self._listed(lambda admin: admin.nodes(), context)

    async def Partitions(self, request: pb.AdminTableRequest, context: _Context) -> pb.AdminDocuments:  # noqa: N802
        return await self._listed(lambda admin: admin.partitions(request.table), context)

    async def Lag(self, request: pb.AdminTableRequest, context: _Context) -> pb.AdminDocuments:  # noqa: N802
        return await self._listed(lambda admin: admin.lag(request.table), context)

    async def Snapshots(self, request: pb.AdminTableRequest, context: _Context) -> pb.AdminDocuments:  # noqa: N802
        return await self._listed(lambda admin: admin.snapshots(request.table), context)

    async def Versions(self, request: pb.AdminTableRequest, context: _Context) -> pb.AdminDocuments:  # noqa: N802
        return await self._listed(lambda admin: admin.versions(request.table), context)

    async def Jobs(self, request: pb.AdminJobsRequest, context: _Context) -> pb.AdminDocuments:  # noqa: N802
        return await self._listed(lambda admin: admin.jobs(), context)

    async def Explain(self, request: pb.AdminExplainRequest, context: _Context) -> pb.AdminDocument:  # noqa: N802
        writes = request.writes or _WRITES_DEFAULT
        return await self._one(lambda admin: admin.explain(request.table, request.key, writes=writes), context)

    async def Verify(self, request: pb.AdminVerifyRequest, context: _Context) -> None:  # noqa: N802
        partition = Partition(request.partition) if request.HasField("partition") else None
        remaining = context.time_remaining()
        timeout = _TIMEOUT_DEFAULT_S if remaining is None else max(0.0, remaining - _REPLY_MARGIN_S)
        try:
            admin = await self._admin()
            verified = admin.verify(request.table, partition, timeout=timeout)
            async with self._streams.served(), aclosing(cast("Any", verified)) as documents:
                async for document in documents:
                    await context.write(_message(document))
        except DuramenError as error:
            await abort(context, error)

    async def Start(self, request: pb.AdminStartRequest, context: _Context) -> pb.AdminDocument:  # noqa: N802
        return await self._one(
            lambda admin: admin.start(change_from(request), dry_run=request.dry_run, plan_id=request.plan), context
        )

    async def Job(self, request: pb.AdminJobRequest, context: _Context) -> None:  # noqa: N802
        try:
            admin = await self._admin()
            if not request.follow:
                await context.write(_message(await admin.job(request.job)))
                return
            followed: Any = admin.follow_job(request.job)
            async with self._streams.served(), aclosing(followed) as documents:
                async for document in documents:
                    await context.write(_message(document))
        except DuramenError as error:
            await abort(context, error)

    async def Abort(self, request: pb.AdminGoOnRequest, context: _Context) -> pb.AdminDocument:  # noqa: N802
        return await self._one(lambda admin: admin.abort(request.job, dry_run=request.dry_run), context)

    async def Resume(self, request: pb.AdminGoOnRequest, context: _Context) -> pb.AdminDocument:  # noqa: N802
        return await self._one(lambda admin: admin.resume(request.job, dry_run=request.dry_run), context)

    async def _one(self, question: Callable[[Admin], Awaitable[dict[str, Any]]], context: _Context) -> pb.AdminDocument:
        try:
            return _message(await question(await self._admin()))
        except DuramenError as error:
            await abort(context, error)

    async def _listed(
        self, question: Callable[[Admin], Awaitable[Iterable[dict[str, Any]]]], context: _Context
    ) -> pb.AdminDocuments:
        try:
            found = await question(await self._admin())
        except DuramenError as error:
            await abort(context, error)
        return pb.AdminDocuments(json=[json.dumps(each, ensure_ascii=False) for each in found])


def _message(document: dict[str, Any]) -> pb.AdminDocument:
    return pb.AdminDocument(json=json.dumps(document, ensure_ascii=False))
