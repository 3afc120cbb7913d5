"""`duramen.v1.Admin`: each method calls `Admin`, and translates."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any, Final, TypeVar, cast

import grpc

from log_tier.concurrency.sized_work import run_sized
from log_tier.model.errors import DuramenError, InvalidRequest
from log_tier.model.identifiers import Offset, Partition
from log_tier.rpc.open_streams import OpenStreams
from log_tier.rpc.problems import abort
from log_tier.rpc.time_left import time_left_s
from router.admin.admin import Admin, OpenAdmin
from router.admin.messages import change_from
from router.proto import admin_pb2 as pb
from router.proto import admin_pb2_grpc

__all__ = ["AdminService", "DescribeHealing"]

T = TypeVar("T")

_Context = grpc.aio.ServicerContext[Any, Any]

# For callers that set no deadline: what one question about a digest may take.
_TIMEOUT_DEFAULT_S: Final = 120.0

_WRITES_DEFAULT: Final = 10

# To copy a row into its message costs as much as so many keys of a read.
_ROW_ITEMS: Final = 4


DescribeHealing = Callable[[], Awaitable[pb.AdminHealing]]
"""Says what would be done about lost nodes now: a router's `router.admin.healing.description`."""


class AdminService(admin_pb2_grpc.AdminServicer):
    """Serves what `admin` gives when it is called. `streams`: the streams under way; a shutdown ends them. `healing`:
    what a router would do by itself about lost nodes.
    """

    def __init__(
        self, admin: OpenAdmin, streams: OpenStreams | None = None, healing: DescribeHealing | None = None
    ) -> None:
        self._admin = admin
        self._healing = healing
        self._streams = OpenStreams() if streams is None else streams

    @classmethod
    def at_hand(
        cls, admin: Admin, streams: OpenStreams | None = None, healing: DescribeHealing | None = None
    ) -> AdminService:
        """Serve an admin that is open already."""

        async def given() -> Admin:
            return admin

        return cls(given, streams, healing)

    async def Nodes(self, request: pb.AdminNodesRequest, context: _Context) -> pb.AdminNodes:  # noqa: N802
        found = await self._answer(lambda admin: admin.nodes(), context)
        return await run_sized(_ROW_ITEMS * len(found), lambda: pb.AdminNodes(nodes=found))

    async def Partitions(self, request: pb.AdminTableRequest, context: _Context) -> pb.AdminPartitions:  # noqa: N802
        found = await self._answer(lambda admin: admin.partitions(request.table), context)
        return await run_sized(_ROW_ITEMS * len(found), lambda: pb.AdminPartitions(partitions=found))

    async def Lag(self, request: pb.AdminTableRequest, context: _Context) -> pb.AdminLags:  # noqa: N802
        found = await self._answer(lambda admin: admin.lag(request.table), context)
        return await run_sized(_ROW_ITEMS * len(found), lambda: pb.AdminLags(replicas=found))

    async def Snapshots(self, request: pb.AdminTableRequest, context: _Context) -> pb.AdminSnapshots:  # noqa: N802
        found = await self._answer(lambda admin: admin.snapshots(request.table), context)
        return await run_sized(_ROW_ITEMS * len(found), lambda: pb.AdminSnapshots(snapshots=found))

    async def Versions(self, request: pb.AdminTableRequest, context: _Context) -> pb.AdminVersions:  # noqa: N802
        found = await self._answer(lambda admin: admin.versions(request.table), context)
        return await run_sized(_ROW_ITEMS * len(found), lambda: pb.AdminVersions(versions=found))

    async def Jobs(self, request: pb.AdminJobsRequest, context: _Context) -> pb.AdminJobs:  # noqa: N802
        found = await self._answer(lambda admin: admin.jobs(), context)
        return await run_sized(_ROW_ITEMS * len(found), lambda: pb.AdminJobs(jobs=found))

    async def Explain(self, request: pb.AdminExplainRequest, context: _Context) -> pb.AdminExplanation:  # noqa: N802
        writes = request.writes or _WRITES_DEFAULT
        return await self._answer(lambda admin: admin.explain(request.table, request.key, writes=writes), context)

    async def Verify(self, request: pb.AdminVerifyRequest, context: _Context) -> None:  # noqa: N802
        partition = Partition(request.partition) if request.HasField("partition") else None
        timeout = time_left_s(context, default_s=_TIMEOUT_DEFAULT_S)
        try:
            admin = await self._admin()
            verified = admin.verify(request.table, partition, timeout=timeout)
            async with self._streams.served(context), aclosing(cast("Any", verified)) as answers:
                async for answer in answers:
                    await context.write(answer)
        except DuramenError as error:
            await abort(context, error)

    async def AuditData(self, request: pb.AdminAuditDataRequest, context: _Context) -> None:  # noqa: N802
        timeout = time_left_s(context, default_s=_TIMEOUT_DEFAULT_S)
        try:
            admin = await self._admin()
            minutes = admin.audit_data(request, timeout=timeout)
            async with self._streams.served(context), aclosing(cast("Any", minutes)) as answers:
                async for answer in answers:
                    await context.write(answer)
        except DuramenError as error:
            await abort(context, error)

    async def Start(self, request: pb.AdminStartRequest, context: _Context) -> pb.AdminPlan:  # noqa: N802
        seen = Offset(request.version) if request.HasField("version") else None
        return await self._answer(
            lambda admin: admin.start(change_from(request), dry_run=request.dry_run, plan_id=request.plan, seen=seen),
            context,
        )

    async def Changes(self, request: pb.AdminChangesRequest, context: _Context) -> pb.AdminChanges:  # noqa: N802
        return await self._answer(lambda admin: admin.changes(request), context)

    async def Job(self, request: pb.AdminJobRequest, context: _Context) -> None:  # noqa: N802
        try:
            admin = await self._admin()
            if not request.follow:
                await context.write(await admin.job(request.job))
                return
            followed: Any = admin.follow_job(request.job)
            async with self._streams.served(context), aclosing(followed) as answers:
                async for answer in answers:
                    await context.write(answer)
        except DuramenError as error:
            await abort(context, error)

    async def SetRetention(  # noqa: N802
        self, request: pb.AdminSetRetentionRequest, context: _Context
    ) -> pb.AdminRetention:
        ms = request.retention_ms if request.HasField("retention_ms") else None
        size = request.retention_bytes if request.HasField("retention_bytes") else None
        return await self._answer(lambda admin: admin.set_retention(request.table, ms=ms, size=size), context)

    async def NoteAudit(  # noqa: N802
        self, request: pb.AdminNoteAuditRequest, context: _Context
    ) -> pb.AdminNoteAuditReply:
        return await self._answer(lambda admin: admin.note_audit(request), context)

    async def Abort(self, request: pb.AdminGoOnRequest, context: _Context) -> pb.AdminPlan:  # noqa: N802
        return await self._answer(lambda admin: admin.abort(request.job, dry_run=request.dry_run), context)

    async def Resume(self, request: pb.AdminGoOnRequest, context: _Context) -> pb.AdminPlan:  # noqa: N802
        return await self._answer(lambda admin: admin.resume(request.job, dry_run=request.dry_run), context)

    async def Healing(self, request: pb.AdminHealingRequest, context: _Context) -> pb.AdminHealing:  # noqa: N802
        if self._healing is None:
            await abort(context, InvalidRequest("this server heals no nodes: ask a router of the cluster (--at)"))
        return await self._healing()

    async def _answer(self, question: Callable[[Admin], Awaitable[T]], context: _Context) -> T:
        try:
            return await question(await self._admin())
        except DuramenError as error:
            await abort(context, error)
