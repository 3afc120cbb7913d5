"""Tokens, passwords and certificates as proofs: whom they prove, how long, and what a wrong one costs."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from statistics import median

import pytest
from kit.set_clock import HandClock

from log_tier.access.authenticator import Authenticator, basic_header, bearer_header
from log_tier.access.demands import ANY_USER, SERVERS_ONLY
from log_tier.access.gate import NOBODY, Gate
from log_tier.access.passwords import Passwords, hash_password
from log_tier.access.tokens import mint_token
from log_tier.catalog.cluster_map import ClusterMap
from log_tier.model.errors import InvalidRequest, Overloaded, PermissionDenied, Unauthenticated
from log_tier.model.identifiers import Offset
from log_tier.trust.users import ApiToken, TrustState, User

PASSWORD = "correct horse battery"
HASH = hash_password(PASSWORD)
TOKEN = mint_token("alice")


class Users:
    """A gate with users, and the authenticator of it."""

    def __init__(self) -> None:
        self.clock = HandClock()
        self.gate = Gate(clock=self.clock)
        self.authenticator = Authenticator(self.gate, clock=self.clock)
        self.trust = TrustState()
        alice = User("alice", HASH, (ApiToken(TOKEN.id, TOKEN.sha256, expires_ms=5000),))
        for user in (User("root"), alice, User("nopassword")):
            self.set(user)

    def set(self, user: User) -> None:
        """Another entry of a user, at the next version."""
        self.trust = self.trust.with_user(user)
        self.gate.follow(replace(ClusterMap(), version=Offset(self.gate.version + 1), trust=self.trust))


async def test_a_password_proves_its_user_until_it_is_changed() -> None:
    users = Users()
    caller = await users.authenticator.by_password("alice", PASSWORD)
    assert (caller.name, caller.proof) == ("alice", "password")
    assert HASH not in repr(caller), "no hash in what is printed"
    users.gate.decide(caller, ANY_USER)
    users.set(User("alice", hash_password("another password")))
    with pytest.raises(Unauthenticated, match="the password of user alice was changed"):
        users.gate.decide(caller, ANY_USER)
    with pytest.raises(Unauthenticated):
        await users.authenticator.by_password("alice", PASSWORD)


async def test_a_header_is_remembered_only_as_long_as_its_password_is_good() -> None:
    users = Users()
    header = basic_header("alice", PASSWORD)
    for _ in range(2):
        assert (await users.authenticator.by_header(header)).name == "alice"
    users.set(User("alice", hash_password("another password")))
    with pytest.raises(Unauthenticated):
        await users.authenticator.by_header(header)


async def test_a_token_proves_its_user_until_it_expires() -> None:
    users = Users()
    users.clock.seconds = 4
    caller = await users.authenticator.by_header(bearer_header(TOKEN.text))
    assert (caller.name, caller.proof, caller.credential) == ("alice", "token", TOKEN.id)
    users.gate.decide(caller, ANY_USER)
    users.clock.seconds = 5
    with pytest.raises(Unauthenticated, match=f"the token {TOKEN.id} of user alice has expired"):
        users.gate.decide(caller, ANY_USER)


async def test_a_token_does_as_its_users_password_and_as_no_others() -> None:
    users = Users()
    assert (await users.authenticator.by_password("alice", TOKEN.text)).proof == "token"
    with pytest.raises(Unauthenticated):
        await users.authenticator.by_password("root", TOKEN.text)


@pytest.mark.parametrize("name", ["root", "nopassword", "nobody", ""])
async def test_without_a_password_none_is_right(name: str) -> None:
    with pytest.raises(Unauthenticated, match="with this password"):
        await Users().authenticator.by_password(name, PASSWORD)


async def test_wrong_user_and_wrong_password_take_as_long() -> None:
    """By processor time of both threads, and the medians of several: each is one argon2id."""
    passwords = Passwords()

    async def cost_s(password_hash: str) -> float:
        costs = []
        for _ in range(7):
            began = time.process_time()
            assert not await passwords.match(password_hash, "wrong password")
            costs.append(time.process_time() - began)
        return median(costs)

    known, unknown = await cost_s(HASH), await cost_s("")
    assert unknown > known / 2, f"a known user took {known} s of a processor, an unknown one {unknown}"
    assert known > unknown / 2, f"a known user took {known} s of a processor, an unknown one {unknown}"


async def test_a_brute_force_becomes_slow_and_does_not_lock_out() -> None:
    users = Users()
    refusals = []
    for number in range(8):
        try:
            await users.authenticator.by_password("alice", f"wrong password {number}", address="10.0.0.1")
        except (Unauthenticated, Overloaded) as error:
            refusals.append(type(error).__name__)
    assert refusals == ["Unauthenticated"] * 5 + ["Overloaded"] * 3
    with pytest.raises(Overloaded):
        await users.authenticator.by_password("alice", PASSWORD, address="10.0.0.1")
    assert (await users.authenticator.by_password("alice", PASSWORD, address="10.0.0.2")).name == "alice"
    users.clock.seconds += 1
    assert (await users.authenticator.by_password("alice", PASSWORD, address="10.0.0.1")).name == "alice"


async def test_a_brute_force_that_sends_all_at_once_gains_nothing() -> None:
    users = Users()
    attempts = (users.authenticator.by_password("alice", f"wrong password {number}") for number in range(400))
    kinds = [type(found).__name__ for found in await asyncio.gather(*attempts, return_exceptions=True)]
    assert kinds.count("Unauthenticated") <= 6, "two are under way when the fifth fails"
    assert kinds.count("Overloaded") >= 394


async def test_two_logins_at_once() -> None:
    users = Users()
    found = await asyncio.gather(
        users.authenticator.by_password("alice", PASSWORD),
        users.authenticator.by_password("alice", "wrong password"),
        users.authenticator.by_password("alice", PASSWORD),
        users.authenticator.by_password("root", PASSWORD),
        return_exceptions=True,
    )
    assert [type(each).__name__ for each in found] == ["Caller", "Unauthenticated", "Caller", "Unauthenticated"]


async def test_a_certificate_proves_a_server_or_a_user() -> None:
    users = Users()
    server = users.authenticator.by_certificate("n1", is_server=True)
    users.gate.decide(server, SERVERS_ONLY)
    alice = users.authenticator.by_certificate("alice", is_server=False)
    users.gate.decide(alice, ANY_USER)
    with pytest.raises(PermissionDenied):
        users.gate.decide(alice, SERVERS_ONLY)
    assert users.authenticator.by_certificate("nobody", is_server=False) is NOBODY


@pytest.mark.parametrize("password", ["short", "x" * 2000, "\N{SNOWMAN}" * 400])
def test_what_is_no_password_is_refused_when_it_is_chosen(password: str) -> None:
    with pytest.raises(InvalidRequest, match="a password has at"):
        hash_password(password)


DAMAGED = {
    "empty": "",
    "no hash": "x",
    "no salt": "$argon2id$v=19$m=19456,t=2,p=1$",
    "cut": HASH[:-5],
    "no passes": HASH.replace("t=2", "t=0"),
}


@pytest.mark.parametrize("damaged", DAMAGED.values(), ids=DAMAGED)
async def test_a_damaged_hash_matches_nothing(damaged: str) -> None:
    assert not await Passwords().match(damaged, PASSWORD)


async def test_passwords_of_any_bytes_are_compared() -> None:
    passwords = Passwords()
    for text in ("\x00", "\ud800", "x" * 100_000, ""):
        assert not await passwords.match(HASH, text)
