"""Whose wall clock is wrong, as far as those of a router, its nodes and its log's server say. Pure.

Nothing that is stored or read depends on these clocks agreeing: lags are measured on clocks that only run forward, and
expiry goes by the log's time. What is shown with a time goes by them, and what ends at one: tokens, certificates, and
keys as the Redis protocol shows them.
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median_high, median_low
from typing import Final

__all__ = ["CLOCK_SKEW_S_WARNED", "wrong_clocks"]

CLOCK_SKEW_S_WARNED: Final = 10
"""A clock that is kept by NTP is right to milliseconds. A message may wait some seconds where a machine is too busy."""


def wrong_clocks(router: str, skews_s: Mapping[str, int]) -> str:
    """What is wrong, in words; empty: nothing. `skews_s`: each node's clock minus the router's, in seconds.

    The clocks that most agree with are right. Of two that differ nobody can say which one is.
    """
    own = f"this server, {router}"
    clocks = {own: 0, **skews_s}
    low, high = median_low(clocks.values()), median_high(clocks.values())
    if high - low > CLOCK_SKEW_S_WARNED:
        return _halves(own, clocks)
    wrong = [(name, skew - low) for name, skew in clocks.items() if abs(skew - low) > CLOCK_SKEW_S_WARNED]
    if len(wrong) == 1:
        name, skew = wrong[0]
        return f"the clock of {name}{',' if name == own else ''} is {_skew(skew)} the others"
    listed = " and ".join(f"{name} ({_skew(skew).removesuffix(' of')})" for name, skew in wrong)
    return f"the clocks of {listed} are not those of the others" if wrong else ""


def _halves(own: str, clocks: Mapping[str, int]) -> str:
    """As many clocks say one thing as another: who differs from this server, and by how much."""
    others = {name: skew for name, skew in clocks.items() if abs(skew) > CLOCK_SKEW_S_WARNED}
    most = max(others.values(), key=abs)
    return f"the clocks of {', '.join(others)} and of {own}, differ by {_duration(abs(most))}"


def _skew(skew_s: int) -> str:
    return f"{_duration(abs(skew_s))} {'ahead of' if skew_s > 0 else 'behind'}"


def _duration(seconds: int) -> str:
    """`90 s`, `45 min`, `1 h 2 min`."""
    if seconds < 120:
        return f"{seconds} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return " ".join(f"{count} {unit}" for count, unit in ((hours, "h"), (minutes, "min")) if count)
