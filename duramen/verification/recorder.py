"""Calls as they are made: what becomes the history."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from duramen.verification.history import Call, CallResult
from log_tier.model.tokens import Token

__all__ = ["Recorder"]


@dataclass(slots=True)
class Recorder:
    """The calls so far, and the tokens that clients hand to each other."""

    calls: list[Call] = field(default_factory=list)
    tokens: list[Token] = field(default_factory=list)
    clock: Callable[[], int] = time.monotonic_ns

    def begin(self, client: int, kind: str, **arguments: Any) -> Call:
        """A call that is about to be made."""
        call = Call(len(self.calls), client, kind, self.clock(), arguments=arguments)
        self.calls.append(call)
        return call

    def end(self, call: Call, outcome: CallResult, **reply: Any) -> None:
        """Record the end of a call: its outcome and its reply."""
        call.end_ns, call.outcome, call.reply = self.clock(), outcome, reply
