"""Passwords of a simulated cluster's users: changed, taken, given again with the user, and guessed, while they log in.

A login is one call of gRPC with a `Basic` header, or `AUTH` and `HELLO … AUTH` of the Redis protocol where there are
endpoints. Where the server's own map has not changed meanwhile, the password must be judged as that map's hash says.
Somebody guesses, who must become slow. In the end passwords change under open watches and connections.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Literal

from duramen import aio
from duramen.testing.cluster.simulated_hasher import SimulatedHasher
from duramen.testing.machine.resp_words import RawError
from duramen.testing.machine.simulated_grpc import SimulatedTransport
from duramen.testing.machine.simulated_wire import WireClient, WireCut
from log_tier.model.errors import DuramenError
from log_tier.rpc.credentials import basic_header
from log_tier.rpc.transport import TRANSPORT
from log_tier.trust.users import TrustState
from router.admin.users.users_client import UsersConnection
from router.remote.grpc_connection import GrpcConnection
from simulation.book import Broken
from simulation.cluster_callers import REFUSED, TABLE
from simulation.cluster_world import ClusterWorld
from simulation.trust_turns import IN_FORCE_S, TARGETS, administration, change_trust, is_at, trust_of

__all__ = ["check_passwords", "open_passwords", "use_passwords"]

_CHANGED: Final = ("heidi", "ivan")
"""Whose passwords change."""
_GUESSED: Final = "judy"
"""Whose password somebody guesses, and nobody uses."""
_GRANT: Final = f"read {TABLE}"
_ROUNDS: Final = 2
_PATIENCE_S: Final = 2.0
_FREE_GUESSES: Final = 5
"""So many may fail before one has to wait."""
_FREE_OF_ADDRESS: Final = 50
"""The same of all names."""
_WAIT_FIRST_S: Final = 0.2
_AT_A_TIME: Final = 3
"""Guesses that are judged before the failure of one of them counts, and one for good measure."""

_Way = Literal["gRPC", "AUTH"]
_Outcome = Literal["in", "refused", "slowed", "failed"]
_Place = tuple[str, int, _Way]
"""A server, its life, and the way, of which each has an address of its own."""


@dataclass
class _Book:
    """What was tried."""

    passwords: dict[str, list[str]] = field(default_factory=dict)
    """That each user has had or may have had; the last one is the newest."""
    failed: Counter[tuple[_Place, str]] = field(default_factory=Counter)
    """Logins that have failed, or may have."""
    guesses: dict[_Place, list[float]] = field(default_factory=dict)
    """When each refused guess was sent and, behind the last one, heard."""
    made: int = 0

    def another(self, name: str) -> str:
        """A password that nobody has had."""
        self.made += 1
        self.passwords.setdefault(name, []).append(f"password {self.made} of {name}")
        return self.passwords[name][-1]


async def open_passwords(world: ClusterWorld) -> None:
    """Make the users. No fault has begun."""
    if not world.has_passwords:
        return
    async with administration("router") as users:
        for name in (*_CHANGED, _GUESSED):
            version = (await users.add_user(name, password=f"password of {name}", grants=[_GRANT])).version
    for catalog in world.catalogs.values():
        await catalog.wait_for(partial(is_at, version))


async def use_passwords(world: ClusterWorld, stop: asyncio.Event) -> None:
    """Users log in, passwords change, and somebody guesses, until `stop` is set."""
    if not world.has_passwords:
        return
    book = _Book({name: [f"password of {name}"] for name in (*_CHANGED, _GUESSED)})
    working = [asyncio.create_task(_change_passwords(world, book, stop))]
    working += [asyncio.create_task(_log_in_on(world, book, name, stop)) for name in _CHANGED]
    working.append(asyncio.create_task(_guess_on(world, book, stop)))
    try:
        await asyncio.gather(*working)
    finally:
        for task in working:
            task.cancel()


# --- changes


async def _change_passwords(world: ClusterWorld, book: _Book, stop: asyncio.Event) -> None:
    chance = random.Random(f"changes of passwords {world.plan.seed}")
    pause_s = chance.choice((0.2, 0.8))
    while not stop.is_set():
        await asyncio.sleep(chance.random() * 2 * pause_s)
        name, target = chance.choice(_CHANGED), chance.choice(TARGETS)
        what = chance.choice(("password", "password", "password", "password's end", "user's end"))
        await change_trust(world, what, name, target, partial(_change, what, name, book.another(name)))
        if what != "password":
            # The reply may be lost, and the user is there: then this is refused.
            again = "new user" if what == "user's end" else "password"
            await asyncio.sleep(chance.random() * pause_s)
            change = partial(_change, again, name, book.another(name))
            await change_trust(world, again, name, chance.choice(TARGETS), change)


async def _change(what: str, name: str, password: str, users: UsersConnection) -> int:
    if what == "user's end":
        return await users.remove_user(name)
    if what == "new user":
        return (await users.add_user(name, password=password, grants=[_GRANT])).version
    return await users.set_password(name, "" if what == "password's end" else password)


# --- logins


async def _log_in_on(world: ClusterWorld, book: _Book, name: str, stop: asyncio.Event) -> None:
    chance = random.Random(f"logins of {name} {world.plan.seed}")
    while not stop.is_set():
        await asyncio.sleep(chance.random() * 0.2)
        known, server = book.passwords[name], chance.choice(TARGETS)
        password = known[-1] if chance.random() < 0.7 else chance.choice(known)
        await _log_in(world, book, chance, (server, name, password), _way(world, chance))


async def _guess_on(world: ClusterWorld, book: _Book, stop: asyncio.Event) -> None:
    chance = random.Random(f"guesses {world.plan.seed}")
    while not stop.is_set():
        server, way = chance.choice(TARGETS), _way(world, chance)
        for _ in range(40):
            if stop.is_set():
                return
            proof = (server, _GUESSED, f"guess {chance.getrandbits(32)}")
            if await _log_in(world, book, chance, proof, way) == "failed":
                break
            await asyncio.sleep(chance.random() * 0.05)


def _way(world: ClusterWorld, chance: random.Random) -> _Way:
    return chance.choice(("gRPC", "AUTH")) if world.has_endpoints else "gRPC"


async def _log_in(
    world: ClusterWorld, book: _Book, chance: random.Random, proof: tuple[str, str, str], way: _Way
) -> _Outcome:
    """Try a password of a user at a server. Raises `Broken` where it is judged as the server's map does not say."""
    server, name, password = proof
    trust, life, sent_s = trust_of(world, server), world.processes[server].lives, world.loop.time()
    place: _Place = (server, life, way)
    is_right = trust is not None and _is_right(trust, name, password)
    book.failed[place, name] += 1
    # The proof of a call of gRPC is its task's.
    outcome = await asyncio.create_task(_tried(world, chance, proof, way))
    book.failed[place, name] -= outcome == "in"
    if (now := world.processes[server].lives) != life and outcome != "in":
        book.failed[(server, now, way), name] += 1  # it has waited for this life
    is_sure = trust is not None and trust is trust_of(world, server) and life == world.processes[server].lives
    said = f"{'the' if is_right else 'another'} password" if is_sure else "not sure"
    world.story.met[f"passwords: {outcome}, {said}"] += 1
    what = f"{server} answers {name}, who gives {password!r} by {way}, with {outcome!r}"
    if is_sure and outcome == "in" and not is_right:
        raise Broken("revoked", f"{what}, which is not the password by its map")
    if is_sure and outcome == "refused" and is_right:
        raise Broken("granted", f"{what}, which is the password by its map")
    if is_sure and outcome == "slowed" and book.failed[place, name] <= _FREE_GUESSES:
        failed = sum(count for (each, _), count in book.failed.items() if each == place)
        if failed <= _FREE_OF_ADDRESS:
            raise Broken("granted", f"{what} after {book.failed[place, name]} failures, of {failed}")
    if name == _GUESSED and outcome == "refused" and life == world.processes[server].lives:
        _judge_guesses(world, book, place, sent_s)
    return outcome


def _is_right(trust: TrustState, name: str, password: str) -> bool:
    """By the map alone, and by no part of the product."""
    user = trust.users.get(name)
    return user is not None and SimulatedHasher.is_of(user.password, password)


def _judge_guesses(world: ClusterWorld, book: _Book, place: _Place, sent_s: float) -> None:
    """One more guess was judged: each failure beyond those that are free makes the next one wait twice as long."""
    guesses = book.guesses.setdefault(place, [])
    guesses.append(sent_s)
    took_s = world.loop.time() - guesses[0]
    beyond = len(guesses) - _FREE_GUESSES - _AT_A_TIME
    if beyond >= 0 and took_s < _WAIT_FIRST_S * 2**beyond:
        server, _, way = place
        raise Broken("guessed", f"{server} has judged {len(guesses)} guesses in {took_s:.3f} s by {way}")


async def _tried(world: ClusterWorld, chance: random.Random, proof: tuple[str, str, str], way: _Way) -> _Outcome:
    server, name, password = proof
    if way == "gRPC":
        return await _called(world, server, basic_header(name, password))
    with suppress(WireCut, TimeoutError):
        async with asyncio.timeout_at(world.loop.time() + _PATIENCE_S):
            client = await world.wired(chance, server)
        try:
            async with asyncio.timeout_at(world.loop.time() + _PATIENCE_S):
                return await _authenticated(chance, client, name, password)
        finally:
            client.close()
    return "failed"


async def _called(world: ClusterWorld, server: str, header: str) -> _Outcome:
    """One call of this task, with this header."""
    TRANSPORT.set(SimulatedTransport(world.network, "clients", authorization=header))
    connection = GrpcConnection(f"{server}:7070", pass_on=True)
    try:
        await connection.find_table(TABLE, timeout=_PATIENCE_S)
    except DuramenError as error:
        return "refused" if error.code == "unauthenticated" else "slowed" if error.code == "overloaded" else "failed"
    finally:
        await connection.close()
    return "in"


async def _authenticated(chance: random.Random, client: WireClient, name: str, password: str) -> _Outcome:
    words = name.encode(), password.encode()
    (reply,) = await client.call([chance.choice(((b"AUTH", *words), (b"HELLO", b"2", b"AUTH", *words)))])
    if not isinstance(reply, RawError):
        return "in"
    kind = reply.text.partition(" ")[0]
    return "refused" if kind == "WRONGPASS" else "slowed" if kind == "TRYAGAIN" else "failed"


# --- the end


async def check_passwords(world: ClusterWorld) -> None:
    """When all is level and nothing is at fault: a password that has changed counts everywhere within `IN_FORCE_S`, the
    one before it no more, for open watches and connections as well. Raises `Broken`.
    """
    if not world.has_passwords:
        return
    chance = random.Random(f"passwords at the end {world.plan.seed}")
    book = _Book()
    for number in range(_ROUNDS):
        name = f"member{number}"
        before = book.another(name)
        async with administration(chance.choice(TARGETS)) as users:
            added = await users.add_user(name, password=before, grants=[_GRANT])
        for target in TARGETS:
            await world.catalogs[target].wait_for(partial(is_at, added.version))
        await _changed_under(world, book, chance, name, before)


async def _changed_under(world: ClusterWorld, book: _Book, chance: random.Random, name: str, before: str) -> None:
    """What a user has open ends when its password changes or goes."""
    watches = {each: asyncio.create_task(_watch(world, name, before, each)) for each in TARGETS}
    idle: dict[str, WireClient] = {}
    try:
        for each in TARGETS if world.has_endpoints else ():
            idle[each] = await world.wired(chance, each)
            if await _authenticated(chance, idle[each], name, before) != "in":
                raise Broken("granted", f"{each} refuses the password of {name}")
        await asyncio.sleep(0.5)
        if ended := {each: watch.result() for each, watch in watches.items() if watch.done()}:
            raise Broken("granted", f"watches of {name} have ended before its password has: {ended}")
        what, target = chance.choice(("password", "password's end", "user's end")), chance.choice(TARGETS)
        after = book.another(name)
        if await change_trust(world, what, name, target, partial(_change, what, name, after)) < 0:
            raise Broken("ends", "a change of a password failed when nothing was at fault")
        await asyncio.sleep(IN_FORCE_S)
        for each, watch in watches.items():
            if not watch.done():
                raise Broken("revoked", f"a watch of {name} at {each} goes on {IN_FORCE_S:g} s after its {what}")
            if (code := watch.result()) not in REFUSED:
                raise Broken("revoked", f"the watch of {name} at {each} ended with {code!r}")
        for each, client in idle.items():
            with suppress(WireCut):
                (reply,) = await client.call([(b"DBSIZE",)])
                if not isinstance(reply, RawError) or not reply.text.startswith("NOAUTH"):
                    raise Broken("revoked", f"a connection of {name} at {each} gets {reply!r} after its {what}")
        world.story.met["passwords: ended what was open"] += len(watches) + len(idle)
    finally:
        for client in idle.values():
            client.close()
        for watch in watches.values():
            watch.cancel()
    expected: _Outcome = "in" if what == "password" else "refused"
    for each in TARGETS:
        for password, should in ((before, "refused"), (after, expected)):
            came = await _log_in(world, book, chance, (each, name, password), _way(world, chance))
            if came != should:
                raise Broken(
                    "revoked" if should == "refused" else "granted",
                    f"{each} answers {password!r} of {name} after its {what} with {came!r}",
                )


async def _watch(world: ClusterWorld, name: str, password: str, server: str) -> str:
    """Watch at one server until that ends; with which error."""
    TRANSPORT.set(SimulatedTransport(world.network, "clients", authorization=basic_header(name, password)))
    try:
        async with await aio.connect(f"{server}:7070", timeout=_PATIENCE_S, direct=False) as database:
            async for _ in database.table(TABLE).watch():
                pass
    except DuramenError as error:
        return error.code
    return ""
