"""Users of the Redis protocol of a simulated cluster: connections stay open while grants on keys come and go.

Each user keeps a connection, sends pipelines on keys with two prefixes, and proves itself anew now and then. Where the
server's own map has not changed between the first byte sent and the last one heard, every command of the pipeline must
be as the grants say, each for itself. In the end grants, tokens and users go away under open connections and
subscriptions.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

from duramen import aio
from duramen.testing.machine.resp_words import RawError
from duramen.testing.machine.simulated_wire import WireClient, WireCut
from log_tier.trust.users import TrustState
from simulation.access_ledger import KEYS_TABLE, Right
from simulation.book import Broken
from simulation.cluster_roles import change_roles
from simulation.cluster_turns import ASK_S
from simulation.cluster_users import administer
from simulation.cluster_world import ClusterWorld
from simulation.trust_turns import (
    IN_FORCE_S,
    TARGETS,
    USERS,
    administration,
    change_grant,
    has_grant,
    is_at,
    trust_of,
    version_at,
)

__all__ = ["check_listeners", "open_keys", "use_keys"]

_TABLE: Final = KEYS_TABLE
_SELECT: Final = (b"SELECT", b"1")
_GRANTS: Final = tuple(f"{verb} {_TABLE} --key {prefix}" for verb in ("read", "write") for prefix in ("a:", "b:"))
_SHOWN: Final = f"read {_TABLE} --key shown:"
"""Every user has it all the time, so that the table can be selected."""
_PATIENCE_S: Final = 1.0
_HEARD_S: Final = 5.0
_REFUSED: Final = ("NOPERM", "NOAUTH", "WRONGPASS")
_CHANNEL: Final = b"__keyspace@1__:a:heard"
_WRITTEN: Final = (b"SET", b"a:heard", b"1")

_Command = tuple[bytes, ...]

_NEEDS: Final[Mapping[bytes, Sequence[Right]]] = {b"GET": ("read",), b"MGET": ("read",), b"SET": ("write",)}
"""Others need both."""


async def open_keys(world: ClusterWorld) -> None:
    """Make the table of the users, who may select it and nothing more. No fault has begun."""
    if not world.has_users:
        return
    async with await aio.connect("router:7070", timeout=ASK_S) as database:
        await database.create_table(_TABLE, partitions=2)
    async with administration("router") as users:
        version = max([await users.grant(user, _SHOWN) for user in USERS])
    for catalog in world.catalogs.values():
        await catalog.wait_for(partial(is_at, version))


async def use_keys(world: ClusterWorld, stop: asyncio.Event) -> None:
    """Users send pipelines, and grants on keys come and go, until `stop` is set."""
    if not world.has_users:
        return
    working = [asyncio.create_task(administer(world, stop, _GRANTS))]
    working.append(asyncio.create_task(change_roles(world, stop, _GRANTS)))
    working += [asyncio.create_task(_call_on(world, user, stop)) for user in USERS]
    try:
        await asyncio.gather(*working)
    finally:
        for task in working:
            task.cancel()


async def _call_on(world: ClusterWorld, user: str, stop: asyncio.Event) -> None:
    chance = random.Random(f"connections of {user} {world.plan.seed}")
    while not stop.is_set():
        name = chance.choice(TARGETS)
        # Who waits for a server that is down, or for a write that no log takes, tries another one.
        with suppress(WireCut, TimeoutError):
            async with asyncio.timeout_at(world.loop.time() + _PATIENCE_S):
                client = await _selected(world, chance, name, user)
            try:
                while not stop.is_set() and chance.random() > 0.05:
                    await asyncio.sleep(chance.random() * 0.1)
                    async with asyncio.timeout_at(world.loop.time() + _PATIENCE_S):
                        await _one_pipeline(world, chance, client, user, name)
            finally:
                client.close()
        await asyncio.sleep(0.05)


async def _selected(world: ClusterWorld, chance: random.Random, name: str, user: str) -> WireClient:
    """A connection of a user at a process, where it has selected its table. Raises `WireCut`, `Broken`."""
    client = await world.connected(chance, name, user)
    try:
        (reply,) = await client.call([_SELECT])
        if isinstance(reply, RawError):
            if _is_refused(reply):
                raise Broken("granted", f"{name} refuses {user} to select {_TABLE}: {reply.text}")
            raise WireCut([])
    except BaseException:
        client.close()
        raise
    return client


def _commands(chance: random.Random) -> list[_Command]:
    """A pipeline: of one kind, of several, or a transaction on one key."""

    def key() -> bytes:
        return chance.choice((b"a:", b"b:")) + b"%d" % chance.randrange(3)

    kinds: tuple[Callable[[], _Command], ...] = (
        lambda: (b"GET", key()),
        lambda: (b"SET", key(), b"1"),
        lambda: (b"APPEND", key(), b"1"),
        lambda: (b"MGET", key(), key()),
        lambda: (b"DEL", key()),
    )
    size = chance.choice((1, 3, 6))
    if chance.random() < 0.2:
        one = key()
        inner = [(b"GET", one), (b"SET", one, b"1")]
        return [(b"MULTI",), *chance.choices(inner, k=size), (b"EXEC",)]
    if chance.random() < 0.5:
        kind = chance.choice(kinds)
        return [kind() for _ in range(size)]
    return [chance.choice(kinds)() for _ in range(size)]


async def _one_pipeline(world: ClusterWorld, chance: random.Random, client: WireClient, user: str, name: str) -> None:
    """Send a pipeline, and judge each reply where no grant has changed meanwhile. Raises `WireCut`, `Broken`."""
    commands = _commands(chance)
    trust, version = trust_of(world, name), version_at(world, name, -1)
    try:
        replies = await client.call(commands)
    except BaseException as error:
        heard = error.replies if isinstance(error, WireCut) else []
        _note_refused(world, name, user, heard, perhaps=len(commands) - len(heard))
        _note_done(world, name, user, commands, heard)
        raise
    _note_refused(world, name, user, replies, perhaps=commands[0][0] == b"MULTI")
    _note_done(world, name, user, commands, replies)
    is_sure = trust is not None and trust is trust_of(world, name)
    if commands[0][0] == b"MULTI":
        # What was queued is served if all was.
        done, commands, replies = replies[-1], commands[1:-1], replies[1:-1]
        if not isinstance(done, list):
            replies = [each if _is_refused(each) else RawError("EXECABORT") for each in replies]
    for command, reply in zip(commands, replies, strict=True):
        outcome = "refused" if _is_refused(reply) else "failed" if isinstance(reply, RawError) else "served"
        expected = "not sure"
        if trust is not None and is_sure:
            expected = "granted" if _may(trust, user, command) else "not granted"
        world.story.met[f"users of endpoints: {outcome}, {expected}"] += 1
        if expected == "not granted" and outcome == "served":
            raise Broken("revoked", f"{name} at version {version} served {user}, who may not {_shown(command)}")
        if expected == "granted" and outcome == "refused":
            raise Broken("granted", f"{name} at version {version} refused {user}, who may {_shown(command)}: {reply}")


def _note_refused(world: ClusterWorld, name: str, user: str, replies: Sequence[Any], *, perhaps: int) -> None:
    """`perhaps`: commands that may have been refused, such as those of a transaction once more at its EXEC."""
    # `NOAUTH` with a reason: a proof that counts no more, and whose user is known.
    words = ("NOPERM ", "NOAUTH Authentication required. ")
    refused = sum(isinstance(each, RawError) and each.text.startswith(words) for each in replies)
    world.accesses.commanded(name, user, refused=refused, perhaps=perhaps)


def _note_done(world: ClusterWorld, name: str, user: str, commands: Sequence[_Command], replies: Sequence[Any]) -> None:
    """What commands did for certain, or may have done: whose reply did not come, or is an error of another kind."""
    heard = [*replies, *[None] * (len(commands) - len(replies))]
    is_heard = [number < len(replies) for number in range(len(commands))]
    if commands[0][0] == b"MULTI":
        # A transaction is noted as one, at its end.
        rights = {right for command in commands[1:-1] for right in _rights_of(command)}
        commands, heard, is_heard = [(b"EXEC",)], heard[-1:], is_heard[-1:]
    else:
        rights = set()
    for command, reply, has_come in zip(commands, heard, is_heard, strict=True):
        if has_come and (_is_refused(reply) or (isinstance(reply, RawError) and reply.text.startswith("EXECABORT"))):
            continue
        is_certain = has_come and not isinstance(reply, RawError)
        did = sorted(rights) or _rights_of(command)
        world.accesses.did(name, user, command[0].decode().lower(), did, is_certain=is_certain)


def _rights_of(command: _Command) -> Sequence[Right]:
    """What a command needs and does, by its name."""
    return _NEEDS.get(command[0], ("read", "write"))


def _shown(command: _Command) -> str:
    return b" ".join(command).decode()


def _is_refused(reply: Any) -> bool:
    return isinstance(reply, RawError) and reply.text.partition(" ")[0] in _REFUSED


def _may(trust: TrustState, user: str, command: _Command) -> bool:
    """By the text of the grants alone."""
    needed = _rights_of(command)
    keys = command[1:] if command[0] == b"MGET" else command[1:2]
    return all(has_grant(trust, user, verb, _TABLE, key) for verb in needed for key in keys)


async def check_listeners(world: ClusterWorld) -> None:
    """When all is level and nothing is at fault: a grant, a token and a user go, one after the other, and every server
    refuses what follows on open connections, and has ended the subscriptions. Raises `Broken`.
    """
    if not world.has_users:
        return
    chance = random.Random(f"listeners that lose their rights {world.plan.seed}")
    for what in chance.sample(("grant", "token", "user"), 3):
        user = f"listener-{what}"
        async with administration(chance.choice(TARGETS)) as users:
            added = await users.add_user(user, grants=[f"read {_TABLE}"], with_token=True)
        world.tokens[user] = added.token
        for name in TARGETS:
            await world.catalogs[name].wait_for(partial(is_at, added.version))
        idle = {name: await _selected(world, chance, name, user) for name in TARGETS}
        listening = {name: await _selected(world, chance, name, user) for name in TARGETS}
        try:
            await _listen(world, chance, listening)
            await _take(world, chance, user, what, added.token_id)
            await asyncio.sleep(IN_FORCE_S)
            await _check_lost(world, user, idle, listening)
        finally:
            for client in (*idle.values(), *listening.values()):
                client.close()


async def _listen(world: ClusterWorld, chance: random.Random, listening: dict[str, WireClient]) -> None:
    """Subscribe, and hear of a change."""
    for name, client in listening.items():
        (reply,) = await client.call([(b"SUBSCRIBE", _CHANNEL)])
        if isinstance(reply, RawError):
            raise Broken("granted", f"{name} refuses to let a user listen who may read {_TABLE}: {reply.text}")
    writer = await world.connected(chance, chance.choice(TARGETS))
    _, reply = await writer.call([_SELECT, _WRITTEN])
    writer.close()
    if isinstance(reply, RawError):
        raise Broken("ends", f"a write failed when nothing was at fault: {reply.text}")
    for name, client in listening.items():
        try:
            async with asyncio.timeout_at(world.loop.time() + _HEARD_S):
                await client.heard()
        except (TimeoutError, WireCut) as error:
            raise Broken("notified", f"who listens at {name} has not heard of a write") from error


async def _take(world: ClusterWorld, chance: random.Random, user: str, what: str, token_id: str) -> None:
    target = chance.choice(TARGETS)
    if what == "grant":
        if await change_grant(world, user, f"read {_TABLE}", target, gives=False) < 0:
            raise Broken("ends", "a revocation failed when nothing was at fault")
        return
    async with administration(target) as users:
        version = await (users.revoke_token(user, token_id) if what == "token" else users.remove_user(user))
    world.story.tell("administrator", f"{what} of {user} goes at {target}: version {version}")


async def _check_lost(
    world: ClusterWorld, user: str, idle: dict[str, WireClient], listening: dict[str, WireClient]
) -> None:
    for name, client in listening.items():
        if not client.ended.is_set():
            raise Broken("revoked", f"a subscription of {user} at {name} goes on {IN_FORCE_S:g} s after the revocation")
        world.story.met["users of endpoints: subscription ended by a revocation"] += 1
    for name, client in idle.items():
        (reply,) = await client.call([(b"GET", b"a:heard")])
        if not _is_refused(reply):
            raise Broken("revoked", f"a connection of {user} at {name} gets {reply!r} after the revocation")
