"""`duramen.v1.Admin` from the other side: the same questions and changes, asked of a server."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from types import TracebackType
from typing import Any, Final, cast

from log_tier.model.errors import Disconnected
from log_tier.model.identifiers import Partition
from log_tier.rpc.wire import Wire
from router.admin import requests
from router.admin.messages import start_request
from router.proto import admin_pb2 as pb
from router.proto import admin_pb2_grpc

__all__ = ["TIMEOUT_DEFAULT_S", "AdminConnection"]

Document = dict[str, Any]

# Longer than the catalog and a node that is away take together, shorter than a person waits.
TIMEOUT_DEFAULT_S: Final = 10.0


class AdminConnection:
    """Administers a cluster through one of its servers. Answers are the documents that `admin.proto` describes.

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

    async def nodes(self) -> list[Document]:
        """Every registered node."""
        return await self._listed(self._stub.Nodes, pb.AdminNodesRequest())

    async def partitions(self, table: str = "") -> list[Document]:
        """Every partition of a table, or of all."""
        return await self._listed(self._stub.Partitions, pb.AdminTableRequest(table=table))

    async def lag(self, table: str = "") -> list[Document]:
        """Every replica, the furthest behind first."""
        return await self._listed(self._stub.Lag, pb.AdminTableRequest(table=table))

    async def snapshots(self, table: str = "") -> list[Document]:
        """The known snapshots."""
        return await self._listed(self._stub.Snapshots, pb.AdminTableRequest(table=table))

    async def versions(self, table: str = "") -> list[Document]:
        """The versions of a table, or of all."""
        return await self._listed(self._stub.Versions, pb.AdminTableRequest(table=table))

    async def jobs(self) -> list[Document]:
        """The jobs that the catalog remembers."""
        return await self._listed(self._stub.Jobs, pb.AdminJobsRequest())

    async def explain(self, table: str, key: bytes, *, writes: int = 10) -> Document:
        """The story of a key."""
        request = pb.AdminExplainRequest(table=table, key=key, writes=writes)
        return await self._one(self._stub.Explain, request)

    async def verify(self, table: str, partition: Partition | None = None) -> AsyncIterator[Document]:
        """Compare replicas, partition by partition."""
        request = pb.AdminVerifyRequest(table=table)
        if partition is not None:
            request.partition = partition
        async with aclosing(cast("Any", self._wire.stream(self._stub.Verify, request))) as replies:
            async for reply in replies:
                yield json.loads(reply.json)

    async def start(self, change: requests.Change, *, dry_run: bool = False, plan_id: str = "") -> Document:
        """Plan a change, and begin it unless it is a dry run."""
        return await self._one(self._stub.Start, start_request(change, dry_run=dry_run, plan_id=plan_id))

    async def job(self, job_id: int) -> Document:
        """One job with its tasks."""
        async for document in self._job(job_id, follow=False):
            return document
        raise Disconnected(f"the server at {self.target} ended without telling of job {job_id}: ask again")

    def follow_job(self, job_id: int) -> AsyncIterator[Document]:
        """One job at every change, until it is over. Raises `Disconnected` when the server goes away; the job goes on,
        and can be followed again anywhere.
        """
        return self._job(job_id, follow=True)

    async def _job(self, job_id: int, *, follow: bool) -> AsyncIterator[Document]:
        request = pb.AdminJobRequest(job=job_id, follow=follow)
        async with aclosing(cast("Any", self._wire.stream(self._stub.Job, request))) as replies:
            async for reply in replies:
                yield json.loads(reply.json)

    async def abort(self, job_id: int, *, dry_run: bool = False) -> Document:
        """Undo what a job has begun and not finished."""
        return await self._one(self._stub.Abort, pb.AdminGoOnRequest(job=job_id, dry_run=dry_run))

    async def resume(self, job_id: int, *, dry_run: bool = False) -> Document:
        """Take up a job again."""
        return await self._one(self._stub.Resume, pb.AdminGoOnRequest(job=job_id, dry_run=dry_run))

    async def _one(self, method: Any, request: Any) -> Document:
        document: Document = json.loads((await self._wire.ask(method, request, timeout=self._timeout)).json)
        return document

    async def _listed(self, method: Any, request: Any) -> list[Document]:
        reply = await self._wire.ask(method, request, timeout=self._timeout)
        return [json.loads(text) for text in reply.json]

    async def close(self) -> None:
        """Close the channel. Idempotent."""
        await self._wire.close()
