"""The fast door of a role: opened over whatever the role reaches the data by, and told of by gRPC."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Final

from duramen.roles.readers import Readers
from duramen.roles.shell import Shell
from log_tier.catalog.catalog import Maps
from router.fleet.fleet import LiveFleet
from router.proto import fast_door_pb2, fast_door_pb2_grpc
from router.requests import Connection
from router.resp_door.door import OpenAdmin, RespDoor
from router.resp_door.neighbours import FastDoorService, FleetNeighbours
from router.resp_door.sockets import DoorSettings, DoorSockets
from serving_tier.node import Node

__all__ = ["FAST_DOOR_SERVICES", "NO_DOOR", "open_fast_door"]

FAST_DOOR_SERVICES: Final = (fast_door_pb2.DESCRIPTOR.services_by_name["FastDoor"].full_name,)

NO_DOOR: Final = DoorSettings()
"""Without one."""


async def open_fast_door(
    opened: AsyncExitStack,
    shell: Shell,
    connection: Connection,
    maps: Maps,
    settings: DoorSettings,
    sockets: DoorSockets,
    *,
    node: Node | None = None,
    node_id: str = "",
    fleet: LiveFleet | None = None,
    admin: OpenAdmin | None = None,
) -> tuple[str, ...]:
    """Open the door, if it is wanted; `opened` closes it. The names of the services that were added to the shell.

    `fleet`: the other nodes; without it this server is alone. `admin`: what clears tables.
    """
    if not settings.wanted:
        return ()
    door = await RespDoor.open(
        connection,
        maps,
        settings,
        sockets,
        node=node,
        node_id=node_id,
        fleet=fleet,
        neighbours=FleetNeighbours(fleet) if fleet is not None else None,
        admin=admin,
    )
    opened.push_async_callback(door.close)
    if settings.readers:
        readers = await Readers.start(door, settings, sockets)
        opened.push_async_callback(readers.close)
    service = FastDoorService(
        port=sockets.port, tls=settings.tls_certificate is not None, password=bool(settings.password)
    )
    fast_door_pb2_grpc.add_FastDoorServicer_to_server(service, shell.doors)  # type: ignore[no-untyped-call]
    return FAST_DOOR_SERVICES
