"""The log role: the embedded log behind gRPC.

Its HTTP port asks the users of the catalog, which is in this log. Nothing else here reads the catalog: a log serves its
cluster also where the catalog is damaged, and then has no HTTP port.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import quote

from duramen.server.roles.grpc_server import GrpcServer
from duramen.server.roles.http_port import HttpAccess, open_http
from duramen.server.roles.servers_only import ServersOnly
from duramen.server.sight.http_limits import HttpLimits
from duramen.server.sight.server_sight import ServerSight, SightSources
from duramen.server.wiring.server_certificates import ServerCertificates
from log_tier.access.authenticator import Authenticator
from log_tier.access.gate import Gate
from log_tier.catalog.catalog import Catalog
from log_tier.catalog.map_follower import MapFollower
from log_tier.catalog.service import StatusService
from log_tier.concurrency.clocks import SYSTEM_CLOCK, Clock
from log_tier.concurrency.tasks import end_tasks, every_step
from log_tier.embedded import EmbeddedLog, RecoveryReport
from log_tier.model.errors import DuramenError
from log_tier.model.log import Log
from log_tier.open import open_log
from log_tier.proto import cluster_pb2, cluster_pb2_grpc, log_pb2, log_pb2_grpc
from log_tier.remote.service import LogService
from log_tier.rpc.messages.stream_bound import LOG_STREAMS_MAX
from log_tier.slow_calls.slow_call_log import SLOW_CALL_MS

__all__ = ["LogRole", "log_sight"]

logger = logging.getLogger(__name__)

_SERVICES: Final = (
    log_pb2.DESCRIPTOR.services_by_name["Log"].full_name,
    cluster_pb2.DESCRIPTOR.services_by_name["Cluster"].full_name,
)


def log_sight(
    shell: GrpcServer,
    log: Log,
    data: Path,
    certificates: ServerCertificates | None,
    clock: Clock = SYSTEM_CLOCK,
) -> ServerSight:
    """What knows a log in `data`."""
    sources = SightSources(role="log", name="log", bound=shell.bound, log=log, folder=data, certificates=certificates)
    return ServerSight(sources, clock=clock)


class LogRole:
    """A running log server. It owns the data folder; one process at a time does."""

    role = "log"

    def __init__(self, shell: GrpcServer, log: Log, sight: ServerSight, opened: AsyncExitStack) -> None:
        self.shell = shell
        self.log = log
        self.sight = sight
        """What it knows of itself."""
        self.http_port = 0
        """The port of health and status over HTTP; 0 if there is none."""
        self._opened = opened
        self._http = AsyncExitStack()
        self._ending: asyncio.Task[None] | None = None

    @classmethod
    async def open(
        cls,
        data: Path,
        *,
        host: str,
        port: int,
        certificates: ServerCertificates | None = None,
        streams_max: int = LOG_STREAMS_MAX,
        slow_call_ms: int = SLOW_CALL_MS,
        clock: Clock = SYSTEM_CLOCK,
    ) -> LogRole:
        """Open the log below `data` and listen. `certificates`: for TLS; then only servers of their CA may call it.
        `streams_max`: how many streams may be open at once. `slow_call_ms`: from which duration on it logs a slow call;
        0: none. `clock`: of its status.

        Raises `PortInUse`, `FolderInUse`, and what opening a log raises.
        """
        async with AsyncExitStack() as opened:
            secured = certificates is not None
            shell = await GrpcServer.listen(
                host, port, certificates=certificates, require_client_certificate=secured, streams_max=streams_max
            )
            shell.slow.set_threshold(slow_call_ms)
            if secured:
                shell.guard_with(ServersOnly())
            async with AsyncExitStack() as unless_opened:
                unless_opened.push_async_callback(shell.close)
                log = await open_log(f"file://{quote(str(await asyncio.to_thread(data.absolute)))}")
                unless_opened.pop_all()
            opened.push_async_callback(log.close)
            if isinstance(log, EmbeddedLog):
                shell.slow.know(commits=log.long_commits)
            opened.push_async_callback(shell.close)  # the first to close: the log ends when nobody asks it any more
            log_pb2_grpc.add_LogServicer_to_server(LogService(log, shell.streams), shell.registry)  # type: ignore[no-untyped-call]
            sight = log_sight(shell, log, data, certificates, clock)
            status = StatusService(sight.status_json, shell.slow.slow_json)
            cluster_pb2_grpc.add_ClusterServicer_to_server(status, shell.registry)  # type: ignore[no-untyped-call]
            await shell.start(_SERVICES)
            return cls(shell, log, sight, opened.pop_all())
        raise AssertionError("not reached")

    async def serve_http(
        self,
        port: int | None,
        certificates: ServerCertificates | None = None,
        limits: HttpLimits | None = None,
        *,
        history: bool = False,
    ) -> None:
        """Answer health, status and metrics over HTTP as well: `ServesHttp`. Where the catalog cannot be read nothing
        listens, and the log says why. `history` changes nothing: a log has no way to tables.
        """
        async with AsyncExitStack() as opened:
            try:
                catalog = await Catalog.open(self.log)
            except DuramenError as error:
                logger.error("the log has no HTTP port, as its users are not known: %s", error)
                return
            opened.push_async_callback(catalog.close)
            gate = Gate(lambda: catalog.map)
            follower = MapFollower(catalog)
            opened.push_async_callback(
                await follower.follow(gate.follow, name="following users and grants", failed=self._lose_users)
            )
            self.shell.slow.know(maps=lambda: catalog.map)
            access = HttpAccess(gate, Authenticator(gate))
            self.http_port = await open_http(
                opened,
                self.shell,
                self.sight,
                access,
                port,
                certificates,
                limits,
                answers_calls=False,
                registry=(catalog, self.log),
            )
            self._http = opened.pop_all()
            self._opened.push_async_callback(self._end_http)

    def _lose_users(self, error: DuramenError) -> None:
        """Users are followed no longer: what was revoked since would still be answered."""
        logger.error("the HTTP port of the log ends, as its users are not known any more: %s", error)
        self._ending = asyncio.get_running_loop().create_task(self._end_http(), name="ending the HTTP port")

    async def _end_http(self) -> None:
        """Answer over HTTP no longer. Idempotent."""
        opened, self._http, self.http_port = self._http, AsyncExitStack(), 0
        await opened.aclose()

    @property
    def port(self) -> int:
        """The port it listens on."""
        return self.shell.port

    @property
    def recovery(self) -> RecoveryReport | None:
        """The report of the log's recovery when it was opened."""
        return getattr(self.log, "recovery", None)

    async def close(self) -> None:
        """Stop cleanly."""
        await every_step(partial(end_tasks, self._ending), self._opened.aclose)
