"""The guard of a simulated server: the one of a real server, where the network says which process calls, and passwords
cost no processor.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Collection
from contextlib import AsyncExitStack
from typing import Any

from duramen.server.roles.guarding import Access, guard_services
from duramen.testing.cluster.simulated_hasher import SimulatedHasher
from duramen.testing.machine.simulated_clock import SlowTurnClock
from duramen.testing.machine.simulated_server import SimulatedServer, calling_process
from log_tier.audit.audit_settings import AuditSettings
from log_tier.catalog.catalog import Catalog
from log_tier.catalog.map_follower import MapFollower
from log_tier.concurrency.clocks import Clock
from router.endpoints.turns.shared_turns import SharedTurns

__all__ = ["guard_server"]


async def guard_server(
    opened: AsyncExitStack,
    server: SimulatedServer,
    catalog: Catalog,
    follower: MapFollower,
    *,
    servers: Collection[str],
    clock: Clock,
    audit: AuditSettings | None = None,
) -> Access:
    """See `guard_services`. `servers`: the processes that count as servers of the cluster, as those do that show a
    server's certificate. `audit`: what is audited on top of what always is.
    """

    def identify(context: Any) -> tuple[str, bool] | None:
        name = calling_process(context.peer())
        return (name, True) if name in servers else None

    loop = asyncio.get_running_loop()
    slow_clock = SlowTurnClock(loop.time, random.Random(f"turns of {server.process}"))
    return await guard_services(
        opened,
        server,
        catalog,
        follower,
        identify=identify,
        audit=audit,
        clock=clock,
        hasher=SimulatedHasher(random.Random(f"passwords of {server.process}")),
        turns=SharedTurns(loop, slow_clock.monotonic_s),
    )
