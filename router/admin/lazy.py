"""Administration in a node of a cluster, which needs no membership before: opened when it is first asked.

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
from router.membership.on_demand import MembershipOnDemand

__all__ = ["AdminOnDemand"]


class AdminOnDemand:
    """Call it for the `Admin`; the first call may open the membership. `close()` ends it; all else belongs to
    others."""

    def __init__(self, catalog: Catalog, log: Log, memberships: MembershipOnDemand) -> None:
        self._catalog = catalog
        self._log = log
        self._opening = asyncio.Lock()
        self._memberships = memberships
        self._opened: Admin | None = None
        self._closed = False

    async def __call__(self) -> Admin:
        """The admin; within a second of the first call, in which the nodes speak for the first time."""
        async with self._opening:
            if self._closed:
                raise ShuttingDown("the server is stopping; ask another one")
            if self._opened is None:
                membership = await self._memberships()
                self._opened = Admin(self._catalog, self._log, membership, ask_members(membership))
            return self._opened

    async def close(self) -> None:
        """Carry through what was begun. Idempotent."""
        async with self._opening:
            self._closed = True
            opened, self._opened = self._opened, None
            if opened is not None:
                await opened.close()
