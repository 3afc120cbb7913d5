"""One log line for a slow call, at most some in a second. Its level is INFO: `duramen slow` has the calls anyway, and a
disk that is slow makes every call slow, while what is wrong with it is logged once.
"""

from __future__ import annotations

import logging
from math import inf
from typing import Any, Final

from log_tier.slow_calls.slow_call import SlowCall
from log_tier.slow_calls.slow_document import parts_in_ms

__all__ = ["LINES_MAX_PER_S", "SlowLines"]

logger = logging.getLogger(__name__)

LINES_MAX_PER_S: Final = 10


class SlowLines:
    """Logs slow calls, and how many were left out."""

    def __init__(self) -> None:
        self._second_s = -inf
        self._lines = 0
        self._left_out = 0

    def skip(self) -> None:
        """A slow call that nobody looked at."""
        self._left_out += 1

    def write(self, call: SlowCall, now_s: float) -> None:
        """Log a call, or count it."""
        if now_s - self._second_s >= 1.0:
            self._second_s, self._lines = now_s, 0
        if self._lines >= LINES_MAX_PER_S or not logger.isEnabledFor(logging.INFO):
            self._left_out += 1
            return
        self._lines += 1
        left_out, self._left_out = self._left_out, 0
        parts = parts_in_ms(call)
        fields: dict[str, Any] = {
            "event": "slow call",
            "call": call.what,
            "protocol": call.protocol,
            "outcome": call.outcome,
            "table": call.subject.table,
            "partition": call.partition,
            "offset": call.offset,
            "duration_ms": round(call.took_s * 1000, 3),
            **parts,
            "user": call.user,
            "peer": call.peer,
            "left_out": left_out,
        }
        logger.info(
            "slow call: %s%s took %.3f s%s%s",
            call.what,
            _of(call),
            call.took_s,
            f" ({', '.join(_part(name, each) for name, each in parts.items())})" if parts else "",
            f"; {left_out} other slow calls were not logged" if left_out else "",
            extra=fields,
        )


def _of(call: SlowCall) -> str:
    if call.subject.table is None:
        return ""
    return f" of {call.subject.table}" + ("" if call.partition is None else f"/{call.partition}")


def _part(name: str, spent_ms: float | None) -> str:
    return f"{name.removesuffix('_ms')} {'not known' if spent_ms is None else f'{spent_ms / 1000:.3f} s'}"
