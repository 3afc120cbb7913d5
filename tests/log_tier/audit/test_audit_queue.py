"""The audit's queue against a model that keeps every event: equal ones are counted, floods are bounded, nothing is lost
unseen.
"""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from kit.set_clock import HandClock

from log_tier.audit.audit_event import TEXT_MAX, AuditEvent, AuditResult
from log_tier.audit.audit_queue import ACCESS_ROWS_PER_S, REFUSED_KEYS_PER_S, REFUSED_ROWS_PER_S, AuditQueue
from log_tier.audit.audit_row import AuditRow
from log_tier.audit.audit_settings import WINDOW_S

READ = AuditEvent("read", "allowed", "alice", "token", "a1", "10.0.0.1", "KV/Get", "orders", "eu:")
REFUSED = AuditEvent(
    "read", "refused", "alice", "token", "a1", "10.0.0.1", "KV/Get", "orders", "eu:", "what is missing is 'read orders'"
)
NOT_SHOWN = "more keys than are shown one by one"


def taken(queue: AuditQueue) -> list[AuditRow]:
    rows = queue.ready(len(queue))
    queue.wrote(len(rows))
    return rows


def test_equal_events_of_a_second_are_one_row() -> None:
    clock = HandClock()
    queue = AuditQueue(clock)
    for _ in range(1000):
        queue.add(REFUSED)
    clock.seconds = 0.9
    queue.add(REFUSED._replace(version=9))
    assert queue.ready(10) == [], "its second is not over"
    clock.seconds = 1.0
    queue.add(REFUSED)
    clock.seconds = 2.0
    rows = taken(queue)
    assert [(row.count, row.time_ms, row.until_ms) for row in rows] == [(1001, 0, 900), (1, 1000, 1000)]
    assert rows[0].event == REFUSED, "the first one is shown"


def test_what_is_different_has_its_own_row() -> None:
    queue = AuditQueue(HandClock())
    done = AuditEvent("admin", "done", "alice", action="Admin/Start", detail="drain node=n1", offset=7)
    events = [
        READ,
        READ._replace(key="us:"),
        READ._replace(address="10.0.0.2"),
        READ._replace(user="bob"),
        READ._replace(credential="a2"),
        READ._replace(table="ships"),
        REFUSED,
        REFUSED._replace(key="us:"),
        REFUSED._replace(key="us:", detail="another reason"),
        REFUSED._replace(key="us:", result="ended"),
        REFUSED._replace(result="ended"),
        done,
        done._replace(offset=8),
        done._replace(detail="drain node=n2"),
    ]
    for event in events:
        queue.add(event)
    queue.end()
    assert [row.event for row in taken(queue)] == events


def test_a_flood_of_refused_calls_makes_a_bounded_number_of_rows() -> None:
    clock = HandClock()
    queue = AuditQueue(clock)
    for number in range(10_000):
        queue.add(REFUSED._replace(table=f"t{number}"))
        queue.add(AuditEvent("call", "refused", address=f"10.0.{number // 256}.{number % 256}"))
        queue.add(AuditEvent("login", "refused", ("alice", "bob")[number % 2], address=f"10.1.0.{number}"))
    assert len(queue) == 2 * (REFUSED_ROWS_PER_S + 1), "alice's, and those of everybody who proved nothing"
    queue.add(REFUSED._replace(user="bob", table="x"))
    clock.seconds = WINDOW_S
    rows = taken(queue)
    assert rows[-1].event.user == "bob", "the flood of one user does not cover what another one does"
    assert sum(row.count for row in rows) == 30_001, "each one is counted"
    assert queue.lost == 0


@pytest.mark.parametrize("result", ["refused", "ended"])
def test_refused_calls_on_many_keys_are_a_row_that_names_no_key(result: AuditResult) -> None:
    """The first ones of a second have rows of their own; each row is true of all that it counts."""
    clock = HandClock()
    queue = AuditQueue(clock)
    refused = REFUSED._replace(result=result)
    for number in range(5000):
        queue.add(refused._replace(key=f"k{number}"))
    queue.add(refused._replace(key="k0"))
    delete = refused._replace(kind="write", action="KV/Delete", key="UA:1")
    for _ in range(2):
        queue.add(delete)
    clock.seconds = WINDOW_S
    rows = taken(queue)
    own = REFUSED_KEYS_PER_S
    assert [(row.event.key, row.count) for row in rows[1:own]] == [(f"k{number}", 1) for number in range(1, own)]
    assert (rows[0].event.key, rows[0].count) == ("k0", 2)
    many, alone = rows[own:]
    assert many.event == refused._replace(key="", detail=f"{NOT_SHOWN}: {REFUSED.detail}")
    assert many.count == 5000 - own
    assert (alone.event, alone.count) == (delete, 2), "what is one key is shown"
    queue.add(refused._replace(key="another second"))
    queue.end()
    assert [row.event.key for row in taken(queue)] == ["another second"]


def test_a_summed_row_keeps_what_all_its_calls_have_in_common() -> None:
    queue = AuditQueue(HandClock())
    for number in range(REFUSED_KEYS_PER_S):
        queue.add(REFUSED._replace(action="Scan", key=str(number)))
    reasons = ("one", "one", "another", "one")
    for number, detail in enumerate(reasons):
        queue.add(REFUSED._replace(action="keys and reasons", key=str(number), detail=detail))
        queue.add(REFUSED._replace(action="reasons", detail=detail))
        queue.add(REFUSED._replace(action="long", key=str(number), detail="x" * TEXT_MAX))
    queue.end()
    rows = {row.event.action: row for row in taken(queue)[REFUSED_KEYS_PER_S:]}
    assert {action: (row.event.key, row.event.detail, row.count) for action, row in rows.items()} == {
        "keys and reasons": ("", NOT_SHOWN, 4),
        "reasons": ("eu:", "", 4),
        "long": ("", f"{NOT_SHOWN}: {'x' * TEXT_MAX}"[:TEXT_MAX], 4),
    }


def test_a_flood_of_reads_and_writes_makes_a_bounded_number_of_rows() -> None:
    clock = HandClock()
    queue = AuditQueue(clock)
    for number in range(30_000):
        queue.add(READ._replace(user=("alice", "bob")[number % 2], key=str(number), action="get"))
    assert len(queue) == 2 * (ACCESS_ROWS_PER_S + 1)
    queue.add(READ._replace(kind="write", key="k", action="set"))
    queue.add(REFUSED)
    queue.add(AuditEvent("admin", "done", "alice", "token", action="flushdb", offset=7))
    assert queue.lost == 0
    clock.seconds = WINDOW_S
    rows = taken(queue)
    assert sum(row.count for row in rows) == 30_003, "each one is counted"
    others = [row for row in rows if row.event.detail == NOT_SHOWN]
    assert [(row.event.user, row.event.kind, row.event.table, row.event.key) for row in others] == [
        ("alice", "read", "orders", ""),
        ("bob", "read", "orders", ""),
        ("alice", "write", "orders", ""),
    ]
    assert [row.event.kind for row in rows[-2:]] == ["read", "admin"], "a flood covers no other act"
    queue.add(READ._replace(key="another second"))
    queue.end()
    assert [row.event.key for row in taken(queue)] == ["another second"]


def test_nobody_fills_the_queue() -> None:
    clock = HandClock()
    queue = AuditQueue(clock, rows_max=10)
    for number in range(20):
        clock.seconds += 1
        queue.add(AuditEvent("call", "refused", address=f"10.0.0.{number}"))
    assert queue.lost == 15
    for number in range(5):
        queue.add(READ._replace(key=str(number)))
    assert queue.lost == 15 + 3, "reads leave a quarter to what is more than a read"
    for number in range(3):
        queue.add(AuditEvent("admin", "done", "alice", "token", action="Admin/Start", offset=number))
    assert queue.lost == 15 + 3 + 1, "the row that says what was lost takes a place of the ten"
    clock.seconds += 1
    rows = taken(queue)
    assert [row.count for row in rows if row.event.kind == "lost"] == [19]
    assert [row.event.kind for row in rows].count("admin") == 2
    queue.add(READ)
    queue.end()
    assert [row.event for row in taken(queue)] == [READ], "there is room again"


def test_bytes_are_bounded_as_well() -> None:
    queue = AuditQueue(HandClock(), bytes_max=10_000)
    for number in range(1000):
        queue.add(READ._replace(table="x" * 100_000, key=str(number)))
    assert 5 <= len(queue) <= 20
    assert queue.lost > 0, "no read is counted with another one's key"
    queue.end()
    rows = taken(queue)
    assert max(len(row.event.table) for row in rows) == TEXT_MAX
    assert sum(row.count for row in rows) == 1000, "what was lost is counted"


def test_a_row_that_is_being_written_does_not_change() -> None:
    clock = HandClock()
    queue = AuditQueue(clock)
    queue.add(READ)
    queue.end()
    (row,) = queue.ready(10)
    queue.add(READ)
    assert (row.count, len(queue)) == (1, 2)
    assert queue.ready(1) == [row], "it stays until it was written"
    queue.wrote(1)
    assert [each.count for each in taken(queue)] == [1]


def test_how_long_to_wait() -> None:
    clock = HandClock()
    queue = AuditQueue(clock)
    assert queue.wait_s() is None
    queue.add(READ)
    clock.seconds = 0.25
    assert queue.wait_s() == 0.75
    clock.seconds = 5
    assert queue.wait_s() == 0


@given(st.text(max_size=2000), st.text(max_size=2000))
def test_texts_are_trimmed(table: str, detail: str) -> None:
    event = READ._replace(table=table, detail=detail).trimmed()
    assert (event.table, event.detail) == (table[:TEXT_MAX], detail[:TEXT_MAX])


class AuditQueueModel(RuleBasedStateMachine):
    """Against every event that was added."""

    @initialize(rows_max=st.integers(2, 12))
    def begin(self, rows_max: int) -> None:
        self.clock = HandClock()
        self.rows_max = rows_max
        self.queue = AuditQueue(self.clock, rows_max=rows_max)
        self.added: Counter[str] = Counter()
        self.written: Counter[str] = Counter()
        self.keys: Counter[tuple[str, str, str]] = Counter()
        """How often each user's key was added with a result."""
        self.lost = 0
        self.last_ms = 0

    @rule(
        user=st.sampled_from(["alice", "bob", ""]),
        key=st.sampled_from("abcdefghijklm"),
        result=st.sampled_from(["allowed", "refused", "ended"]),
        times=st.integers(1, 3),
    )
    def add(self, user: str, key: str, result: str, times: int) -> None:
        for _ in range(times):
            self.queue.add(
                AuditEvent("read", result, user, "token" if user else "nothing", key=key, table="t")  # type: ignore[arg-type]
            )
            self.added[user] += 1
            self.keys[user, result, key] += 1

    @rule(seconds=st.sampled_from([0.1, 0.5, 1.0, 3.0]))
    def wait(self, seconds: float) -> None:
        self.clock.seconds += seconds

    @rule(limit=st.integers(1, 20), fails=st.booleans())
    def write(self, limit: int, fails: bool) -> None:
        rows = self.queue.ready(limit)
        before = [(row.count, row.event) for row in rows]
        assert len(rows) <= limit
        for row in rows:
            assert self.clock.seconds - row.opened_s >= WINDOW_S, "a row was given before its second was over"
        if fails:
            assert [(row.count, row.event) for row in self.queue.ready(limit)][: len(rows)] == before
            return
        for row in rows:
            assert row.time_ms >= self.last_ms, "rows are in the order of their times"
            self.last_ms = row.time_ms
            if row.event.kind == "lost":
                self.lost += row.count
            else:
                self.written[row.event.user] += row.count
                if row.event.key:
                    self.keys[row.event.user, row.event.result, row.event.key] -= row.count
        self.queue.wrote(len(rows))

    @invariant()
    def is_bounded(self) -> None:
        if hasattr(self, "queue"):
            assert len(self.queue) <= self.rows_max + 2, f"{len(self.queue)} rows where {self.rows_max} are allowed"

    def teardown(self) -> None:
        """Every event is in a row, or in the count of those that were lost."""
        if not hasattr(self, "queue"):
            return
        self.clock.seconds += 10
        self.write(1000, False)
        assert len(self.queue) == 0
        assert self.lost == self.queue.lost
        assert self.written.total() + self.lost == self.added.total()
        assert all(count <= self.added[user] for user, count in self.written.items())
        assert min(self.keys.values(), default=0) >= 0, "a row names a key that it does not count"


TestAuditQueueModel = AuditQueueModel.TestCase
