"""The one membership of a process, opened when it is first needed.

A node serves its own replicas and needs no other node for that. Administration, the KV service and the RESP endpoint
ask the other nodes, each when a client asks it for what is not here. They share one membership: one status stream to
every node, however many of them need it.
"""

from __future__ import annotations

import asyncio

from log_tier.catalog.map_follower import MapFollower
from log_tier.concurrency.background import Failed, only_logged
from log_tier.concurrency.clocks import SYSTEM_CLOCK, Clock
from log_tier.model.errors import ShuttingDown
from router.membership.live_membership import LiveMembership

__all__ = ["MembershipOnDemand"]


class MembershipOnDemand:
    """Call it for the membership. `close()` ends it; its callers' calls that are under way end then.

    `failed`, `clock`: see `LiveMembership.open`.
    """

    def __init__(self, follower: MapFollower, *, failed: Failed = only_logged, clock: Clock = SYSTEM_CLOCK) -> None:
        self._follower = follower
        self._failed, self._clock = failed, clock
        self._opening = asyncio.Lock()
        self._opened: LiveMembership | None = None
        self._closed = False

    async def __call__(self) -> LiveMembership:
        """The membership; within a second of the first call, in which the nodes speak for the first time.

        Raises `ShuttingDown` after `close`.
        """
        async with self._opening:
            if self._closed:
                raise ShuttingDown("the server is stopping; ask another one")
            if self._opened is None:
                self._opened = await LiveMembership.open(self._follower, failed=self._failed, clock=self._clock)
            return self._opened

    async def close(self) -> None:
        """Let go of the nodes. Idempotent."""
        async with self._opening:
            self._closed = True
            opened, self._opened = self._opened, None
            if opened is not None:
                await opened.close()
