"""Administration in a node of a cluster, which needs no membership before: the first request opens it.

An operator may ask any server, and asks few of them; a node that opened a status stream to every other one at its start
would pay for it all its life.
"""

from __future__ import annotations

from log_tier.catalog.catalog import Catalog
from log_tier.concurrency.on_demand import OnDemand
from log_tier.model.log import Log
from router.admin.admin import Admin
from router.admin.answers.node_client import ask_members
from router.membership.live_membership import LiveMembership
from serving_tier.locations.allowed import ANY_LOCAL, AllowedLocations

__all__ = ["admin_on_demand"]


def admin_on_demand(
    catalog: Catalog,
    log: Log,
    memberships: OnDemand[LiveMembership],
    allowed: AllowedLocations = ANY_LOCAL,
) -> OnDemand[Admin]:
    """Gives the `Admin`; its first call may open the membership, which then takes up to a second. Its `close` carries
    through what was begun; all else belongs to others.
    """

    async def opened() -> Admin:
        membership = await memberships()
        return Admin(catalog, log, membership, ask_members(membership), allowed)

    return OnDemand(opened)
