"""The measurement of virtual time's pace: what it counts. How fast it is, is nobody's promise in a test."""

from __future__ import annotations

from simulation.pace import Pace, paces


def test_a_pace_counts_calls_and_both_times() -> None:
    idle, busy = paces((0, 10), virtual_s=3.0, nodes=1)
    assert (idle.calls_a_second, idle.calls) == (0, 0)
    assert 3.0 <= idle.virtual_s < 3.2
    assert 20 <= busy.calls < 30, "a call takes a part of a virtual second"
    assert 3.0 <= busy.virtual_s < 3.2
    assert min(idle.processor_s, busy.processor_s) > 0


def test_a_pace_is_given_by_the_second_of_a_processor() -> None:
    assert str(Pace(10, 590, 60.0, 0.5)).startswith("  10 calls in a virtual second:  120 virtual seconds in a second")
