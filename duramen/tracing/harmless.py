"""What OpenTelemetry raises ends here: samplers and processors are the program's, and may have bugs.

A span ends in the thread that commits to the log, among others. An exception there would stop the log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import wraps
from typing import Final, ParamSpec, TypeVar

from log_tier.concurrency.clocks import SYSTEM_CLOCK, Clock

__all__ = ["harmless"]

P = ParamSpec("P")
T = TypeVar("T")

logger = logging.getLogger(__name__)

# Each span may fail, and a person reads the log.
_LINE_EVERY_S: Final = 60.0


class _Failures:
    """Logs one failure in a minute, with its traceback."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._said_s = -_LINE_EVERY_S

    def note(self, error: Exception) -> None:
        now_s = self._clock.monotonic_s()
        if now_s - self._said_s >= _LINE_EVERY_S:
            self._said_s = now_s
            logger.warning("spans are lost: what OpenTelemetry was set up with raised %r", error, exc_info=error)


_FAILURES: Final = _Failures(SYSTEM_CLOCK)


def harmless(call: Callable[P, T], otherwise: Callable[[], T]) -> Callable[P, T]:
    """`call`, or what `otherwise` gives where it fails. Made once for each function: to make one takes longer than to
    begin a span.
    """

    @wraps(call)
    def tried(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return call(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - of others' code, and nobody of ours could do anything about it
            _FAILURES.note(error)
            return otherwise()

    return tried
