"""connect(): fetch the cluster map and choose between one gRPC connection and client-side routing.

a server that is the whole cluster      one gRPC connection to it
a router or a node of a larger one      the routed connection (`router.routing`) in this process: the map from that
                                        server, straight to the nodes and to the log; and that server again for
                                        whatever cannot be reached from here

A server that cannot be reached is tried again until the time is over: it may be starting. A restarted server listens
before it has opened its log, so it may accept connections and stay silent for a while. What a retry cannot mend ends
the try at once: a server that does not know the caller, or whose certificate does not fit.

Several servers are asked in their order. The next one is asked as soon as the one before it has failed, or has been
silent for `_SEVERAL_S`. Each goes on being tried until one of them answers.

What routes, the classes of the cluster map among it, is imported for a larger cluster only, and what fails over for
several addresses: a client of one server imports less than half of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from log_tier.catalog.remote.cluster_question import ask_cluster
from log_tier.concurrency.backoff import Backoff
from log_tier.concurrency.tasks import end_tasks
from log_tier.model.errors import (
    DeadlineExceeded,
    DuramenError,
    HandshakeFailed,
    Unavailable,
    UnknownFormat,
)
from log_tier.proto.cluster_pb2 import ClusterView
from router.data.seam import Connection
from router.remote.grpc_connection import GrpcConnection

__all__ = ["connect_to"]

# Of several servers one may be away without a sign of it; then the next one gets the question soon.
_SEVERAL_S: Final = 2.0

# Between two tries. A server that comes back is found within half a second; each try is a new TCP connection.
_PAUSE_FIRST_S: Final = 0.02
_PAUSE_MAX_S: Final = 0.5

# Limit of the first try; each later one may take twice as long, for servers that are slow. Where a server is connected
# and does not answer, a new connection may reach another one behind the same address.
_TRY_FIRST_S: Final = 6.0


TryFailed: TypeAlias = Callable[[DuramenError], object]
"""Called with the failure of each try."""


def _unheard(_: DuramenError) -> None:
    """Nobody asks for the failures of single tries."""


async def connect_to(
    targets: Sequence[str], *, timeout: float, direct: bool, failed: TryFailed = _unheard
) -> Connection:
    """Connect to the first of these servers that answers; when it is lost, calls go to the others.

    `direct` False: everything goes through the server, which passes on what it does not hold. `failed`: for callers
    that give up before `timeout` and want to say why. Raises the last failure to reach a server (`Unavailable`,
    mostly `Disconnected`) when `timeout` seconds are over, and at once `HandshakeFailed` if no server's certificate
    fits, and what a server refuses with.
    """
    answering, view = await _first_view(targets, asyncio.get_running_loop().time() + timeout, failed)
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


async def _first_view(targets: Sequence[str], deadline: float, failed: TryFailed) -> tuple[str, ClusterView | None]:
    """The first server that answers, and what it says of the cluster; None where it knows of no cluster."""
    if len(targets) == 1:
        return targets[0], await _view_of(targets[0], deadline, failed)
    turns = [asyncio.Event() for _ in range(len(targets) + 1)]
    turns[0].set()
    asked = [
        asyncio.create_task(_in_turn(target, deadline, failed, turn, following), name=f"connect to {target}")
        for target, turn, following in zip(targets, turns, turns[1:], strict=False)
    ]
    try:
        return await _first_answer(targets, asked)
    finally:
        await end_tasks(*asked)


async def _first_answer(
    targets: Sequence[str], asked: Sequence[asyncio.Task[ClusterView | None]]
) -> tuple[str, ClusterView | None]:
    """Raises what a server refused with, as soon as it has; else the last server's failure when all have failed, but
    before it that of a certificate."""
    while waiting := [task for task in asked if not task.done()]:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for target, task in zip(targets, asked, strict=True):
            if task.done() and not isinstance(task.exception(), Unavailable):
                return target, task.result()
    failures = [failure for task in asked if (failure := task.exception()) is not None]
    raise next((failure for failure in failures if isinstance(failure, HandshakeFailed)), failures[-1])


async def _in_turn(
    target: str, deadline: float, failed: TryFailed, turn: asyncio.Event, following: asyncio.Event
) -> ClusterView | None:
    """Ask this server when its turn has come. `following`: the turn of the next one."""

    def not_yet(failure: DuramenError) -> None:
        following.set()
        failed(failure)

    await turn.wait()
    silent = asyncio.get_running_loop().call_later(_SEVERAL_S, following.set)
    try:
        return await _view_of(target, deadline, not_yet)
    finally:
        silent.cancel()
        following.set()


async def _view_of(target: str, deadline: float, failed: TryFailed) -> ClusterView | None:
    """Ask one server until it answers.

    Raises `HandshakeFailed` and the server's refusals at once, its last failure at the deadline.
    """
    loop = asyncio.get_running_loop()
    backoff = Backoff(_PAUSE_FIRST_S, _PAUSE_MAX_S, deadline_s=deadline)
    failure: DuramenError | None = None
    limit_s = _TRY_FIRST_S
    while True:
        left_s = max(0.0, deadline - loop.time())
        try:
            return await ask_cluster(target, timeout=min(left_s, limit_s))
        except UnknownFormat:
            return None
        except HandshakeFailed:
            raise
        except Unavailable as error:
            failure = error
        except TimeoutError:
            failure = failure or DeadlineExceeded(f"the server at {target} did not answer in time; is it running?")
            if left_s <= limit_s:
                raise failure from None
            limit_s *= 2
        failed(failure)
        if not await backoff.pause():
            raise failure
