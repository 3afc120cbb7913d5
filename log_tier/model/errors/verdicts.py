"""Verdicts: the log decided against a write, alike on every replica."""

from __future__ import annotations

from log_tier.model.errors.root import DuramenError

__all__ = [
    "CommandRejected",
    "ConditionFailed",
    "FieldAbsent",
    "NotANumber",
    "NumberOverflow",
    "Rejected",
    "ResultTooLarge",
    "RowAbsent",
    "RowRejected",
    "UniqueViolation",
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
    """The result does not fit: integers have 64 bits, floats must stay finite, fields of rows have their types. Fields:
    `offset`; of an update of fields `field`, or `change` (its number in the update, from 0 on) where nobody named it.

    Do: put a smaller value, or use a float.
    """

    code = "number_overflow"


class ResultTooLarge(Rejected):
    """An append would make the value longer than 4 MiB, or give a row more than 65,536 values inside. Field: `offset`.

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


class RowAbsent(Rejected):
    """An update of fields found no row with its key. Fields: `offset`, `failed` (as of `RowRejected`).

    Do: put the row, with `if_absent` where others may do so too; then update it.
    """

    code = "row_absent"


class FieldAbsent(Rejected):
    """An update of fields found a row that does not have a field as the update needs it: it is null, or inside a record
    that is null, or of another type of its union, or the row is of a schema that does not have it. Fields: `offset`,
    `failed` (as of `RowRejected`), `field`, or `change` (its number in the update, from 0 on) where nobody named it.

    Do: `set` the field, or the record around it, first; where the schema is another one, open the table again.
    """

    code = "field_absent"


class UniqueViolation(Rejected):
    """Another row has the values that a unique index allows to one row alone. Fields: `offset`, `failed` (as of
    `RowRejected`), `index` (its name), `indexed` (its fields, with commas between them), `key` (of the row that has the
    values, in hexadecimal; empty where that is forgotten) and `row` (the same key for people). Where the verdict came
    with the write, `refused` is the key of the row that cannot have them, and `rows` how many such rows a call of
    several had, which the message names.

    Do: write other values, or change or delete the row that has them first.
    """

    code = "unique_violation"


class CommandRejected(Rejected):
    """The catalog decided against a command: another command was first, or it contradicts the cluster's state.

    Field: `version`, the catalog offset of the map that decided.

    Do: read the reason in the message; look at `duramen admin jobs`, then repeat the command if it still
    applies.
    """

    code = "command_rejected"
