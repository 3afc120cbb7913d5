"""Measures commands that have to wait, until their replies can leave; what is answered at once takes no time."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Final

from router.endpoints.resp.wire.fallback_parser import RespCommand

__all__ = ["NOT_MEASURED", "SlowReplies", "WaitedCommand"]

WaitedCommand = RespCommand | bytes
"""What is reported: a command; the key alone of a SET that had nothing else."""


class SlowReplies:
    """Of one connection. `ran` is called when a command was slow, with when it began and whether it failed."""

    __slots__ = ("least_s", "now_s", "ran")

    def __init__(
        self, now_s: Callable[[], float], least_s: float, ran: Callable[[WaitedCommand, float, bool], None]
    ) -> None:
        self.now_s = now_s
        self.least_s = least_s
        self.ran = ran


NOT_MEASURED: Final = SlowReplies(lambda: 0.0, inf, lambda _command, _began_s, _failed: None)
