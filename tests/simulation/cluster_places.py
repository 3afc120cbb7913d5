"""Users of a simulated cluster who hold watches and scans open, and the quotas of users and of a table that bound them.

Watches and scans open and close at any server while an administrator sets, changes and removes the quotas, and
`place_ledger.py` judges each refusal. In the end, when nothing is at fault, exactly as many are let in at once as a
quota gives; one that was closed or read to its end, whose connection is gone, or whose table was dropped gives its
place back. A scan is open as long as its client does not read what is more than the network holds.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import aclosing
from functools import partial
from typing import Any, Final, cast

from duramen import aio
from log_tier.model.errors import DuramenError, Overloaded
from log_tier.rpc.wire import Wire
from router.proto import kv_pb2, kv_pb2_grpc
from router.remote.grpc_connection import GrpcConnection
from simulation.book import Broken
from simulation.cluster_callers import prove
from simulation.cluster_turns import ASK_S
from simulation.cluster_world import ClusterWorld
from simulation.place_ledger import GIVEN_BACK_S, HeldPlace, Kind
from simulation.place_quotas import BOUNDS, HAS_QUOTA, bind, set_bound
from simulation.trust_turns import TARGETS, administration, is_at

__all__ = ["check_places", "open_places", "use_places"]

WATCHED: Final = "watched"
_USERS: Final = ("niaj", "olivia")
_SUBJECTS: Final = (*(f"user:{name}" for name in _USERS), f"table:{WATCHED}")
_KINDS: Final[tuple[Kind, ...]] = ("watches", "scans")
_ROWS: Final = 30
_ROW_BYTES: Final = 70_000
"""More than the first pages of a scan hold: each row is a message, and more of them than the network takes unread."""
_OPENED_S: Final = 5.0
"""Within which a watch begins or ends, where nothing is at fault."""


class _BoundedStream:
    """One watch or scan on a connection of its own. Belongs to the task that opens it."""

    def __init__(self, world: ClusterWorld, kind: Kind, user: str, server: str) -> None:
        self._world, self._ledger, self.kind, self.user, self.server = world, world.places, kind, user, server
        self._reads_on = asyncio.Event()
        self._answered: asyncio.Future[bool] = world.loop.create_future()
        self._place: HeldPlace | None = None
        self._serving = asyncio.create_task(self._serve())

    async def is_let_in(self) -> bool:
        """Has it begun? False: a quota has refused it, or it has ended with something else. Raises `Broken`."""
        either: list[asyncio.Future[Any]] = [self._answered, self._serving]
        await asyncio.wait(either, return_when="FIRST_COMPLETED")
        if self._serving.done():
            self._serving.result()
        return self._answered.done() and self._answered.result()

    @property
    def is_open(self) -> bool:
        """Has nothing ended it?"""
        return not self._serving.done()

    async def wait_ended(self) -> None:
        """Until its server or the network has ended it. Raises `Broken`."""
        await asyncio.wait([self._serving])
        self._serving.result()

    async def read_on(self) -> None:
        """Read a scan to its end. Raises `Broken`."""
        self._reads_on.set()
        await self.wait_ended()

    async def close(self) -> None:
        """End it, with its connection. Idempotent. Raises `Broken`."""
        self._serving.cancel()
        await asyncio.wait([self._serving])
        if not self._serving.cancelled():
            self._serving.result()

    async def _serve(self) -> None:
        prove(self._world, self._world.tokens[self.user])
        connection = GrpcConnection(f"{self.server}:7070", pass_on=True)
        try:
            table = await connection.find_table(WATCHED, timeout=1.0)
            self._place = self._ledger.ask(self.kind, self.server, self.user, WATCHED)
            opened = connection.watch(table.id, {}) if self.kind == "watches" else self._scan()
            async with aclosing(cast("Any", opened)) as messages:
                async for _ in messages:
                    if not self._answered.done():
                        self._answered.set_result(True)
                    if self.kind == "scans":
                        await self._reads_on.wait()
        except Overloaded as error:
            if self._place is not None and HAS_QUOTA in error.message:
                self._ledger.refused(self._place, error.message)
        except DuramenError:
            pass  # the server, the table or the network has gone
        finally:
            await connection.close()
            if self._place is not None:
                self._ledger.closed(self._place)

    async def _scan(self) -> AsyncIterator[Any]:
        wire = Wire(f"{self.server}:7070")
        try:
            stub: Any = kv_pb2_grpc.KVStub(wire.channel)  # type: ignore[no-untyped-call]
            async with aclosing(cast("Any", wire.stream(stub.Scan, kv_pb2.KVScanRequest(table=WATCHED)))) as messages:
                async for message in messages:
                    yield message
        finally:
            await wire.close()


async def open_places(world: ClusterWorld) -> None:
    """Make the users, who have no quotas yet, and their table. No fault has begun."""
    if not world.has_places or world.has_endpoints:
        return
    await _create_table()
    async with administration("router") as users:
        for name in _USERS:
            added = await users.add_user(name, grants=[f"read {WATCHED}"], with_token=True)
            world.tokens[name] = added.token
    for catalog in world.catalogs.values():
        await catalog.wait_for(partial(is_at, added.version))


async def _create_table() -> None:
    async with await aio.connect("router:7070", timeout=ASK_S) as database:
        table = await database.create_table(WATCHED, partitions=1)
        for number in range(_ROWS):
            await table.put(b"row %d" % number, bytes(_ROW_BYTES))


async def use_places(world: ClusterWorld, stop: asyncio.Event) -> None:
    """Users watch, and quotas come and go, until `stop` is set."""
    if not world.has_places or world.has_endpoints:
        return
    working = [asyncio.create_task(_change_quotas(world, stop))]
    working += [asyncio.create_task(_watch_on(world, name, stop)) for name in _USERS]
    try:
        await asyncio.gather(*working)
    finally:
        for task in working:
            task.cancel()


async def _change_quotas(world: ClusterWorld, stop: asyncio.Event) -> None:
    chance = random.Random(f"changes of places {world.plan.seed}")
    pause_s = chance.choice((0.3, 1.0))
    while not stop.is_set():
        kind, subject, most = chance.choice(_KINDS), chance.choice(_SUBJECTS), chance.choice(BOUNDS)
        await set_bound(world, kind, subject, most, chance.choice(TARGETS))
        await asyncio.sleep(chance.random() * 2 * pause_s)


async def _watch_on(world: ClusterWorld, user: str, stop: asyncio.Event) -> None:
    chance = random.Random(f"watches of {user} {world.plan.seed}")
    favourite = chance.choice(TARGETS)
    streams: list[_BoundedStream] = []
    try:
        while not stop.is_set():
            if len(streams) > 6 or (streams and chance.random() < 0.3):
                await streams.pop(chance.randrange(len(streams))).close()
            else:
                server = favourite if chance.random() < 0.7 else chance.choice(TARGETS)
                streams.append(_BoundedStream(world, chance.choice(_KINDS), user, server))
            await asyncio.sleep(chance.random() * 0.2)
    finally:
        for each in streams:
            await each.close()


async def check_places(world: ClusterWorld) -> None:
    """When all is level and nothing is at fault: as many watches, and scans, are open at a server as a quota gives.
    Raises `Broken`.
    """
    if not world.has_places or world.has_endpoints:
        return
    chance = random.Random(f"places at the end {world.plan.seed}")
    for subject in _SUBJECTS:
        await bind(world, "watches", subject, 0, chance.choice(TARGETS))
    for number, subject in enumerate(chance.sample(_SUBJECTS, 2)):
        await _fill(world, chance, "watches", subject, drops=number == 1)
        await _fill(world, chance, "scans", subject)


async def _fill(world: ClusterWorld, chance: random.Random, kind: Kind, subject: str, *, drops: bool = False) -> None:
    """Take all places of a quota at a server, give some back, and take them again."""
    bound, name = chance.choice((1, 2, 3)), chance.choice(TARGETS)
    held: list[_BoundedStream] = []

    async def take(most: int) -> None:
        """Open more than there is room for, all at once: so many are open then."""
        await asyncio.sleep(GIVEN_BACK_S)
        users = [chance.choice(_USERS) if subject.startswith("table:") else subject[5:] for _ in range(bound + 2)]
        opened = [_BoundedStream(world, kind, user, name) for user in users]
        async with asyncio.timeout_at(world.loop.time() + _OPENED_S):
            let_in = [each for each in opened if await each.is_let_in()]
        held.extend(let_in)
        if len(held) != most:
            said = "bounded" if len(held) > most else "given back"
            raise Broken(said, f"{name} has let in {len(held)} {kind} where {subject} has a quota of {most}")
        world.story.met[f"places: all {kind} taken"] += 1

    try:
        await bind(world, kind, subject, bound, chance.choice(TARGETS))
        await take(bound)
        if kind == "scans":
            await held.pop().read_on()
            await take(bound)
        for _ in range(chance.randrange(1, bound + 1)):
            await held.pop(chance.randrange(len(held))).close()
        await take(bound)
        world.network.reset("clients", name)
        await asyncio.sleep(GIVEN_BACK_S)
        if kind == "scans":  # who does not read does not hear of its end
            async with asyncio.timeout_at(world.loop.time() + _OPENED_S):
                for stream in held:
                    await stream.read_on()
        if any(each.is_open for each in held):
            raise Broken("ends", f"one of the {kind} at {name} goes on without its connection")
        held.clear()
        await take(bound)
        if drops:
            await _drop(world, held)
            await take(bound)
        await bind(world, kind, subject, 0, chance.choice(TARGETS))
        await take(len(held) + bound + 2)
    finally:
        for each in held:
            await each.close()


async def _drop(world: ClusterWorld, held: list[_BoundedStream]) -> None:
    """Drop the table under its watches, and make another one of that name, which has the same quota."""
    async with await aio.connect("router:7070", timeout=ASK_S) as database:
        await database.drop_table(WATCHED)
        async with asyncio.timeout_at(world.loop.time() + _OPENED_S):
            for each in held:
                await each.wait_ended()
        held.clear()
    await _create_table()
    for name in TARGETS:
        await world.catalogs[name].wait_for(lambda cluster: cluster.named(WATCHED) is not None)
