"""Verdicts: the log decided against a write, alike on every replica."""

from __future__ import annotations

from log_tier.model.errors.root import DuramenError

__all__ = [
    "CommandRejected",
    "ConditionFailed",
    "NotANumber",
    "NumberOverflow",
    "Rejected",
    "ResultTooLarge",
    "RowRejected",
]


class Rejected(DuramenError):
    """The log decided against the write. The record is in the log at `offset` and has no effect on any replica.

    Do: nothing needs repair; decide from the message whether to read and write again.
    """

    code = "rejected"
    fault = "caller"


class ConditionFailed(Rejected):
    """The condition of a write did not hold. Fields: `offset`, `actual` (the key's version; -1: it is absent), `failed`
    (the offset of the record that was refused: of an atomic batch it may be another one).

    Do: read the entry again, and write under its new version.
    """

    code = "condition_failed"


class NotANumber(Rejected):
    """An update does arithmetic on a value that is not a number. Field: `offset`.

    Do: put a number first, or use another key.
    """

    code = "not_a_number"


class NumberOverflow(Rejected):
    """The result does not fit: integers have 64 bits, floats must stay finite. Field: `offset`.

    Do: put a smaller value, or use a float.
    """

    code = "number_overflow"


class ResultTooLarge(Rejected):
    """An append would make the value longer than 4 MiB. Field: `offset`.

    Do: begin a new key.
    """

    code = "result_too_large"


class RowRejected(Rejected):
    """What was written does not fit its table: another key, a row of another schema, bytes that are no row. Fields:
    `offset`, `failed` (the offset of the record at fault: of an atomic batch it may be another one).

    Do: write rows through a table that was opened with their type, which refuses them by field. The message says why,
    where the verdict came with the write.
    """

    code = "row_rejected"


class CommandRejected(Rejected):
    """The catalog decided against a command: another command was first, or it contradicts the cluster's state.

    Field: `version`, the catalog offset of the map that decided.

    Do: read the reason in the message; look at `duramen admin jobs`, then repeat the command if it still
    applies.
    """

    code = "command_rejected"
