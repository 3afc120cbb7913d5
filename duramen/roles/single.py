"""The whole database in one process, on one port; its log may be a Kafka cluster instead."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

from duramen.embedded import NODE_ID, open_machine
from duramen.roles.fast_door import NO_DOOR, open_fast_door
from duramen.roles.node_role import NODE_SERVICES, add_node_services
from duramen.roles.shell import Shell
from duramen.serving_node import ON_DEMAND, SnapshotPolicy
from log_tier.proto import log_pb2, log_pb2_grpc
from log_tier.service.server import LogService
from router.admin.opening import AdminOnDemand
from router.front import Front
from router.resp_door.sockets import DoorSettings, DoorSockets

__all__ = ["SingleServer"]

_SERVICES: Final = (*NODE_SERVICES, log_pb2.DESCRIPTOR.services_by_name["Log"].full_name)


class SingleServer:
    """A running server. `open()` makes one, `close()` ends it without losing anything."""

    role = "single"

    def __init__(self, shell: Shell, front: Front, resp_port: int, opened: AsyncExitStack) -> None:
        self.shell = shell
        self.front = front
        self.resp_port = resp_port
        """Of the fast door; 0 where there is none."""
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
        fast_door: DoorSettings = NO_DOOR,
    ) -> SingleServer:
        """Open the data folder and listen. `log_url`: where the log is, if not there. `take_over`: see `open_front`.

        Raises `PortInUse`, and what `open_front` raises.
        """
        async with AsyncExitStack() as opened:
            shell = await Shell.listen(host, port)
            async with AsyncExitStack() as unless_opened:
                unless_opened.push_async_callback(shell.close)
                sockets = DoorSockets.take(fast_door)
                unless_opened.callback(sockets.close)
                machine = await open_machine(
                    data, log_url=log_url, take_over=take_over, address=shell.address, snapshots=snapshots
                )
                unless_opened.pop_all()
            opened.push_async_callback(machine.front.close)
            admin = AdminOnDemand(machine.front.catalog, machine.front.log)
            opened.push_async_callback(admin.close)
            opened.push_async_callback(
                add_node_services(shell, machine.front, machine.node, admin, role="single", log_url="")
            )
            opened.push_async_callback(shell.close)
            log_pb2_grpc.add_LogServicer_to_server(LogService(machine.front.log, shell.streams), shell.doors)  # type: ignore[no-untyped-call]
            front = machine.front
            added = await open_fast_door(
                opened,
                shell,
                front,
                front.catalog,
                fast_door,
                sockets,
                node=front.node,
                node_id=NODE_ID,
                admin=admin,
            )
            await shell.start((*_SERVICES, *added))
            return cls(shell, machine.front, sockets.port, opened.pop_all())
        raise AssertionError("not reached")

    @property
    def port(self) -> int:
        """The port it listens on."""
        return self.shell.port

    async def close(self) -> None:
        """Say that no new work is taken, let what is under way end, close indexes and log cleanly."""
        await self._opened.aclose()
