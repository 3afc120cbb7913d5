"""The log role: the embedded log behind gRPC."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final
from urllib.parse import quote

from duramen.server.roles.grpc_server import GrpcServer
from duramen.server.roles.servers_only import ServersOnly
from duramen.server.wiring.server_certificates import ServerCertificates
from log_tier.embedded import RecoveryReport
from log_tier.model.log import Log
from log_tier.open import open_log
from log_tier.proto import log_pb2, log_pb2_grpc
from log_tier.remote.service import LogService
from log_tier.rpc.messages.stream_bound import LOG_STREAMS_MAX

__all__ = ["LogRole"]

_SERVICES: Final = (log_pb2.DESCRIPTOR.services_by_name["Log"].full_name,)


class LogRole:
    """A running log server. It owns the data folder; one process at a time does."""

    role = "log"

    def __init__(self, shell: GrpcServer, log: Log, opened: AsyncExitStack) -> None:
        self.shell = shell
        self.log = log
        self._opened = opened

    @classmethod
    async def open(
        cls,
        data: Path,
        *,
        host: str,
        port: int,
        certificates: ServerCertificates | None = None,
        streams_max: int = LOG_STREAMS_MAX,
    ) -> LogRole:
        """Open the log below `data` and listen. `certificates`: for TLS; then only servers of their CA may call it.
        `streams_max`: how many streams may be open at once.

        Raises `PortInUse`, `FolderInUse`, and what opening a log raises.
        """
        async with AsyncExitStack() as opened:
            secured = certificates is not None
            shell = await GrpcServer.listen(
                host, port, certificates=certificates, require_client_certificate=secured, streams_max=streams_max
            )
            if secured:
                shell.guard_with(ServersOnly())
            async with AsyncExitStack() as unless_opened:
                unless_opened.push_async_callback(shell.close)
                log = await open_log(f"file://{quote(str(await asyncio.to_thread(data.absolute)))}")
                unless_opened.pop_all()
            opened.push_async_callback(log.close)
            opened.push_async_callback(shell.close)  # the first to close: the log ends when nobody asks it any more
            log_pb2_grpc.add_LogServicer_to_server(LogService(log, shell.streams), shell.registry)  # type: ignore[no-untyped-call]
            await shell.start(_SERVICES)
            return cls(shell, log, opened.pop_all())
        raise AssertionError("not reached")

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
        await self._opened.aclose()
