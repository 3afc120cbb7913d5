"""The guard of a simulated server: the one of a real server, where the network says which process calls, passwords
cost no processor, and some turns of the event loop are long.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Collection, Hashable
from contextlib import AsyncExitStack
from typing import Any, Final

from duramen.server.roles.guarding import Access, guard_services
from duramen.testing.cluster.simulated_hasher import SimulatedHasher
from duramen.testing.machine.simulated_clock import SlowTurnClock
from duramen.testing.machine.simulated_server import SimulatedServer, calling_process
from log_tier.audit.audit_settings import AuditSettings
from log_tier.catalog.catalog import Catalog
from log_tier.catalog.map_follower import MapFollower
from log_tier.concurrency.clocks import Clock
from router.endpoints.turns.shared_turns import Loop, SharedTurns

__all__ = ["guard_server"]

_LONG_CHANCE: Final = 0.1
_LONG_S: Final = 0.05


class _SlowTurns:
    """An event loop of which now and then a turn takes long, so that what waits for the next one meets what comes."""

    def __init__(self, loop: asyncio.AbstractEventLoop, chance: random.Random) -> None:
        self._loop, self._chance = loop, chance
        self.call_later = loop.call_later

    def call_soon(self, callback: Callable[[], None]) -> object:
        if self._chance.random() < _LONG_CHANCE:
            return self._loop.call_later(self._chance.random() * _LONG_S, callback)
        return self._loop.call_soon(callback)


class _NotedTurns(SharedTurns):
    """Turns of which is counted how many calls of gRPC wait for theirs."""

    def __init__(self, loop: Loop, now_s: Callable[[], float], met: Counter[str]) -> None:
        super().__init__(loop, now_s)
        self._met = met

    async def take_turn(self, user: Hashable) -> None:
        self._met["turns: a call of gRPC waits"] += 1
        try:
            await super().take_turn(user)
        except asyncio.CancelledError:
            self._met["turns: one that waits is left by its client"] += 1
            raise


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
    slow_loop = _SlowTurns(loop, random.Random(f"long turns of {server.process}"))
    return await guard_services(
        opened,
        server,
        catalog,
        follower,
        identify=identify,
        audit=audit,
        clock=clock,
        hasher=SimulatedHasher(random.Random(f"passwords of {server.process}")),
        turns=_NotedTurns(slow_loop, slow_clock.monotonic_s, server.network.story.met),
    )
