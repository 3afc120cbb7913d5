"""A token bucket: so much each second, and what was saved up of one second."""

from __future__ import annotations

__all__ = ["TokenBucket"]


class TokenBucket:
    """`rate` a second, of which one second's may be taken at once.

    A taker gets all that it wants while something is left, and what is more than that is a debt, which delays the
    next one: a message that is larger than a second's bytes passes, and in the long run no more than `rate` does.
    """

    __slots__ = ("_at", "_left", "_rate")

    def __init__(self, rate: int, now: float) -> None:
        assert rate > 0, "a quota of nothing is no bucket"
        self._rate = rate
        self._left = float(rate)
        self._at = now

    def wait_s(self, now: float) -> float:
        """How long the next one has to wait; 0: it may take now."""
        self._fill(now)
        return 0.0 if self._left > 0 else -self._left / self._rate + 1e-6

    def take(self, amount: int, now: float) -> None:
        """Take, whether something is left or not."""
        self._fill(now)
        self._left -= amount

    def _fill(self, now: float) -> None:
        if now > self._at:
            self._left = min(float(self._rate), self._left + (now - self._at) * self._rate)
            self._at = now
