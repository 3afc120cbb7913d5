"""The few numbers that a benchmark may say about its measurements: quantiles, medians, spreads and ratios by round."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

__all__ = ["Spread", "differences", "quantile", "ratios"]


def quantile(ascending: Sequence[float], q: float) -> float:
    """The nearest-rank quantile: the smallest value with at least `q` (0 < q <= 1) of all values at or below it.

    It is always a value that was measured, never one between two; with few values a high quantile is the maximum,
    which is the honest answer. `ascending` must be sorted and not empty (`ValueError`). O(1).
    """
    if not ascending:
        raise ValueError("no values: nothing was measured")
    if not 0 < q <= 1:
        raise ValueError(f"a quantile lies above 0 and at most at 1, this is {q}")
    # q * n can land a hair above the whole number it means (0.07 * 100 = 7.000000000000001).
    rank = math.ceil(round(q * len(ascending), 9))
    return ascending[rank - 1]


@dataclass(frozen=True, slots=True)
class Spread:
    """Several measurements of one thing: the middle one and the outer two.

    With the usual five rounds quartiles would be guesses, so the spread is the whole range.
    Invariant: low <= median <= high.
    """

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Self:
        """The spread of at least one value (`ValueError` otherwise); of an even count, the mean of the middle two."""
        ascending = sorted(values)
        if not ascending:
            raise ValueError("no values: nothing was measured")
        half = len(ascending) // 2
        middle = ascending[half] if len(ascending) % 2 else (ascending[half - 1] + ascending[half]) / 2
        return cls(median=middle, low=ascending[0], high=ascending[-1])


def ratios(subject: Sequence[float | None], other: Sequence[float | None]) -> list[float]:
    """subject / other of each round, in order; a round in which either side failed (None) has no ratio.

    The median of these is not the ratio of the medians: a machine that slowed down for one round slows both sides of
    it, and the ratio of that round stays true. Raises `ValueError` where the two differ in their number of rounds or
    where a measurement is not above zero.
    """
    made = []
    for one, two in _pairs(subject, other):
        if one <= 0 or two <= 0:
            raise ValueError(f"a measurement lies above zero, these are {one} and {two}")
        made.append(one / two)
    return made


def differences(subject: Sequence[float | None], other: Sequence[float | None]) -> list[float]:
    """subject - other of each round, as `ratios` makes them; for demands such as "at most 5 ms more".

    Raises `ValueError` where the two differ in their number of rounds.
    """
    return [one - two for one, two in _pairs(subject, other)]


def _pairs(subject: Sequence[float | None], other: Sequence[float | None]) -> list[tuple[float, float]]:
    if len(subject) != len(other):
        raise ValueError(f"{len(subject)} rounds cannot be paired with {len(other)}")
    rounds = zip(subject, other, strict=True)
    return [(one, two) for one, two in rounds if one is not None and two is not None]
