"""Failed logins, and how long the next attempt of the same kind has to wait: a brute force becomes slow.

Counted for each address together with the name that it tried, and for each address alone, which may try more. Nobody
who calls from elsewhere can lock a user out.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from log_tier.concurrency.clocks import Clock
from log_tier.model.errors import Overloaded

__all__ = ["Attempts"]

_FREE: Final = 5
"""Attempts that may fail before the next one has to wait: people mistype."""
_FREE_OF_ADDRESS: Final = 50
"""The same for all names that one address tries: many users may share it."""
_WAIT_FIRST_S: Final = 0.2
_WAIT_MAX_S: Final = 30.0
_FORGOTTEN_S: Final = 300.0
"""So long after its last failure a name begins anew."""
_KEPT: Final = 10_000
"""Names and addresses whose failures are remembered; the oldest go first."""


class Attempts:
    """Counts failures. O(1) each; at most `_KEPT` entries."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failures: OrderedDict[tuple[str, str], tuple[int, float]] = OrderedDict()

    def __len__(self) -> int:
        """How many names and addresses are remembered."""
        return len(self._failures)

    def check(self, name: str, address: str) -> None:
        """Raises `Overloaded`, with the time to wait, where too many failed before."""
        now = self._clock.monotonic_s()
        for key, free in (((name, address), _FREE), (("", address), _FREE_OF_ADDRESS)):
            count, last = self._failures.get(key, (0, 0.0))
            if count < free or now - last >= _FORGOTTEN_S:
                continue
            left = last + min(_WAIT_MAX_S, _WAIT_FIRST_S * 2 ** min(count - free, 16)) - now
            if left > 0:
                raise Overloaded(
                    f"{count} logins from {address or 'this address'} failed: try again in {left:.1f} s",
                    wait_ms=int(left * 1000) + 1,
                )

    def failed(self, name: str, address: str) -> None:
        """Count one more."""
        now = self._clock.monotonic_s()
        for key in ((name, address), ("", address)):
            count, last = self._failures.pop(key, (0, now))
            self._failures[key] = (1 if now - last >= _FORGOTTEN_S else count + 1, now)
        while len(self._failures) > _KEPT:
            self._failures.popitem(last=False)

    def passed(self, name: str, address: str) -> None:
        """Forget the failures of this name from this address."""
        self._failures.pop((name, address), None)
