"""The decision on one record, given what its key holds: pure, and the only place where operations have a meaning."""

from __future__ import annotations

from typing import Final, NamedTuple

from log_tier.model.identifiers import NOTHING, Offset
from log_tier.model.record import VALUE_BYTES_MAX, Condition, Expiry, Operation
from log_tier.rows.definition import TableDefinition
from log_tier.rows.patches.row_patch import NotPatched
from log_tier.rows.patches.row_patcher import patcher_of
from serving_tier.fold.entry import NEVER, expiry_of, stored_entry, value_of, version_of
from serving_tier.fold.numbers import combine, format_number, parse_number
from serving_tier.fold.verdicts import Verdict, of_hindrance

__all__ = ["Decision", "KeyChange", "Record", "Rejection", "decide"]

# Beyond this an expiry cannot be stored; a sum that passes it (292 million years) means "at the end of time".
_EXPIRY_MAX: Final = (1 << 63) - 1


class Record(NamedTuple):
    """One record outside the fast path."""

    offset: Offset
    operation: Operation
    condition: int
    expiry: int
    key: bytes
    value: bytes
    version: int
    """The version that a VERSION condition requires."""
    expiry_ms: int
    """After the log time (TTL) or since 1970 (AT)."""


class KeyChange(NamedTuple):
    """A record takes effect: the key's new stored form (None: absent), and an update's result."""

    stored: bytes | None
    result: bytes | None = None


class Rejection(NamedTuple):
    """A record is rejected."""

    verdict: Verdict
    actual: int = -1
    holder: bytes = b""
    """The key of the row that has a value which the record's row cannot have."""


Decision = KeyChange | Rejection | None
"""None: accepted, and nothing changes."""


def decide(record: Record, live: bytes | None, log_time_ms: int, definition: TableDefinition | None = None) -> Decision:
    """Decide on one record, given the stored form of its key's live entry (None: absent), and what the table's keys and
    values are, which the record fits (None: bytes). O(size of the value).
    """
    condition = record.condition
    if condition != Condition.NONE:
        version = NOTHING if live is None else version_of(live)
        holds = (
            version == NOTHING
            if condition == Condition.ABSENT
            else version != NOTHING
            if condition == Condition.PRESENT
            else version == record.version
        )
        if not holds:
            return Rejection(Verdict.CONDITION_FAILED, version)
    operation = record.operation
    if operation is Operation.NOOP:
        return None
    if operation is Operation.VOID or operation is Operation.BARRIER:
        # A barrier comes here only inside an atomic group, or with a value that cannot be read.
        return Rejection(Verdict.UNREADABLE)
    if operation is Operation.DELETE:
        return None if live is None else KeyChange(None)
    if operation is Operation.PUT:
        value, result = record.value, None
        keeps = record.expiry == Expiry.KEEP
    else:
        updated = (
            _patch(record, live, definition) if operation is Operation.PATCH else _update(operation, live, record.value)
        )
        if isinstance(updated, Rejection):
            return updated
        value, result = updated
        keeps = record.expiry in (Expiry.NONE, Expiry.KEEP)
    if keeps:
        expires_at_ms = NEVER if live is None else expiry_of(live)
    elif record.expiry == Expiry.NONE:
        expires_at_ms = NEVER
    else:
        start = log_time_ms if record.expiry == Expiry.TTL else 0
        expires_at_ms = min(start + record.expiry_ms, _EXPIRY_MAX)
        if expires_at_ms <= log_time_ms:
            # It expires as it is written: the key is absent from here on.
            return KeyChange(None, result)
    return KeyChange(stored_entry(value, record.offset, expires_at_ms), result)


def _patch(record: Record, live: bytes | None, definition: TableDefinition | None) -> tuple[bytes, None] | Rejection:
    """The new row. Its writer gets no result: a row may have megabytes, and a reader finds it by the key."""
    if definition is None:
        return Rejection(Verdict.MISFIT)
    if live is None:
        return Rejection(Verdict.NO_ROW)
    try:
        return patcher_of(definition).patched(record.key, value_of(live), record.value), None
    except NotPatched as hindered:
        return Rejection(*of_hindrance(hindered.why, hindered.change))


def _update(operation: Operation, live: bytes | None, operand: bytes) -> tuple[bytes, bytes] | Rejection:
    """The new value, and the result for its writer."""
    current = None if live is None else value_of(live)
    if operation is Operation.APPEND:
        length = len(operand) + (0 if current is None else len(current))
        if length > VALUE_BYTES_MAX:
            return Rejection(Verdict.RESULT_TOO_LARGE)
        return (current or b"") + operand, b"%d" % length
    number = parse_number(operand)
    before = None if current is None else parse_number(current)
    if number is None or (before is None and current is not None):
        return Rejection(Verdict.NOT_A_NUMBER)
    after = combine(operation, before, number)
    if after is None:
        return Rejection(Verdict.NUMBER_OVERFLOW)
    text = format_number(after)
    return text, text
