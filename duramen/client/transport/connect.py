"""connect(): fetch the cluster map and choose between one gRPC connection and client-side routing.

a server that is the whole cluster      one gRPC connection to it
a router or a node of a larger one      the routed connection (`router.routing`) in this process: the map from that
                                        server, straight to the nodes and to the log; and that server again for
                                        whatever cannot be reached from here

What routes, the classes of the cluster map among it, is imported for a larger cluster only, and what fails over for
several addresses: a client of one server imports less than half of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from log_tier.catalog.remote.cluster_question import ask_cluster
from log_tier.model.errors import (
    DeadlineExceeded,
    Disconnected,
    DuramenError,
    Unavailable,
    UnknownFormat,
)
from log_tier.proto.cluster_pb2 import ClusterView
from router.data.seam import Connection
from router.remote.grpc_connection import GrpcConnection

__all__ = ["connect_to"]

# Of several servers one may be away without a sign of it; then the next one gets the question soon.
_SEVERAL_S: Final = 2.0


async def connect_to(targets: Sequence[str], *, timeout: float, direct: bool) -> Connection:
    """Connect to the first of these servers that answers; when it is lost, calls go to the others.

    `direct` False: everything goes through the server, which passes on what it does not hold. Raises `Disconnected`
    where none answers.
    """
    answering, view = await _first_view(targets, timeout)
    ordered = [answering, *(target for target in targets if target != answering)]
    alone = direct and len(ordered) == 1 and view is not None and view.role == "single"
    servers = [GrpcConnection(target, alone=alone, pass_on=not direct) for target in ordered]
    server = servers[0] if len(servers) == 1 else _failing_over(servers)
    if view is None or view.role == "single" or not direct:
        return server
    from duramen.client.transport.routing import route_from

    return await route_from(ordered, view, server)


def _failing_over(servers: Sequence[Connection]) -> Connection:
    from router.routing.failover import FailoverConnection

    return FailoverConnection(servers)


async def _first_view(targets: Sequence[str], timeout: float) -> tuple[str, ClusterView | None]:
    """The first server that answers, and what it says of the cluster; None where it knows of no cluster."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout
    failure: DuramenError = Disconnected("no server was tried")
    for number, target in enumerate(targets):
        left = max(0.0, deadline - loop.time())
        try:
            return target, await ask_cluster(
                target, timeout=left if number == len(targets) - 1 else min(left, _SEVERAL_S)
            )
        except UnknownFormat:
            return target, None
        except Unavailable as error:
            failure = error
        except TimeoutError:
            failure = DeadlineExceeded(f"the server at {target} did not answer in time; is it running?")
    raise failure
