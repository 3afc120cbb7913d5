"""Failed logins make the next ones wait, and lock nobody out who calls from elsewhere."""

from __future__ import annotations

import pytest
from kit.set_clock import HandClock

from log_tier.access.attempts import Attempts
from log_tier.model.errors import Overloaded


def waits_s(attempts: Attempts, name: str, address: str) -> float:
    """What the next login has to wait, by the refusal's field; 0 where it may be tried now."""
    try:
        attempts.check(name, address)
    except Overloaded as refusal:
        return int(refusal.fields["wait_ms"]) / 1000
    return 0.0


def test_after_five_failures_each_one_doubles_the_wait() -> None:
    clock = HandClock()
    attempts = Attempts(clock)
    waits = []
    for _ in range(16):
        wait = waits_s(attempts, "alice", "10.0.0.1")
        waits.append(round(wait, 1))
        clock.seconds += wait
        attempts.check("alice", "10.0.0.1")
        attempts.failed("alice", "10.0.0.1")
    assert waits == [0, 0, 0, 0, 0, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30, 30, 30]


def test_nobody_is_locked_out_from_elsewhere() -> None:
    attempts = Attempts(HandClock())
    for _ in range(20):
        attempts.failed("alice", "10.0.0.1")
    assert waits_s(attempts, "alice", "10.0.0.1") > 0
    assert waits_s(attempts, "alice", "10.0.0.2") == 0
    assert waits_s(attempts, "bob", "10.0.0.1") == 0


def test_one_address_may_not_try_many_names() -> None:
    attempts = Attempts(HandClock())
    for number in range(50):
        assert waits_s(attempts, f"user{number}", "10.0.0.1") == 0
        attempts.failed(f"user{number}", "10.0.0.1")
    assert waits_s(attempts, "user50", "10.0.0.1") > 0


def test_a_login_that_succeeds_and_five_minutes_are_a_new_begin() -> None:
    clock = HandClock()
    attempts = Attempts(clock)
    for _ in range(8):
        attempts.failed("alice", "10.0.0.1")
        attempts.failed("bob", "10.0.0.1")
    attempts.passed("alice", "10.0.0.1")
    assert waits_s(attempts, "alice", "10.0.0.1") == 0
    assert waits_s(attempts, "bob", "10.0.0.1") > 0
    clock.seconds += 300
    assert waits_s(attempts, "bob", "10.0.0.1") == 0


def test_what_is_remembered_is_bounded() -> None:
    attempts = Attempts(HandClock())
    for number in range(30_000):
        attempts.failed(f"user{number}", f"address{number}")
    assert len(attempts) <= 10_000


def test_the_refusal_says_how_long_to_wait() -> None:
    attempts = Attempts(HandClock())
    for _ in range(6):
        attempts.failed("alice", "10.0.0.1")
    with pytest.raises(Overloaded, match=r"6 logins from 10\.0\.0\.1 failed: try again in 0\.4 s"):
        attempts.check("alice", "10.0.0.1")
