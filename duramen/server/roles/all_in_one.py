"""The whole database in one process, on one port; its log may be a Kafka cluster instead."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

from duramen.server.roles.grpc_server import GrpcServer
from duramen.server.roles.kv import add_kv_service, here
from duramen.server.roles.node_role import NODE_SERVICES, add_node_services
from duramen.server.roles.resp_endpoint import NO_DOOR, open_resp_endpoint
from duramen.server.wiring.serving_node import ON_DEMAND, SnapshotPolicy
from duramen.server.wiring.single_machine import NODE_ID, open_single_machine
from log_tier.model.errors import DuramenError
from log_tier.proto import log_pb2, log_pb2_grpc
from log_tier.remote.service import LogService
from router.admin.lazy import AdminOnDemand
from router.data.local_data import LocalData
from router.endpoints.resp.server.sockets import RespSettings, RespSockets

__all__ = ["SingleServer"]

_SERVICES: Final = (*NODE_SERVICES, log_pb2.DESCRIPTOR.services_by_name["Log"].full_name)


class SingleServer:
    """A running server. `open()` makes one, `close()` ends it without losing anything."""

    role = "single"

    def __init__(
        self,
        shell: GrpcServer,
        data_plane: LocalData,
        resp_port: int,
        ended: asyncio.Future[DuramenError],
        opened: AsyncExitStack,
    ) -> None:
        self.shell = shell
        self.data_plane = data_plane
        self.resp_port = resp_port
        """Of the RESP endpoint; 0 where there is none."""
        self.ended = ended
        """Why this server must not go on."""
        self._opened = opened

    @classmethod
    async def open(
        cls,
        data: Path,
        *,
        log_url: str | None = None,
        take_over: bool = False,
        host: str = "127.0.0.1",
        port: int = 7070,
        snapshots: SnapshotPolicy = ON_DEMAND,
        resp_endpoint: RespSettings = NO_DOOR,
    ) -> SingleServer:
        """Open the data folder and listen. `log_url`: where the log is, if not there. `take_over`: see
        `open_local_data`.

        Raises `PortInUse`, and what `open_local_data` raises.
        """
        async with AsyncExitStack() as opened:
            shell = await GrpcServer.listen(host, port)
            async with AsyncExitStack() as unless_opened:
                unless_opened.push_async_callback(shell.close)
                sockets = RespSockets.take(resp_endpoint)
                unless_opened.callback(sockets.close)
                machine = await open_single_machine(
                    data, log_url=log_url, take_over=take_over, address=shell.address, snapshots=snapshots
                )
                unless_opened.pop_all()
            opened.push_async_callback(machine.data_plane.close)
            admin = AdminOnDemand(machine.data_plane.catalog, machine.data_plane.log)
            opened.push_async_callback(admin.close)
            opened.push_async_callback(
                add_node_services(shell, machine.data_plane, machine.node, admin, role="single", log_url="")
            )
            kv = add_kv_service(opened, shell, here(machine.data_plane), machine.node.load)
            opened.push_async_callback(shell.close)
            log_pb2_grpc.add_LogServicer_to_server(LogService(machine.data_plane.log, shell.streams), shell.doors)  # type: ignore[no-untyped-call]
            data_plane = machine.data_plane
            added = await open_resp_endpoint(
                opened,
                shell,
                data_plane,
                data_plane.catalog,
                resp_endpoint,
                sockets,
                node=data_plane.node,
                node_id=NODE_ID,
                admin=admin,
            )
            await shell.start((*_SERVICES, *kv, *added))
            return cls(shell, machine.data_plane, sockets.port, machine.node.ended, opened.pop_all())
        raise AssertionError("not reached")

    @property
    def port(self) -> int:
        """The port it listens on."""
        return self.shell.port

    async def close(self) -> None:
        """Say that no new work is taken, let what is under way end, close indexes and log cleanly."""
        await self._opened.aclose()
