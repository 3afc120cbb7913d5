"""`duramen.v1.RespEndpoint`: where the RESP endpoint of this process is, for other nodes and for Duramen's client."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

import grpc

from log_tier.access.gate import Gate
from log_tier.privacy.machine_socket import MachineSocket
from router.endpoints.resp.server.sockets import RespSettings
from router.proto import resp_endpoint_pb2, resp_endpoint_pb2_grpc

__all__ = ["RespEndpointService"]

_NO_SOCKET: Final = MachineSocket("", 0)


class RespEndpointService(resp_endpoint_pb2_grpc.RespEndpointServicer):
    """Says where the endpoint is, and what a connection has to prove there."""

    def __init__(
        self,
        settings: RespSettings,
        place: Callable[[], tuple[int, MachineSocket | None]],
        gate: Gate,
        open_endpoint: Callable[[], Awaitable[None]],
    ) -> None:
        """`place`: the TCP port, 0 for none, and the socket for clients of this machine, of what is open. `gate`: knows
        whether there are users. `open_endpoint`: opens it for clients of this machine.
        """
        self._settings, self._place, self._gate, self._open_endpoint = settings, place, gate, open_endpoint

    async def Describe(  # noqa: N802
        self, request: resp_endpoint_pb2.DescribeRespEndpointRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> resp_endpoint_pb2.RespEndpointDescription:
        if request.open:
            await self._open_endpoint()
        has_password, has_users = bool(self._settings.password), self._gate.trust.is_closed
        port, machine = self._place()
        machine = machine or _NO_SOCKET
        return resp_endpoint_pb2.RespEndpointDescription(
            port=port,
            tls=self._settings.tls_certificate is not None,
            password=has_password or has_users,
            machine_socket=machine.name,
            owner=machine.owner,
            users=has_users and not has_password,
        )
