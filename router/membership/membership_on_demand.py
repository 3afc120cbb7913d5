"""The one membership of a process, opened when it is first needed.

A node serves its own replicas and needs no other node for that. Administration, the KV service and the RESP endpoint
ask the other nodes, each when a client asks it for what is not here. They share one membership: one status stream to
every node, however many of them need it.
"""

from __future__ import annotations

from functools import partial

from log_tier.catalog.cluster_map import AddressOf, address_for_servers
from log_tier.catalog.map_follower import MapFollower
from log_tier.concurrency.background import Failed, only_logged
from log_tier.concurrency.clocks import SYSTEM_CLOCK, Clock
from log_tier.concurrency.on_demand import OnDemand
from router.membership.live_membership import LiveMembership

__all__ = ["membership_on_demand"]


def membership_on_demand(
    follower: MapFollower,
    *,
    failed: Failed = only_logged,
    clock: Clock = SYSTEM_CLOCK,
    address_of: AddressOf = address_for_servers,
) -> OnDemand[LiveMembership]:
    """Gives the membership, within a second of the first call, in which the nodes speak for the first time. Its `close`
    lets go of the nodes; its callers' calls that are under way end then.

    `failed`, `clock`, `address_of`: see `LiveMembership.open`; only nodes have one, so it calls as servers do.
    """
    return OnDemand(partial(LiveMembership.open, follower, failed=failed, clock=clock, address_of=address_of))
