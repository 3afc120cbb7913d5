"""All registered nodes, followed as the map names them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Final

from log_tier.catalog.catalog import Maps
from log_tier.catalog.cluster_map import AddressOf, ClusterMap, address_for_clients
from log_tier.catalog.map_follower import Leave, MapFollower
from log_tier.concurrency.background import Failed, only_logged, run_forever
from log_tier.concurrency.broadcast import Broadcast
from log_tier.concurrency.clocks import SYSTEM_CLOCK, Clock
from log_tier.concurrency.tasks import TaskSet, end_tasks, every_step, to_the_end
from log_tier.model.errors import DeadlineExceeded, Disconnected, DuramenError, InvalidRequest
from router.membership.member import Member
from router.membership.views import NodeView
from serving_tier.proto import node_pb2

__all__ = ["SILENCE_MAX_S", "LiveMembership"]

SILENCE_MAX_S: Final = 0.75
"""Three heartbeats: a node that is silent for longer counts as lost."""

# How often silence is looked for.
_TICK_S: Final = 0.1

# A process that opens a membership waits so long for the nodes to speak for the first time.
_FIRST_WORD_S: Final = 1.0


class LiveMembership:
    """A `router.membership.views.Membership` over status streams. `open()` makes one, `close()` ends it; the maps are
    not its."""

    def __init__(self, maps: Maps, clock: Clock, address_of: AddressOf) -> None:
        self._maps = maps
        self._clock = clock
        self._address_of = address_of
        self.members: dict[str, Member] = {}
        """By node id: those that have an address. Replaced, never changed in place."""
        self._changed = Broadcast()
        self._leave: Leave | None = None
        self._watch: asyncio.Task[None] | None = None
        self._closing = TaskSet()

    @classmethod
    async def open(
        cls,
        follower: MapFollower,
        *,
        failed: Failed = only_logged,
        clock: Clock = SYSTEM_CLOCK,
        address_of: AddressOf = address_for_clients,
    ) -> LiveMembership:
        """Follow the map's nodes. Returns when each of them has spoken or could not be reached, within a second.

        `failed`: see `MapFollower.follow` and `run_forever`. `clock`: the nodes' clocks are compared with it.
        `address_of`: where this process calls a node.
        """
        membership = cls(follower.maps, clock, address_of)
        try:
            membership._leave = await follower.follow(
                membership._compare, name="following the nodes of the map", failed=failed
            )
            watching = membership._watch_silence()
            membership._watch = run_forever(watching, name="watching for silent nodes", failed=failed)
            with suppress(DeadlineExceeded):
                await membership.wait_for(
                    lambda: all(member.known for member in membership.members.values()), timeout=_FIRST_WORD_S
                )
        except BaseException:
            await to_the_end(membership.close())  # also where it is cancelled once more
            raise
        return membership

    # --- following

    def _compare(self, cluster: ClusterMap) -> None:
        members: dict[str, Member] = {}
        for entry in cluster.nodes.values():
            known, address = self.members.get(entry.id), self._address_of(entry)
            if known is not None and (known.address, known.entry.identity) == (address, entry.identity):
                members[entry.id] = known
            elif address:
                members[entry.id] = Member(entry, self._changed.notify_all, self._clock, address=address)
                members[entry.id].start()
        gone = [member for member in self.members.values() if members.get(member.id) is not member]
        self.members = members
        for member in gone:
            self._closing.start(member.retire(), name=f"close the connections to node {member.id}")
        self._changed.notify_all()

    async def _watch_silence(self) -> None:
        loop = asyncio.get_running_loop()
        last = loop.time()
        while True:
            await asyncio.sleep(_TICK_S)
            now = loop.time()
            held_up = max(0.0, now - last - 2 * _TICK_S)
            last = now
            for member in self.members.values():
                member.heard_s += held_up  # while we were held up, we would not have heard it
                if member.view.alive and now - member.heard_s > SILENCE_MAX_S:
                    member.lose(f"it has said nothing for {now - member.heard_s:.2f} s")

    async def wait_for(self, predicate: Callable[[], bool], *, timeout: float) -> None:
        """Return when `predicate` holds of what is known of the nodes. Raises `DeadlineExceeded`."""
        try:
            async with asyncio.timeout(timeout):
                while not predicate():
                    await self._changed.wait()
        except TimeoutError:
            raise DeadlineExceeded(
                f"what was waited for did not happen within {timeout:g} s; "
                + "; ".join(f"node {node}: {error.message}" for node, error in self.failures())
            ) from None

    # --- looking

    def nodes(self) -> Mapping[str, NodeView]:
        """All nodes of the map, also those without an address, which serve no other process."""
        now = asyncio.get_running_loop().time()
        views: dict[str, NodeView] = {}
        for node, entry in self._maps.map.nodes.items():
            member = self.members.get(node)
            if member is None:
                views[node] = NodeView(node, entry.address, reason="it has no address: it serves its own process only")
                continue
            silent_ms = int((now - member.heard_s) * 1000) if member.heard_s else 0
            views[node] = replace(member.view, silent_ms=silent_ms)
        return views

    async def measure(self) -> None:
        """Nothing to do: every node measures its indexes itself, and sends their sizes with its status."""

    async def digest(self, node: str, request: node_pb2.DigestRequest, *, timeout: float) -> node_pb2.DigestReply:
        reply: node_pb2.DigestReply = await self._member(node).ask_node("Digest", request, timeout=timeout)
        return reply

    async def tally(self, node: str, request: node_pb2.TallyRequest, *, timeout: float) -> node_pb2.TallyReply:
        reply: node_pb2.TallyReply = await self._member(node).ask_node("Tally", request, timeout=timeout)
        return reply

    async def status(self, node: str, *, timeout: float) -> bytes:
        """The status document of a node, as JSON. Raises what the node says, and `InvalidRequest` where it is none."""
        return await self._member(node).ask_status(timeout=timeout)

    def _member(self, node: str) -> Member:
        member = self.members.get(node)
        if member is None:
            known = ", ".join(sorted(self.members)) or "none"
            raise InvalidRequest(f"there is no node {node!r}; the nodes are: {known}")
        return member

    def failures(self) -> Iterator[tuple[str, DuramenError]]:
        for node, view in self.nodes().items():
            if not view.alive:
                yield node, Disconnected(f"node {node} at {view.address or 'no address'} is not there: {view.reason}")

    async def close(self) -> None:
        """Stop following. Calls under way end with `Disconnected`, later ones with `DatabaseClosed`. Idempotent."""
        await every_step(
            *(() if self._leave is None else (self._leave,)),
            partial(end_tasks, self._watch),
            self._closing.wait,
            lambda: asyncio.gather(*(member.close() for member in self.members.values())),
        )
