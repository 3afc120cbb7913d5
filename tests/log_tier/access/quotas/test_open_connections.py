"""Connections of users against a model that keeps every one: never more than the bound comes in, and none is kept."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from kit.set_clock import HandClock

from log_tier.access.quotas import open_connections
from log_tier.access.quotas.open_connections import PEER_S, OpenConnections
from log_tier.model.errors import Overloaded
from log_tier.trust.caller import Caller
from log_tier.trust.rights import NO_RIGHTS


def user(name: str) -> Caller:
    return Caller(name, "token", NO_RIGHTS)


class Bounded:
    """Connections with bounds that a test sets."""

    def __init__(self, **bounds: int) -> None:
        self.clock = HandClock()
        self.bounds = bounds
        self.open = OpenConnections(lambda name: self.bounds.get(name, 0), self.clock)

    def may_call(self, peer: str, name: str = "alice") -> bool:
        try:
            self.open.called(user(name), peer)
        except Overloaded:
            return False
        return True


def test_what_is_over_is_refused_and_says_what_to_do() -> None:
    bounded = Bounded(alice=2)
    bounded.open.join("alice")
    assert bounded.may_call("p1")
    with pytest.raises(Overloaded) as refused:
        bounded.open.join("alice")
    assert refused.value.message == (
        "user:alice has a quota of 2 open connections at this server, and has as many: end one of them (one of gRPC "
        "counts until 30 s after its last call), or have an administrator raise it"
    )
    assert refused.value.fields["wait_ms"] == 1000
    assert not bounded.may_call("p2")
    assert bounded.may_call("p1"), "one that is there goes on"
    assert bounded.may_call("p2", "bob"), "another user has no quota"
    bounded.open.leave("alice")
    assert bounded.may_call("p2")
    assert bounded.open.count("alice") == 2


def test_a_bound_that_falls_ends_nothing() -> None:
    bounded = Bounded()
    for number in range(5):
        bounded.open.join("alice")
        assert bounded.may_call(f"p{number}")
    bounded.bounds["alice"] = 3
    assert all(bounded.may_call(f"p{number}") for number in range(5))
    assert not bounded.may_call("another")
    for left in range(9, 3, -1):
        bounded.open.leave("alice") if left >= 5 else None
    bounded.bounds["alice"] = 6
    assert bounded.open.count("alice") == 5
    assert bounded.may_call("another")


def test_a_peer_counts_for_a_while_after_its_last_call() -> None:
    bounded = Bounded(alice=1)
    assert bounded.may_call("p1")
    bounded.clock.seconds = PEER_S - 1
    assert bounded.may_call("p1")
    bounded.clock.seconds = 2 * PEER_S - 2
    assert not bounded.may_call("p2")
    bounded.clock.seconds = 2 * PEER_S
    assert bounded.may_call("p2")
    assert not bounded.may_call("p1"), "it was idle for too long, and another one has its place"


def test_a_peer_with_a_stream_counts_until_it_ends() -> None:
    bounded = Bounded(alice=1)
    assert bounded.may_call("p1")
    bounded.open.opened(user("alice"), "p1")
    bounded.clock.seconds = 10 * PEER_S
    assert not bounded.may_call("p2")
    bounded.open.closed(user("alice"), "p1")
    bounded.clock.seconds += PEER_S - 1
    assert not bounded.may_call("p2"), "its end is as a call"
    bounded.clock.seconds += 1
    assert bounded.may_call("p2")


def test_servers_and_nobody_are_not_counted() -> None:
    bounded = Bounded(n1=1)
    for number in range(3):
        for proof in ("server", "nothing"):
            bounded.open.called(Caller("n1", proof, NO_RIGHTS), f"p{number}")
        bounded.open.join("")
    assert bounded.open.count("n1") == bounded.open.count("") == 0


def test_a_flood_of_new_peers_takes_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_connections, "PEERS_MAX", 100)
    bounded = Bounded()
    for number in range(1000):
        assert bounded.may_call(f"p{number}", f"user{number % 3}")
    assert sum(bounded.open.count(f"user{number}") for number in range(3)) == len(bounded.open._peers) == 100
    bounded.clock.seconds = PEER_S
    for number in range(20):
        assert bounded.may_call(f"q{number}")
    assert len(bounded.open._peers) == 20, "what is idle is forgotten by and by"


class OpenConnectionsModel(RuleBasedStateMachine):
    """Users, connections and peers at random."""

    @initialize(bounds=st.dictionaries(st.sampled_from("ab"), st.integers(0, 4)))
    def begin(self, bounds: dict[str, int]) -> None:
        self.bounded = Bounded(**bounds)
        self.joined: Counter[str] = Counter()
        self.peers: dict[tuple[str, str], float] = {}
        self.streams: Counter[tuple[str, str]] = Counter()

    def _live(self, name: str) -> int:
        now = self.bounded.clock.seconds
        fresh = [place for place, last in self.peers.items() if now - last < PEER_S or self.streams[place]]
        return self.joined[name] + sum(place[0] == name for place in fresh)

    @rule(name=st.sampled_from("ab"))
    def join(self, name: str) -> None:
        most = self.bounded.bounds.get(name, 0)
        try:
            self.bounded.open.join(name)
        except Overloaded:
            assert most
            assert self._live(name) >= most, "it was refused with room left"
        else:
            self.joined[name] += 1
            assert not most or self._live(name) <= most

    @rule(name=st.sampled_from("ab"))
    def leave(self, name: str) -> None:
        if self.joined[name]:
            self.joined[name] -= 1
            self.bounded.open.leave(name)

    @rule(name=st.sampled_from("ab"), peer=st.sampled_from("xyz"), stream=st.booleans())
    def call(self, name: str, peer: str, stream: bool) -> None:
        place = (name, peer)
        if not self.bounded.may_call(peer, name):
            assert self._live(name) >= self.bounded.bounds[name] > 0
            return
        self.peers[place] = self.bounded.clock.seconds
        if stream:
            self.streams[place] += 1
            self.bounded.open.opened(user(name), peer)

    @rule(name=st.sampled_from("ab"), peer=st.sampled_from("xyz"))
    def end_stream(self, name: str, peer: str) -> None:
        place = (name, peer)
        if self.streams[place]:
            self.streams[place] -= 1
            self.peers[place] = self.bounded.clock.seconds
            self.bounded.open.closed(user(name), peer)

    @rule(seconds=st.sampled_from([1.0, PEER_S / 2, PEER_S]))
    def wait(self, seconds: float) -> None:
        self.bounded.clock.seconds += seconds

    @rule(name=st.sampled_from("ab"), bound=st.integers(0, 4))
    def set_bound(self, name: str, bound: int) -> None:
        self.bounded.bounds[name] = bound

    @invariant()
    def counts_what_is_open(self) -> None:
        if hasattr(self, "bounded"):
            for name in "ab":
                assert self.bounded.open.count(name) >= self._live(name)


TestOpenConnectionsModel = OpenConnectionsModel.TestCase
