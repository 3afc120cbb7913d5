"""Token buckets and quotas: never more than the rate, nobody starves, and what is over holds nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.set_clock import HandClock

from log_tier.access.gate import Gate
from log_tier.access.quotas.quota_keeper import _FOUND_MAX, QuotaKeeper
from log_tier.access.quotas.token_bucket import TokenBucket
from log_tier.catalog.cluster_map import ClusterMap
from log_tier.model.errors import Overloaded
from log_tier.model.identifiers import Offset
from log_tier.trust.quotas import Quota
from log_tier.trust.users import TrustState, User


@given(st.integers(1, 50), st.lists(st.tuples(st.floats(0, 3), st.integers(0, 200)), max_size=60))
def test_no_more_than_the_rate_passes_in_the_long_run(rate: int, steps: list[tuple[float, int]]) -> None:
    bucket, now, passed, largest = TokenBucket(rate, 0.0), 0.0, 0, 0
    for seconds, amount in steps:
        now += seconds
        if bucket.wait_s(now) == 0:
            bucket.take(amount, now)
            passed, largest = passed + amount, max(largest, amount)
        assert passed <= rate * now + rate + largest + 1e-6, f"{passed} passed in {now} s at {rate} a second"


@given(st.integers(1, 1000), st.integers(0, 10**9))
def test_after_the_wait_that_was_named_it_passes(rate: int, debt: int) -> None:
    bucket = TokenBucket(rate, 0.0)
    bucket.take(debt, 0.0)
    wait_s = bucket.wait_s(0.0)
    if wait_s > 0.01:
        assert bucket.wait_s(wait_s * 0.99) > 0, "no wait is longer than it has to be"
    assert bucket.wait_s(wait_s) == 0


class Kept:
    """A gate with quotas, and their keeper."""

    def __init__(self, **quotas: Quota) -> None:
        self.clock = HandClock()
        self.gate = Gate(clock=self.clock)
        self.trust = TrustState().with_user(User("alice")).with_user(User("bob"))
        self.keeper = QuotaKeeper(self.gate, self.clock)
        self.set(**quotas)

    def set(self, **quotas: Quota) -> None:
        entries = self.trust.quotas
        for subject in list(entries):
            entries = entries.without(subject)
        for subject, quota in quotas.items():
            entries = entries.with_entry(subject.replace("_", ":"), quota)
        self.trust = replace(self.trust, quotas=entries)
        self.gate.follow(replace(ClusterMap(), version=Offset(self.gate.version + 1), trust=self.trust))

    def call(self, user: str = "alice", table: str = "orders", size: int = 1) -> str:
        """Why a call is refused; empty: it is not."""
        try:
            self.keeper.hold(self.gate.caller(user, "token"), (table,), lambda: size)
        except Overloaded as refusal:
            return refusal.message
        return ""


def test_without_a_quota_nothing_is_held() -> None:
    kept = Kept(user_alice=Quota(calls_s=1))
    assert kept.keeper.hold(kept.gate.caller("bob", "token"), ("orders",), int, stream="watches") is None
    assert kept.keeper.hold(kept.gate.caller("n1", "server"), ("orders",), int, stream="watches") is None


def test_a_quota_that_comes_changes_or_goes_counts_from_the_next_call_on() -> None:
    kept = Kept(user_bob=Quota(calls_s=1))
    assert [kept.call() for _ in range(3)] == [""] * 3
    kept.set(user_bob=Quota(calls_s=1), **{"table_ord*": Quota(calls_s=1)})
    assert [bool(kept.call()) for _ in range(2)] == [False, True]
    kept.set(user_bob=Quota(calls_s=1), **{"table_ord*": Quota(calls_s=2)})
    assert [bool(kept.call()) for _ in range(3)] == [False, False, True]
    kept.set(user_bob=Quota(calls_s=1), **{"table_ord*": Quota(calls_s=2), "table_orders": Quota(calls_s=3)})
    assert [bool(kept.call()) for _ in range(4)] == [False, False, False, True]
    kept.set(user_bob=Quota(calls_s=1))
    assert [kept.call() for _ in range(3)] == [""] * 3


def test_what_is_remembered_of_callers_and_tables_is_bounded() -> None:
    kept = Kept(user_alice=Quota(calls_s=10**6))
    for number in range(_FOUND_MAX + 10):
        assert kept.call(table=f"t{number}") == ""
    assert len(kept.keeper._found) <= _FOUND_MAX


def test_calls_of_one_user() -> None:
    kept = Kept(user_alice=Quota(calls_s=10))
    assert [kept.call() for _ in range(10)] == [""] * 10
    assert kept.call() == (
        "user:alice has a quota of 10 calls a second at this server: try again in 0.01 s, or have an "
        "administrator raise it"
    )
    assert kept.call("bob") == ""
    passed = 0
    for _ in range(1000):
        kept.clock.seconds += 0.01
        passed += kept.call() == ""
    assert 99 <= passed <= 101, "ten seconds"


@pytest.mark.parametrize("order", [("user_alice", "table_orders"), ("table_orders", "user_alice")])
def test_the_wait_is_that_of_the_bound_that_takes_longest(order: tuple[str, str]) -> None:
    """Whoever waits for the first bound alone is refused again by the next one."""
    kept = Kept(**{order[0]: Quota(calls_s=2, bytes_in_s=100), order[1]: Quota(calls_s=1000)})
    assert kept.call() == kept.call(size=400) == ""
    alice = kept.gate.caller("alice", "token")
    with pytest.raises(Overloaded, match="100 bytes of requests a second") as late:
        kept.keeper.hold(alice, ("orders",), lambda: 1)
    assert late.value.fields["wait_ms"] == 3011
    if order[0] == "user_alice":
        early = kept.keeper.early_refusal(alice)
        assert early is not None
        assert early[0].fields == late.value.fields
    kept.clock.seconds += 3.011
    assert kept.call() == ""


@given(st.integers(1, 1000), st.integers(1, 10**5))
def test_who_waits_as_long_as_the_words_say_is_let_in(rate: int, size: int) -> None:
    """A client of the Redis protocol has nothing but the words."""
    kept = Kept(user_alice=Quota(bytes_in_s=rate))
    assert kept.call(size=rate + size) == ""
    seconds = float(kept.call().partition("try again in ")[2].partition(" s")[0])
    kept.clock.seconds += seconds
    assert kept.call() == ""
    assert seconds <= size / rate + 0.02, "and not much longer than it has to be"


def test_tables_that_share_a_quota_and_one_with_its_own() -> None:
    kept = Kept(**{"table_ord*": Quota(calls_s=4), "table_orders": Quota(calls_s=2)})
    assert [kept.call(table="orders") == "" for _ in range(3)] == [True, True, False]
    assert [kept.call(table=f"ord{number}") == "" for number in range(5)] == [True, True, True, True, False]
    assert kept.call(table="ships") == ""


def test_a_large_request_passes_once() -> None:
    kept = Kept(user_alice=Quota(bytes_in_s=100))
    assert kept.call(size=1000) == ""
    assert "100 bytes of requests a second" in kept.call()
    kept.clock.seconds += 9.5
    assert kept.call() == ""


def test_a_refused_call_takes_nothing() -> None:
    kept = Kept(user_alice=Quota(calls_s=100), table_orders=Quota(calls_s=1))
    kept.call()
    for _ in range(200):
        kept.call()
    assert kept.call(table="ships") == "", "the refusals of orders have taken nothing of alice's calls"


def test_replies_are_taken_when_they_are_known() -> None:
    kept = Kept(user_alice=Quota(bytes_out_s=100))
    hold = kept.keeper.hold(kept.gate.caller("alice", "token"), ("orders",), int, stream="watches")
    assert hold is not None, "alice has a quota"
    assert hold.counts_replies
    assert hold.sent(50) == 0
    assert hold.sent(250) == pytest.approx(2.0, abs=0.01)
    assert "bytes of replies" in kept.call()
    kept.clock.seconds += 2.1
    assert kept.call() == ""


def test_open_streams_are_bounded_and_end() -> None:
    kept = Kept(user_alice=Quota(watches=2))
    caller = kept.gate.caller("alice", "token")
    holds = [kept.keeper.hold(caller, ("orders",), int, stream="watches") for _ in range(2)]
    with pytest.raises(Overloaded, match="2 open watches at this server: try again when one of them has"):
        kept.keeper.hold(caller, ("orders",), int, stream="watches")
    assert kept.call() == "", "calls are no streams"
    assert kept.keeper.hold(caller, ("orders",), int, stream="scans") is not None, "scans are no watches"
    for hold in holds:
        assert hold is not None, "there is a quota"
        hold.release()
        kept.keeper.hold(caller, ("orders",), int, stream="watches")


def test_a_change_is_in_force_at_once() -> None:
    kept = Kept(user_alice=Quota(calls_s=1))
    assert [kept.call() == "" for _ in range(3)] == [True, False, False]
    kept.set(user_alice=Quota(calls_s=5))
    assert [kept.call() == "" for _ in range(6)] == [True] * 5 + [False]
    kept.set()
    assert all(kept.call() == "" for _ in range(100))


def test_who_is_refused_and_does_not_wait_is_not_heard_for_a_while() -> None:
    kept = Kept(user_alice=Quota(calls_s=200), table_orders=Quota(bytes_in_s=1))
    alice = kept.gate.caller("alice", "password")
    assert [kept.keeper.refused(alice, ()) for _ in range(199)] == [0.0] * 199, "as many as calls in a second"
    waits = [kept.keeper.refused(alice, ()) for _ in range(500)]
    assert waits == sorted(waits)
    assert 0 < waits[0] < 0.01
    assert waits[-1] == 1.0, "it is heard again after a second at the latest"
    assert kept.keeper.refused(kept.gate.caller("bob", "password"), ("orders",)) == 0.0, "another user is another one"
    kept.clock.seconds += 10
    assert kept.keeper.refused(alice, ()) == 0.0
    bob = kept.gate.caller("bob", "password")
    assert max(kept.keeper.refused(bob, ("orders",)) for _ in range(99)) == 0.0
    assert kept.keeper.refused(bob, ("orders",)) > 0, "of a quota of bytes a hundred"
    kept.set()
    assert kept.keeper.refused(alice, ("orders",)) == 0.0


def test_an_early_refusal_takes_nothing_and_says_what_a_late_one_says() -> None:
    kept = Kept(user_alice=Quota(calls_s=2))
    alice = kept.gate.caller("alice", "token")
    assert kept.keeper.early_refusal(alice) is None
    while kept.keeper.early_refusal(alice) is None:
        kept.keeper.hold(alice, ("orders",), lambda: 1)
    with pytest.raises(Overloaded) as late:
        kept.keeper.hold(alice, ("orders",), lambda: 1)
    found = kept.keeper.early_refusal(alice)
    assert found is not None
    assert (found[0].message, found[0].fields) == (late.value.message, late.value.fields)
    assert kept.keeper.early_refusal(kept.gate.caller("bob", "token")) is None
    assert kept.keeper.early_refusal(kept.gate.caller("alice", "server")) is None
    kept.clock.seconds += int(found[0].fields["wait_ms"]) / 1000
    assert kept.keeper.early_refusal(alice) is None


@given(st.lists(st.tuples(st.floats(0, 0.05), st.integers(1, 300)), min_size=1, max_size=40))
def test_a_hundred_refusals_a_second_are_not_kept_back_and_none_for_long(steps: list[tuple[float, int]]) -> None:
    """However many come at once: those that leave are a hundred a second, and a hundred before."""
    kept = Kept(user_alice=Quota(bytes_in_s=1))
    alice = kept.gate.caller("alice", "token")
    kept.keeper.hold(alice, (), lambda: 1_000_000)
    began_s, leave_s = kept.clock.monotonic_s(), []
    for seconds, refusals in steps:
        kept.clock.seconds += seconds
        for _ in range(refusals):
            found = kept.keeper.early_refusal(alice)
            assert found is not None
            assert 0 <= found[1] < 11, "not much over the longest time"
            leave_s.append(kept.clock.monotonic_s() + found[1] - began_s)
    for at_s in {each for each in leave_s if each < 9}:
        assert sum(each <= at_s for each in leave_s) <= 101 + 100 * at_s + 1e-6
