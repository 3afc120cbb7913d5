"""Bugs to plant where the audit is kept: what was refused is not in it, or twice."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from itertools import count
from typing import Any, Final

from duramen.server.wiring import audit_writer
from log_tier.access.call_audit import CallAudit
from log_tier.audit.audit_queue import AuditQueue
from log_tier.audit.audit_row import AuditRow
from log_tier.audit.audit_settings import AuditSettings
from log_tier.audit.row_format import row_key
from router.endpoints.resp.commands.users import command_audit
from router.endpoints.resp.commands.users.access_notes import AccessNotes
from router.endpoints.resp.connection import guarded_session
from simulation.planted import Patches

__all__ = ["PLANTED_IN_AUDIT", "PLANTED_IN_RESP_AUDIT"]


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


def _streams_are_not_noted() -> Patches:
    inner = CallAudit.allowed

    def allowed(self: CallAudit, *call: Any, is_stream: bool) -> Any:
        return None if is_stream else inner(self, *call, is_stream=is_stream)

    return [(CallAudit, "allowed", allowed)]


def _reads_are_not_chosen() -> Patches:
    inner = AuditSettings.is_chosen
    return [(AuditSettings, "is_chosen", lambda self, right, table: right != "read" and inner(self, right, table))]


def _writes_are_noted_twice() -> Patches:
    inner = CallAudit.allowed

    def allowed(self: CallAudit, method: str, *call: Any, is_stream: bool) -> Any:
        if method.endswith("/Write"):
            inner(self, method, *call, is_stream=is_stream)
        return inner(self, method, *call, is_stream=is_stream)

    return [(CallAudit, "allowed", allowed)]


def _commands_of_a_pipeline_are_one() -> Patches:
    inner = command_audit.note_refused
    last: list[Any] = [None]

    def note_refused(client: Any, *what: Any, **how: Any) -> None:
        place = (client.id, client.server.loop.time())
        if last[0] != place:
            last[0] = place
            inner(client, *what, **how)

    return [(guarded_session, "note_refused", note_refused)]


def _one_right_of_a_command_is_noted() -> Patches:
    inner = AccessNotes.of
    return [(AccessNotes, "of", lambda self, commands, action="": list(inner(self, commands, action))[:1])]


def _each_command_of_a_transaction_is_noted() -> Patches:
    inner = AccessNotes.of

    def of(self: AccessNotes, commands: Sequence[Any], action: str = "") -> Any:
        if not action:
            return inner(self, commands)
        return [event for command in commands for event in inner(self, (command,), action)]

    return [(AccessNotes, "of", of)]


def _what_never_ran_is_noted() -> Patches:
    def forget(self: AccessNotes) -> None:
        for events in self._waiting:
            self.note(events)
        self._waiting.clear()

    return [(AccessNotes, "forget", forget)]


PLANTED_IN_RESP_AUDIT: Final[dict[str, Callable[[], Patches]]] = {
    "of the refused commands of a pipeline the audit has the first": _commands_of_a_pipeline_are_one,
    "of a command that reads and writes one is noted": _one_right_of_a_command_is_noted,
    "each command of a transaction on an audited table is noted": _each_command_of_a_transaction_is_noted,
    "a command that a revocation kept from running is noted": _what_never_ran_is_noted,
}

PLANTED_IN_AUDIT: Final[dict[str, Callable[[], Patches]]] = {
    "of equal refusals the audit counts one": _equal_events_are_one,
    "a row of the audit that is written again is another one": _each_try_is_a_row,
    "a stream on an audited table is not noted": _streams_are_not_noted,
    "the reads of an audited table are not noted": _reads_are_not_chosen,
    "a write to an audited table is noted twice": _writes_are_noted_twice,
}
