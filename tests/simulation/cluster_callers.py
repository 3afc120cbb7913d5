"""Calls of a simulated cluster's users, each held against the map and the clock of the server that has answered.

The checker reads users, roles and tokens of the map by itself: nothing of what it judges by is the product's judgement.
"""

from __future__ import annotations

from typing import Final

from duramen import aio
from duramen.testing.machine.simulated_grpc import SimulatedTransport
from log_tier.access.tokens import ReadToken, read_token
from log_tier.model.errors import DuramenError
from log_tier.rpc.credentials import bearer_header
from log_tier.rpc.transport import TRANSPORT
from log_tier.trust.users import TrustState
from simulation.access_ledger import AUDITED
from simulation.book import Broken
from simulation.cluster_world import ClusterWorld
from simulation.trust_turns import has_grant, trust_of, version_at

__all__ = ["REFUSED", "TABLE", "one_call", "prove", "watch_of"]

TABLE: Final = AUDITED
REFUSED: Final = ("permission_denied", "unauthenticated")


def prove(world: ClusterWorld, token: str) -> None:
    """Have the calls of this task, and of those that it begins, carry a token."""
    TRANSPORT.set(SimulatedTransport(world.network, "clients", authorization=bearer_header(token)))


def _refusal_of(world: ClusterWorld, trust: TrustState, proof: ReadToken, verb: str, target: str) -> str:
    """Why a server whose map this is must refuse a call by this token now; empty: it must not."""
    entry = trust.users[proof.user]
    token = next((each for each in entry.tokens if each.id == proof.id), None)
    if token is None:
        return "without the token"
    if 0 < token.expires_ms <= world.clock_of(target).wall_ms():
        return "after the token's end"
    return "" if has_grant(trust, proof.user, verb, TABLE) else "without the grant"


def _clocks_set(world: ClusterWorld) -> int:
    return sum(count for name, count in world.story.met.items() if name.startswith("a clock is set"))


async def one_call(world: ClusterWorld, user: str, verb: str, target: str) -> None:
    """One call of this task at one server, by the user's token. Where neither its map has changed meanwhile nor a clock
    was set, the answer must follow them. Raises `Broken`.
    """
    trust, version = trust_of(world, target), version_at(world, target, -1)
    proof, clocks = read_token(world.tokens[user]), _clocks_set(world)
    assert proof is not None, "a server has made it"
    prove(world, world.tokens[user])
    before = "" if trust is None else _refusal_of(world, trust, proof, verb, target)
    code = ""
    try:
        async with await aio.connect(f"{target}:7070", timeout=1.0, direct=False) as database:
            table = database.table(TABLE)
            if verb == "read":
                await table.get(b"key", level="eventual")
            else:
                await table.put(b"key", user.encode())
    except DuramenError as error:
        code = error.code
    outcome = "refused" if code in REFUSED else "failed" if code else "served"
    sure = trust is not None and trust is trust_of(world, target) and clocks == _clocks_set(world)
    if sure and trust is not None and before == _refusal_of(world, trust, proof, verb, target):
        world.story.met[f"users: {outcome}, {before or 'granted'}"] += 1
        what = f"{target} at version {version} {outcome} {user}'s '{verb} {TABLE}'"
        if before and outcome == "served":
            raise Broken("expired" if "end" in before else "revoked", f"{what} {before}")
        if not before and outcome == "refused":
            raise Broken("granted", f"{what}, who may do that: {code}")
    else:
        world.story.met[f"users: {outcome}, not sure"] += 1


async def watch_of(world: ClusterWorld, user: str, name: str) -> str:
    """Watch at one server until that ends; with which error."""
    prove(world, world.tokens[user])
    try:
        async with await aio.connect(f"{name}:7070", timeout=1.0, direct=False) as database:
            async for _ in database.table(TABLE).watch():
                pass
    except DuramenError as error:
        return error.code
    return ""
