"""Users of a simulated cluster whose quotas bound the connections of gRPC that they have open.

Connections open, call and end at any server while an administrator sets, changes and removes the quotas, and
`place_ledger.py` judges each refusal. A server hears of no connection's end: one counts for `PEER_S` after its last
call, and as long as it has a stream open. In the end, when nothing is at fault, exactly as many are let in at once as a
quota gives: those that were closed are counted until their time is over, and those that watch are counted longer.
"""

from __future__ import annotations

import asyncio
import random
from functools import partial
from typing import Any, Final

from duramen import aio
from duramen.testing.machine.simulated_grpc import SimulatedTransport
from log_tier.access.quotas.open_connections import PEER_S
from log_tier.model.errors import DuramenError, Overloaded
from log_tier.rpc.credentials import bearer_header
from log_tier.rpc.transport import TRANSPORT
from router.remote.grpc_connection import GrpcConnection
from simulation.book import Broken
from simulation.cluster_turns import ASK_S
from simulation.cluster_world import ClusterWorld
from simulation.place_ledger import GIVEN_BACK_S, HeldPlace
from simulation.place_quotas import BOUNDS, HAS_QUOTA, bind, set_bound
from simulation.trust_turns import TARGETS, administration, is_at

__all__ = ["check_peers", "open_peers", "use_peers"]

CALLED: Final = "called"
_USERS: Final = ("sybil", "trent")
_CALL_S: Final = 1.0
_COUNTED_S: Final = PEER_S + GIVEN_BACK_S
"""After the last call of a connection."""


class _PeerTransport:
    """A user's end of the network, which knows the connection of its one channel."""

    def __init__(self, world: ClusterWorld, user: str) -> None:
        self._inner = SimulatedTransport(world.network, "clients", authorization=bearer_header(world.tokens[user]))
        self.made: Any = None

    def channel(self, target: str) -> Any:
        self.made = self._inner.channel(target)
        return self.made


class _Peer:
    """A connection to one server. Belongs to the task that makes it."""

    def __init__(self, world: ClusterWorld, user: str, server: str) -> None:
        self._world, self.user, self.server = world, user, server
        self._transport = _PeerTransport(world, user)
        before = TRANSPORT.set(self._transport)
        try:
            self._connection = GrpcConnection(f"{server}:7070", pass_on=True)
        finally:
            TRANSPORT.reset(before)
        self._number = 0
        """Of the connection of its calls so far."""
        self._place: HeldPlace | None = None
        self._watching: asyncio.Task[None] | None = None

    async def call(self) -> bool | None:
        """One call; False: a quota has refused it, None: it came to nothing, and so does this. Raises `Broken`."""
        ledger = self._world.places
        place = ledger.ask("connections", self.server, self.user)
        place.may_be_later = True
        try:
            self._table = await self._connection.find_table(CALLED, timeout=_CALL_S)
        except Overloaded as error:
            if HAS_QUOTA not in error.message:
                return None
            ledger.refused(place, error.message)
            return False
        except DuramenError:
            return None  # it may arrive yet, so it may have a place for ever
        number = self._transport.made.connection_number
        if number == self._number:
            ledger.shared(place)
            return True
        if self._place is not None:  # the network has reset the connection of the calls before
            ledger.closed(self._place, after_s=_COUNTED_S)
        ledger.answered(place)
        self._number, self._place = number, place
        return True

    async def watch(self) -> None:
        """Have a stream open, until it is closed. Raises what ends the watch before it has begun."""
        begun = asyncio.Event()

        async def watching() -> None:
            async for _ in self._connection.watch(self._table.id, {}):
                begun.set()

        self._watching = asyncio.create_task(watching())
        waiting = asyncio.create_task(begun.wait())
        await asyncio.wait([self._watching, waiting], return_when="FIRST_COMPLETED")
        waiting.cancel()
        if self._watching.done():
            self._watching.result()

    async def close(self) -> None:
        """End it. Idempotent."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        await self._connection.close()
        if self._place is not None:
            self._world.places.closed(self._place, after_s=_COUNTED_S)


async def open_peers(world: ClusterWorld) -> None:
    """Make the users, who have no quotas yet, and their table. No fault has begun."""
    if not world.has_places or world.has_endpoints:
        return
    async with await aio.connect("router:7070", timeout=ASK_S) as database:
        await database.create_table(CALLED, partitions=1)
    async with administration("router") as users:
        for name in _USERS:
            added = await users.add_user(name, grants=[f"read {CALLED}"], with_token=True)
            world.tokens[name] = added.token
    for catalog in world.catalogs.values():
        await catalog.wait_for(partial(is_at, added.version))


async def use_peers(world: ClusterWorld, stop: asyncio.Event) -> None:
    """Users connect, and quotas come and go, until `stop` is set."""
    if not world.has_places or world.has_endpoints:
        return
    working = [asyncio.create_task(_change_quotas(world, stop))]
    working += [asyncio.create_task(_connect_on(world, name, stop)) for name in _USERS]
    try:
        await asyncio.gather(*working)
    finally:
        for task in working:
            task.cancel()


async def _change_quotas(world: ClusterWorld, stop: asyncio.Event) -> None:
    chance = random.Random(f"changes of peers {world.plan.seed}")
    pause_s = chance.choice((0.3, 1.0))
    while not stop.is_set():
        subject, most = f"user:{chance.choice(_USERS)}", chance.choice((*BOUNDS, 5, 8))
        await set_bound(world, "connections", subject, most, chance.choice(TARGETS))
        await asyncio.sleep(chance.random() * 2 * pause_s)


async def _connect_on(world: ClusterWorld, user: str, stop: asyncio.Event) -> None:
    chance = random.Random(f"peers of {user} {world.plan.seed}")
    favourite = chance.choice(TARGETS)
    peers: list[_Peer] = []
    try:
        while not stop.is_set():
            if len(peers) > 3 or (peers and chance.random() < 0.2):
                await peers.pop(chance.randrange(len(peers))).close()
            elif not peers or chance.random() < 0.3:
                server = favourite if chance.random() < 0.7 else chance.choice(TARGETS)
                peers.append(_Peer(world, user, server))
            if peers:
                chosen = chance.choice(peers)
                if await chosen.call() is None:
                    peers.remove(chosen)
                    await chosen.close()
            await asyncio.sleep(chance.random() * 0.3)
    finally:
        for each in peers:
            await each.close()


async def check_peers(world: ClusterWorld) -> None:
    """When all is level and nothing is at fault: as many connections are let in as a quota gives. Raises `Broken`."""
    if not world.has_places or world.has_endpoints:
        return
    chance = random.Random(f"peers at the end {world.plan.seed}")
    await asyncio.sleep(_COUNTED_S)  # what was open before counts no more
    user, name = chance.choice(_USERS), chance.choice(TARGETS)
    bound = chance.choice((2, 3))
    held: list[_Peer] = []

    async def take(most: int, why: str) -> None:
        """Have more connections call than there is room for, all at once: so many are let in."""
        peers = [_Peer(world, user, name) for _ in range(bound + 2)]
        came = await asyncio.gather(*(each.call() for each in peers))
        let_in = [peer for peer, is_in in zip(peers, came, strict=True) if is_in]
        held.extend(let_in)
        for each in peers:
            if each not in let_in:
                await each.close()
        if len(let_in) != most:
            said = "bounded" if len(let_in) > most else "given back"
            raise Broken(said, f"{name} has let in {len(let_in)} connections of {user}, and not {most}: {why}")
        world.story.met[f"places: connections of gRPC, {why}"] += 1

    async def close_all() -> None:
        while held:
            await held.pop().close()

    try:
        await bind(world, "connections", f"user:{user}", bound, chance.choice(TARGETS))
        await take(bound, "a quota's")
        await held[0].watch()
        while len(held) > 1:
            await held.pop().close()
        await take(0, "closed ones count for a while")
        await asyncio.sleep(_COUNTED_S)
        await take(bound - 1, "one that watches counts")
        await close_all()
        await asyncio.sleep(_COUNTED_S)
        await take(bound, "a watch that was closed counts no more")
        world.network.reset("clients", name)
        await asyncio.sleep(_COUNTED_S)
        await bind(world, "connections", f"user:{user}", 0, chance.choice(TARGETS))
        await take(bound + 2, "without a quota")
    finally:
        await close_all()
