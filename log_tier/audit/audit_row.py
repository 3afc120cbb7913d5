"""An event of the audit with its place among the others."""

from __future__ import annotations

from collections.abc import Hashable

from log_tier.audit.audit_event import AuditEvent

__all__ = ["AuditRow"]


class AuditRow:
    """An event, and how often it came. Does not change once it is sealed."""

    __slots__ = ("count", "event", "identity", "opened_s", "sealed", "sequence", "size", "time_ms", "until_ms")

    def __init__(
        self, event: AuditEvent, identity: Hashable, size: int, sequence: int, time_ms: int, now_s: float
    ) -> None:
        self.event = event
        self.identity = identity
        self.size = size
        self.sequence = sequence
        """Its number in this process."""
        self.time_ms = self.until_ms = time_ms
        """Of the first event, and of the last one."""
        self.count = 1
        self.opened_s = now_s
        self.sealed = False
