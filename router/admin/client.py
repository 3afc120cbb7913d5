"""`duramen.v1.Admin` from the other side: the same questions and changes, asked of a server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from types import TracebackType
from typing import Any, Final, cast

from google.protobuf.unknown_fields import UnknownFieldSet

from log_tier.model.errors import Disconnected, UnknownFormat
from log_tier.model.identifiers import Offset, Partition
from log_tier.model.retention import Retention, check_retention
from log_tier.rpc.wire import Wire
from router.admin.messages import start_request
from router.admin.verbs import AdminChange
from router.proto import admin_pb2 as pb
from router.proto import admin_pb2_grpc

__all__ = ["TIMEOUT_DEFAULT_S", "AdminConnection"]

# Reserved in every reply: answers were once JSON text in it.
_JSON_FIELD: Final = 1

# Longer than the catalog and a node that is away take together, shorter than a person waits.
TIMEOUT_DEFAULT_S: Final = 10.0


class AdminConnection:
    """Administers a cluster through one of its servers. Answers are the messages of `admin.proto`.

    Every call raises what the server says, and `Disconnected`, `DeadlineExceeded`.
    """

    def __init__(self, target: str, *, timeout: float = TIMEOUT_DEFAULT_S) -> None:
        """`target`: host:port of any server; `timeout`: seconds for a question that is no stream."""
        self.target = target
        self._timeout = timeout
        self._wire = Wire(target)
        self._stub: Any = admin_pb2_grpc.AdminStub(self._wire.channel)  # type: ignore[no-untyped-call]

    async def __aenter__(self) -> AdminConnection:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def nodes(self) -> list[pb.AdminNode]:
        """Every registered node."""
        reply: pb.AdminNodes = await self._ask(self._stub.Nodes, pb.AdminNodesRequest())
        return list(reply.nodes)

    async def partitions(self, table: str = "") -> list[pb.AdminPartition]:
        """Every partition of a table, or of all."""
        reply: pb.AdminPartitions = await self._ask(self._stub.Partitions, pb.AdminTableRequest(table=table))
        return list(reply.partitions)

    async def lag(self, table: str = "") -> list[pb.AdminLag]:
        """Every replica, the furthest behind first."""
        reply: pb.AdminLags = await self._ask(self._stub.Lag, pb.AdminTableRequest(table=table))
        return list(reply.replicas)

    async def snapshots(self, table: str = "") -> list[pb.AdminSnapshot]:
        """The known snapshots."""
        reply: pb.AdminSnapshots = await self._ask(self._stub.Snapshots, pb.AdminTableRequest(table=table))
        return list(reply.snapshots)

    async def versions(self, table: str = "") -> list[pb.AdminVersion]:
        """The versions of a table, or of all."""
        reply: pb.AdminVersions = await self._ask(self._stub.Versions, pb.AdminTableRequest(table=table))
        return list(reply.versions)

    async def jobs(self) -> list[pb.AdminJobSummary]:
        """The jobs that the catalog remembers."""
        reply: pb.AdminJobs = await self._ask(self._stub.Jobs, pb.AdminJobsRequest())
        return list(reply.jobs)

    async def explain(self, table: str, key: bytes, *, writes: int = 10) -> pb.AdminExplanation:
        """The story of a key."""
        request = pb.AdminExplainRequest(table=table, key=key, writes=writes)
        reply: pb.AdminExplanation = await self._ask(self._stub.Explain, request)
        return reply

    async def verify(self, table: str, partition: Partition | None = None) -> AsyncIterator[pb.AdminComparison]:
        """Compare replicas, partition by partition."""
        request = pb.AdminVerifyRequest(table=table)
        if partition is not None:
            request.partition = partition
        async with aclosing(cast("Any", self._wire.stream(self._stub.Verify, request))) as replies:
            async for reply in replies:
                yield self._checked(reply)

    async def audit_data(
        self,
        table: str,
        partition: Partition | None = None,
        *,
        since_ms: int = 0,
        acknowledged: Sequence[pb.AdminAcknowledged] = (),
    ) -> AsyncIterator[pb.AdminMinute]:
        """What the log holds and the tiers counted, minute by minute; `acknowledged`: by a client's session."""
        request = pb.AdminAuditDataRequest(
            table=table, partition=partition, since_ms=since_ms, acknowledged=acknowledged
        )
        async with aclosing(cast("Any", self._wire.stream(self._stub.AuditData, request))) as replies:
            async for reply in replies:
                yield self._checked(reply)

    async def note_audit(self, request: pb.AdminNoteAuditRequest) -> Offset:
        """Keep with a table what an audit found. Returns the catalog's version that has it."""
        reply: pb.AdminNoteAuditReply = await self._ask(self._stub.NoteAudit, request)
        return Offset(reply.version)

    async def start(
        self, change: AdminChange, *, dry_run: bool = False, plan_id: str = "", seen: int | None = None
    ) -> pb.AdminPlan:
        """Plan a change, and begin it unless it is a dry run. `plan_id` and `seen`: see `Admin.start`."""
        request = start_request(change, dry_run=dry_run, plan_id=plan_id)
        if seen is not None:
            request.version = seen
        reply: pb.AdminPlan = await self._ask(self._stub.Start, request)
        return reply

    async def set_retention(self, table: str, *, ms: int | None = None, size: int | None = None) -> pb.AdminRetention:
        """Change how much of its log a table keeps: `ms`, and `size` bytes of each partition. 0: no bound, None: as it
        is. Raises `InvalidRequest` for a number that no message can carry.
        """
        for bound in (ms, size):
            if bound is not None:
                check_retention(Retention(bound))
        request = pb.AdminSetRetentionRequest(table=table, retention_ms=ms, retention_bytes=size)
        reply: pb.AdminRetention = await self._ask(self._stub.SetRetention, request)
        return reply

    async def healing(self) -> pb.AdminHealing:
        """What the router would do by itself about lost nodes now. Raises `InvalidRequest` where it is no router."""
        reply: pb.AdminHealing = await self._ask(self._stub.Healing, pb.AdminHealingRequest())
        return reply

    async def changes(self, *, limit: int = 0, since_ms: int = 0) -> pb.AdminChanges:
        """The last commands of the catalog: at most `limit` (0: 100), from a time on."""
        request = pb.AdminChangesRequest(limit=limit, since_ms=since_ms)
        reply: pb.AdminChanges = await self._ask(self._stub.Changes, request)
        return reply

    async def job(self, job_id: int) -> pb.AdminJob:
        """One job with its tasks."""
        async for job in self._job(job_id, follow=False):
            return job
        raise Disconnected(f"the server at {self.target} ended without telling of job {job_id}: ask again")

    def follow_job(self, job_id: int) -> AsyncIterator[pb.AdminJob]:
        """One job at every change, until it is over. Raises `Disconnected` when the server goes away; the job goes on,
        and can be followed again anywhere.
        """
        return self._job(job_id, follow=True)

    async def _job(self, job_id: int, *, follow: bool) -> AsyncIterator[pb.AdminJob]:
        request = pb.AdminJobRequest(job=job_id, follow=follow)
        async with aclosing(cast("Any", self._wire.stream(self._stub.Job, request))) as replies:
            async for reply in replies:
                yield self._checked(reply)

    async def abort(self, job_id: int, *, dry_run: bool = False) -> pb.AdminPlan:
        """Undo what a job has begun and not finished."""
        reply: pb.AdminPlan = await self._ask(self._stub.Abort, pb.AdminGoOnRequest(job=job_id, dry_run=dry_run))
        return reply

    async def resume(self, job_id: int, *, dry_run: bool = False) -> pb.AdminPlan:
        """Take up a job again."""
        reply: pb.AdminPlan = await self._ask(self._stub.Resume, pb.AdminGoOnRequest(job=job_id, dry_run=dry_run))
        return reply

    async def _ask(self, method: Any, request: Any) -> Any:
        return self._checked(await self._wire.ask(method, request, timeout=self._timeout))

    def _checked(self, reply: Any) -> Any:
        """The reply. Raises `UnknownFormat` for the reply of an older server, whose answers were JSON text."""
        unknown = UnknownFieldSet(reply)
        if any(unknown[index].field_number == _JSON_FIELD for index in range(len(unknown))):
            raise UnknownFormat(
                f"the server at {self.target} gives the answers of an older version, which this one does not read: "
                "update the server, or administer it with its own version of `duramen admin`"
            )
        return reply

    async def close(self) -> None:
        """Close the channel. Idempotent."""
        await self._wire.close()
