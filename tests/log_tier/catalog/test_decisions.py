"""The last decisions: exactly a thousand are known, whatever is kept of older ones."""

from __future__ import annotations

from log_tier.catalog.decisions import DECISIONS_MAX, CommandDecision, Decisions
from log_tier.model.identifiers import Offset


def test_the_last_thousand_are_known_and_no_earlier_one() -> None:
    decisions = Decisions()
    for number in range(3 * DECISIONS_MAX):
        decisions = decisions.with_decision(f"c{number}", CommandDecision(Offset(number), ""))
        assert len(decisions) == min(number + 1, DECISIONS_MAX)
        assert decisions.get(f"c{number}") == CommandDecision(Offset(number), "")
        assert decisions.get(f"c{number - DECISIONS_MAX}") is None, "it is forgotten at once, not when it is removed"
        if number >= DECISIONS_MAX:
            assert decisions.get(f"c{number - DECISIONS_MAX + 1}") is not None


def test_equal_are_those_that_know_the_same() -> None:
    one, other = Decisions(), Decisions()
    for number in range(DECISIONS_MAX + 7):
        one = one.with_decision(f"c{number}", CommandDecision(Offset(number), ""))
        if number >= 7:
            other = other.with_decision(f"c{number}", CommandDecision(Offset(number), ""))
    assert one == other
    assert one != other.with_decision("another", CommandDecision(Offset(5000), "late"))
