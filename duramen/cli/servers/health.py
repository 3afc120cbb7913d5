"""`duramen health`: what a server says of itself, for scripts and containers."""

from __future__ import annotations

from typing import Annotated

import typer

from duramen.cli.terminal.exits import RETRY
from duramen.cli.terminal.options import AT_DEFAULT, At, Json, check_at
from duramen.cli.terminal.output import say, say_json

__all__ = ["health"]


def health(
    at: At = AT_DEFAULT,
    timeout: Annotated[float, typer.Option("--timeout", metavar="SECONDS", help="How long to wait.")] = 3.0,
    json: Json = False,
) -> None:
    """Ask a server of any role whether it serves: exit code 0 if so, 5 if not (yet), or where nobody answers.

    A node serves when every replica that it should have is level with the log.

    \b
      duramen health --at localhost:7070
    """
    check_at(at, timeout)
    import grpc
    from grpc_health.v1 import health_pb2, health_pb2_grpc

    from log_tier.model.errors import Disconnected
    from log_tier.rpc.security import SECURITY, channel_credentials, handshake_failure

    security = SECURITY.get()
    opened = grpc.insecure_channel(at) if security is None else grpc.secure_channel(at, channel_credentials(security))
    with opened as channel:
        try:
            reply = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=timeout)
        except grpc.RpcError as error:
            if (refused := handshake_failure(at, error.details() or "")) is not None:
                raise refused from error
            raise Disconnected(f"no server answers at {at} ({error.code().name})") from error
    status = health_pb2.HealthCheckResponse.ServingStatus.Name(reply.status)
    if json:
        say_json({"at": at, "status": status})
    else:
        say(status)
    if reply.status != health_pb2.HealthCheckResponse.SERVING:
        raise typer.Exit(RETRY)
