"""A logging filter for librdkafka's connection failures: one line a minute for each broker, whatever failed.

Each client of a process logs each try and knows only its own repetitions. A broker that is away for a minute would be
thousands of lines, which hide what else happened.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import Final

from log_tier.concurrency.clocks import SYSTEM_CLOCK

__all__ = ["CLIENT_LOG_FILTER", "ClientLogFilter"]

_EVERY_S: Final = 60.0

# What a client logs of a connection that fails: nobody there, or TLS or the login refused.
_FAILED: Final = re.compile(
    r"Connect to \S+#(?P<there>\S+) failed"
    r"|://(?P<let_in>[^/\s]+)/\w+: (?:SSL handshake failed|SASL authentication error|error:\w+:SSL )"
)


class ClientLogFilter(logging.Filter):
    """Lets the first of a broker's failed connections through, and one a minute. Everything else passes."""

    def __init__(self, clock: Callable[[], float] = SYSTEM_CLOCK.monotonic_s) -> None:
        super().__init__()
        self._clock = clock
        self._logged_s: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether to log the record. Two threads may race and log one failure twice."""
        found = _FAILED.search(record.getMessage())
        if found is None:
            return True
        now, broker = self._clock(), found["there"] or found["let_in"]
        logged_s = self._logged_s.get(broker)
        if logged_s is not None and now - logged_s < _EVERY_S:
            return False
        self._logged_s[broker] = now
        return True


CLIENT_LOG_FILTER: Final = ClientLogFilter()
"""The filter of this process; all its clients share it."""
