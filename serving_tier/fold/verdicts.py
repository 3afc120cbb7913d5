"""Verdicts: the fold's decision about a record that did not simply take effect.

The log decides a conditional write by its place, so its caller can be answered only after the fold has seen it. A fold
writes down a **judgement** for each record that was rejected or was a duplicate, and a **result** for each update. Both
are bounded. `outcomes_between` puts them together for a writer, by its own offsets.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum
from typing import Any, Final, NamedTuple, TypeVar

from log_tier.model.errors import (
    ConditionFailed,
    FieldAbsent,
    NotANumber,
    NumberOverflow,
    Rejected,
    ResultTooLarge,
    RowAbsent,
    RowRejected,
    UniqueViolation,
)
from log_tier.model.identifiers import NOTHING, Offset
from log_tier.rows.patches.hindrance import Hindrance

__all__ = [
    "RESULTS_MAX",
    "VERDICTS_MAX",
    "FoldVerdicts",
    "Judgement",
    "Outcome",
    "Verdict",
    "changed_nothing",
    "of_hindrance",
    "outcomes_between",
    "rejection_of",
]

# A writer asks for its verdicts within its deadline of seconds. A million rows of 24 bytes are some 60 MiB at most, and
# outlast every waiting caller: a partition folds about half a million records a second when it does nothing else.
VERDICTS_MAX: Final = 1_000_000

# The results of updates, as a window of offsets: one largest batch. They are a convenience (the new number without a
# read), so what was overtaken by 65,536 records is answered without them.
RESULTS_MAX: Final = 65_536


# Of one fold in memory, some 100 bytes each, for every index of a process. After a larger fold they are read from the
# index: one read is little next to such a fold.
_KEPT_MAX: Final = 1024

_HINDRANCE_BITS: Final = 8


class Verdict(IntEnum):
    """How the fold decided about a record. The numbers are part of the index's stored format."""

    ACCEPTED = 0
    CONDITION_FAILED = 1
    NOT_A_NUMBER = 2
    NUMBER_OVERFLOW = 3
    RESULT_TOO_LARGE = 4
    DUPLICATE = 5
    """A second copy, void. In an `Outcome`: of a write so old that its own outcome is forgotten."""
    UNREADABLE = 6
    """Something that no table can hold, which others put into the log's topic (`Operation.VOID`)."""
    MISFIT = 7
    """A key or a value that does not fit the table's definition."""
    NO_ROW = 8
    """A patch of a row that is not there."""
    NO_FIELD = 9
    """A patch of a field that the row there does not have as the patch needs it."""
    VALUE_TAKEN = 10
    """A row with values of a unique index that another row has. Its key is the record's result."""


class Judgement(NamedTuple):
    """What the fold writes down about `span` offsets from `offset` on (more than one only for duplicates)."""

    offset: Offset
    span: int
    verdict: Verdict
    actual: int
    """The version that a failed condition found; -1 for an absent key. Of a patch which change of it is at fault, from
    0 on; for NO_FIELD behind 8 bits that say why (`Hindrance`). For VALUE_TAKEN the number of the index. -1 where it
    says nothing."""
    about: Offset
    """For a duplicate: the offset of the first copy, or `NOTHING`. For a rejection: the record at fault, which in an
    atomic group may be another member."""


def of_hindrance(why: Hindrance, change: int) -> tuple[Verdict, int]:
    """The verdict on a patch that cannot change a row, and what goes with it."""
    if why is Hindrance.OVERFLOW:
        return Verdict.NUMBER_OVERFLOW, change
    if why is Hindrance.TOO_LARGE:
        return Verdict.RESULT_TOO_LARGE, -1
    return Verdict.NO_FIELD, max(change, 0) << _HINDRANCE_BITS | why


def changed_nothing(judgements: Iterable[Judgement]) -> frozenset[Offset]:
    """The offsets that judgements are about: rejected records and second copies."""
    return frozenset(
        Offset(offset)
        for judgement in judgements
        for offset in range(judgement.offset, judgement.offset + judgement.span)
    )


class Outcome(NamedTuple):
    """What a writer learns about one of its offsets."""

    verdict: Verdict = Verdict.ACCEPTED
    actual: int = -1
    """As in the `Judgement`."""
    failed: Offset = NOTHING
    """For a rejection: the offset of the record at fault, which in an atomic group may be another member."""
    duplicate_of: Offset | None = None
    """The offset of the first copy, whose outcome this is; `NOTHING` where that is forgotten; None: no duplicate."""
    result: bytes | None = None
    """An update's new value (arithmetic) or new length in decimal (APPEND), or the key of the row that has a value
    (VALUE_TAKEN), for the last `RESULTS_MAX` offsets."""


class FoldVerdicts(NamedTuple):
    """The judgements and results of one fold. An index keeps it in memory until the next one: the writers who waited
    for it ask now.
    """

    first: Offset
    """For the offsets `first` to `last`, this holds all that the index does."""
    last: Offset
    judgements: Sequence[Judgement]
    """None of them about a duplicate, whose first copy another fold may have seen."""
    results: Sequence[tuple[Offset, bytes]]

    @classmethod
    def of(
        cls, judgements: Sequence[Judgement], results: Sequence[tuple[Offset, bytes]], *, first: int, last: Offset
    ) -> FoldVerdicts | None:
        """The decisions of a fold, in the order of their offsets; None: they have to be read from the index."""
        if len(judgements) + len(results) > _KEPT_MAX or any(row.verdict is Verdict.DUPLICATE for row in judgements):
            return None
        return cls(Offset(first), last, judgements, results)

    def covers(self, first: Offset, last: Offset) -> bool:
        """Are the outcomes of these offsets, both inclusive, known here?"""
        return self.first <= first and last <= self.last

    def outcomes(self, first: Offset, last: Offset) -> dict[Offset, Outcome]:
        """What is known about the offsets `first` to `last`. O(log n), and the rows found."""
        found = {offset: Outcome(result=result) for offset, result in _within(self.results, first, last)}
        for offset, _, verdict, actual, about in _within(self.judgements, first, last):
            found[offset] = Outcome(verdict, actual, about)
            if verdict is Verdict.VALUE_TAKEN:
                key = next((key for _, key in _within(self.results, about, about)), None)
                found[offset] = Outcome(verdict, actual, about, result=key)
        return found


_Row = TypeVar("_Row", bound=tuple[Any, ...])


def _within(rows: Sequence[_Row], first: Offset, last: Offset) -> Sequence[_Row]:
    """The rows under the offsets `first` to `last`, of rows that begin with their offsets and rise."""
    return rows[bisect_left(rows, (first,)) : bisect_left(rows, (last + 1,))]


_ERRORS: Final[dict[Verdict, tuple[type[Rejected], str]]] = {
    Verdict.CONDITION_FAILED: (ConditionFailed, "the condition did not hold"),
    Verdict.NOT_A_NUMBER: (NotANumber, "the value there, or the operand, is no number"),
    Verdict.NUMBER_OVERFLOW: (NumberOverflow, "the result is beyond 64 bits, or not finite"),
    Verdict.RESULT_TOO_LARGE: (ResultTooLarge, "the value, or what is inside the row, would grow over the limit"),
    Verdict.UNREADABLE: (Rejected, "no table can hold what is in the log there"),
    Verdict.MISFIT: (RowRejected, "it does not fit the table's definition"),
    Verdict.NO_ROW: (RowAbsent, "there is no row with this key to update"),
    Verdict.VALUE_TAKEN: (UniqueViolation, "another row has the values that a unique index allows to one row"),
    Verdict.NO_FIELD: (FieldAbsent, "the row does not have the field as the update needs it"),
}

_HINDRANCES: Final[dict[int, str]] = {
    Hindrance.NULL: "the field, or a record around it, is null in the row",
    Hindrance.OTHER_TYPE: "the field has a value of another type in the row",
    Hindrance.GONE: "the row is of a newer schema, which has no such field",
    Hindrance.UNREADABLE: "the row is of an older schema, which the update's schema does not read",
}

_HINDRANCE_MASK: Final = (1 << _HINDRANCE_BITS) - 1


def rejection_of(offset: Offset, outcome: Outcome) -> Rejected | None:
    """The error for the writer of a rejected record at `offset`; None if the record was accepted."""
    found = _ERRORS.get(outcome.verdict)
    if found is None:
        return None
    kind, message = found
    fields: dict[str, int | str] = {"offset": offset}
    if outcome.verdict is Verdict.CONDITION_FAILED:
        fields["actual"] = outcome.actual
        message += ": the key is absent" if outcome.actual < 0 else f": the key has version {outcome.actual}"
    elif outcome.verdict is Verdict.NO_FIELD:
        message = _HINDRANCES.get(outcome.actual & _HINDRANCE_MASK, message)
        fields["change"] = outcome.actual >> _HINDRANCE_BITS
    elif outcome.verdict is Verdict.NUMBER_OVERFLOW and outcome.actual >= 0:
        message = "the result is beyond the field's type, or not finite"
        fields["change"] = outcome.actual
    elif outcome.verdict is Verdict.VALUE_TAKEN:
        fields["index"], fields["key"] = outcome.actual, (outcome.result or b"").hex()
    place = offset if outcome.duplicate_of is None else outcome.duplicate_of
    if outcome.failed not in (place, NOTHING):
        message = f"the atomic batch was rejected at its record with offset {outcome.failed}: {message}"
    return kind(f"offset {offset}: {message}", **fields, failed=outcome.failed)


def outcomes_between(
    first: int,
    last: int,
    *,
    verdicts_from: int,
    judgements: Callable[[int, int], Iterable[Judgement]],
    results: Callable[[int, int], Iterable[tuple[int, bytes]]],
) -> dict[Offset, Outcome]:
    """The outcomes of the offsets `first` to `last` (inclusive). Offsets without a judgement or result are left out.

    `judgements` and `results` read an index: all rows that touch a range of offsets.
    """
    found = {Offset(offset): Outcome(result=result) for offset, result in results(first, last)}
    for row in judgements(first, last):
        if row.verdict is not Verdict.DUPLICATE:
            found[row.offset] = Outcome(row.verdict, row.actual, row.about)
            if row.verdict is Verdict.VALUE_TAKEN:
                key = next((key for _, key in results(row.about, row.about)), None)
                found[row.offset] = Outcome(row.verdict, row.actual, row.about, result=key)
            continue
        start, end = max(first, row.offset), min(last, row.offset + row.span - 1)
        shift = row.offset - row.about
        if row.about == NOTHING or start - shift < verdicts_from:
            forgotten = Outcome(Verdict.DUPLICATE, duplicate_of=NOTHING)
            found.update((Offset(offset), forgotten) for offset in range(start, end + 1))
            continue
        originals = outcomes_between(
            start - shift, end - shift, verdicts_from=verdicts_from, judgements=judgements, results=results
        )
        for offset in range(start, end + 1):
            original = Offset(offset - shift)
            found[Offset(offset)] = originals.get(original, Outcome())._replace(duplicate_of=original)
    return found
