"""Bugs to plant where the audit is kept: what was refused is not in it, or twice."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from itertools import count
from typing import Final

from duramen.server.wiring import audit_writer
from log_tier.audit.audit_queue import AuditQueue
from log_tier.audit.audit_row import AuditRow
from log_tier.audit.row_format import row_key
from simulation.planted import Patches

__all__ = ["PLANTED_IN_AUDIT"]


def _equal_events_are_one() -> Patches:
    def counted(self: AuditQueue, identity: Hashable, now_s: float) -> bool:
        row = self._open.get(identity)
        return row is not None and not row.sealed and now_s - row.opened_s < self._window_s

    return [(AuditQueue, "_counted", counted)]


def _each_try_is_a_row() -> Patches:
    tries = count()

    def key_of_try(row: AuditRow, server: str, process: str) -> bytes:
        return row_key(row, server, f"{next(tries):08x}")

    return [(audit_writer, "row_key", key_of_try)]


PLANTED_IN_AUDIT: Final[dict[str, Callable[[], Patches]]] = {
    "of equal refusals the audit counts one": _equal_events_are_one,
    "a row of the audit that is written again is another one": _each_try_is_a_row,
}
