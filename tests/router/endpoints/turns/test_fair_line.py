"""The line of turns against its contract: each user's work in its order, the same time for each, and nothing idles."""

from __future__ import annotations

from collections import deque
from functools import partial
from itertools import combinations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from router.endpoints.turns.fair_line import COST_MAX_S, COST_MIN_S, SHARE_S, FairLine

USERS = ("alice", "bob", "mallory")
AHEAD_MAX_S = 2 * (SHARE_S + COST_MAX_S) + 1e-9

users = st.sampled_from(USERS)
costs = st.one_of(st.just(0.0), st.floats(0, 2 * SHARE_S), st.floats(0, 3 * COST_MAX_S))


class FairLineModel(RuleBasedStateMachine):
    """Queues of numbers; what each pair of users got while both had work waiting."""

    @initialize()
    def begin(self) -> None:
        self.line = FairLine()
        self.waiting: dict[str, deque[int]] = {user: deque() for user in USERS}
        self.next_number = 0
        self.called: list[tuple[str, int]] = []
        self.got_s = dict.fromkeys(USERS, 0.0)
        self.since_s: dict[tuple[str, str], float] = {}
        """For users who both wait: how far the first was ahead when that began."""

    @rule(user=users, count=st.integers(1, 30))
    def join(self, user: str, count: int) -> None:
        for _ in range(count):
            self._add(user)

    def _add(self, user: str) -> None:
        self.line.add(user, partial(self.called.append, (user, self.next_number)))
        self.waiting[user].append(self.next_number)
        self.next_number += 1
        for pair in combinations(USERS, 2):
            if all(map(self.waiting.get, pair)):
                self.since_s.setdefault(pair, self._ahead_s(pair))

    def _ahead_s(self, pair: tuple[str, str]) -> float:
        return self.got_s[pair[0]] - self.got_s[pair[1]]

    @precondition(lambda self: any(self.waiting.values()))
    @rule(cost_s=costs, again=st.booleans(), times=st.integers(1, 20))
    def call(self, cost_s: float, again: bool, times: int) -> None:
        """Call the first work, several times; `again`: it has more to do each time."""
        for _ in range(times):
            if not self.line:
                return
            self.line.first()()
            user, number = self.called[-1]
            assert self.waiting[user][0] == number, "a user's own work keeps its order"
            if again:
                self._add(user)
            self.line.done(cost_s)
            self.waiting[user].popleft()
            self.got_s[user] += min(max(cost_s, COST_MIN_S), COST_MAX_S)
            self._compare()

    def _compare(self) -> None:
        for pair in list(self.since_s):
            if not all(map(self.waiting.get, pair)):
                del self.since_s[pair]
                continue
            ahead_s = self._ahead_s(pair) - self.since_s[pair]
            assert abs(ahead_s) <= AHEAD_MAX_S, f"{pair}: {ahead_s} s ahead while both waited"

    @invariant()
    def nothing_is_lost(self) -> None:
        if not hasattr(self, "line"):
            return
        self.line.check()
        assert len(self.line) == sum(map(len, self.waiting.values()))
        assert {user for user in USERS if user in self.line} == {user for user, work in self.waiting.items() if work}


TestFairLineModel = FairLineModel.TestCase


def test_one_piece_of_work_costs_its_user_the_visits_that_it_took() -> None:
    """Mallory's work takes four shares each time, bob's a quarter of one: of their time each has half."""
    line, took_s = FairLine(), {"mallory": 0.0, "bob": 0.0}
    costs_s = {"mallory": 4 * SHARE_S, "bob": SHARE_S / 4}
    now: list[str] = []
    for user in took_s:
        for _ in range(2):
            line.add(user, partial(now.append, user))
    for _ in range(1700):
        line.first()()
        line.add(now[-1], partial(now.append, now[-1]))
        line.done(costs_s[now[-1]])
        took_s[now[-1]] += costs_s[now[-1]]
    assert abs(took_s["mallory"] - took_s["bob"]) <= 5 * SHARE_S, took_s


def test_who_comes_waits_one_visit_behind_another_user_however_much_waits() -> None:
    line = FairLine()
    called: list[str] = []
    for _ in range(100_000):
        line.add("mallory", partial(called.append, "mallory"))
    line.add("alice", partial(called.append, "alice"))
    while "alice" not in called:
        line.first()()
        line.done(SHARE_S / 10)
    assert len(called) <= 12, "ten of mallory's, and alice's"


def test_who_has_no_work_leaves_nothing_behind() -> None:
    line = FairLine()
    for number in range(10_000):
        line.add(number, lambda: None)
    while line:
        line.first()
        line.done(COST_MAX_S * 2)
    assert not line._users
    assert not line._circle
