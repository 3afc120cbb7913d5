"""Administration in a node of a cluster, which has no membership of its own: opened when it is first asked.

An operator may ask any server, and asks few of them; a node that opened a status stream to every other one at its start
would pay for it all its life.
"""

from __future__ import annotations

import asyncio

from log_tier.catalog.catalog import Catalog
from log_tier.model.errors import ShuttingDown
from log_tier.model.log import Log
from router.admin.admin import Admin
from router.admin.answers.node_client import ask_members
from router.membership.live_membership import LiveMembership

__all__ = ["AdminOnDemand"]


class AdminOnDemand:
    """Call it for the `Admin`; the first call opens the membership. `close()` ends both; catalog and log are
    others'."""

    def __init__(self, catalog: Catalog, log: Log) -> None:
        self._catalog = catalog
        self._log = log
        self._opening = asyncio.Lock()
        self._opened: tuple[Admin, LiveMembership] | None = None
        self._closed = False

    async def __call__(self) -> Admin:
        """The admin; within a second of the first call, in which the nodes speak for the first time."""
        async with self._opening:
            if self._closed:
                raise ShuttingDown("the server is stopping; ask another one")
            if self._opened is None:
                membership = await LiveMembership.open(self._catalog)
                self._opened = Admin(self._catalog, self._log, membership, ask_members(membership)), membership
            return self._opened[0]

    async def close(self) -> None:
        """Carry through what was begun, let go of the nodes. Idempotent."""
        async with self._opening:
            self._closed = True
            opened, self._opened = self._opened, None
            if opened is not None:
                admin, membership = opened
                await admin.close()
                await membership.close()
