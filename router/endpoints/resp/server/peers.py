"""The addresses of the other nodes' RESP endpoints, fetched from each node by gRPC.

The catalog names the nodes and their gRPC addresses; where a node's RESP endpoint listens is that node's own business,
may change with its next start, and is no part of the cluster's state.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final, Protocol

from log_tier.model.errors import DuramenError
from log_tier.rpc.wire import Wire
from router.endpoints.resp.context import NodeAddress
from router.membership.live_membership import LiveMembership
from router.membership.member import Member
from router.proto import resp_endpoint_pb2, resp_endpoint_pb2_grpc

__all__ = ["MembershipPeers", "Peers"]

# The map of slots leaves out a node that takes longer. The next request for the map asks that node again.
_TIMEOUT_S: Final = 0.5

# What was heard is good for so long: cluster-aware clients of one pool ask for the map all at once.
_FRESH_S: Final = 1.0


class Peers(Protocol):
    """The addresses of the nodes' RESP endpoints."""

    async def addresses(self) -> Mapping[str, NodeAddress]:
        """By node id: those that are there and have one."""
        ...

    def known(self) -> Mapping[str, NodeAddress]:
        """`addresses`, as far as they are known without asking."""
        ...


class MembershipPeers:
    """The nodes of a membership."""

    def __init__(self, membership: LiveMembership) -> None:
        self._membership = membership
        self._known: dict[str, NodeAddress] = {}
        self._asked_s = float("-inf")
        self._asking = asyncio.Lock()

    def known(self) -> Mapping[str, NodeAddress]:
        return self._known

    async def addresses(self) -> Mapping[str, NodeAddress]:
        """Ask every node that is there, at most once a second."""
        loop = asyncio.get_running_loop()
        async with self._asking:
            if loop.time() - self._asked_s >= _FRESH_S:
                members = [member for member in self._membership.members.values() if member.alive]
                found = await asyncio.gather(*(_describe(member) for member in members))
                self._known = {address.node: address for address in found if address is not None}
                self._asked_s = loop.time()
        return self._known


async def _describe(member: Member) -> NodeAddress | None:
    wire = Wire(member.address)
    try:
        stub = resp_endpoint_pb2_grpc.RespEndpointStub(wire.channel)  # type: ignore[no-untyped-call]
        reply = await wire.ask(stub.Describe, resp_endpoint_pb2.DescribeRespEndpointRequest(), timeout=_TIMEOUT_S)
    except DuramenError:
        return None  # it has no RESP endpoint, or is not there
    finally:
        await wire.close()
    return NodeAddress(member.id, member.entry.address.rpartition(":")[0], reply.port) if reply.port else None
