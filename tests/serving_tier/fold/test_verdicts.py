from __future__ import annotations

import pytest

from log_tier.model.errors import (
    ConditionFailed,
    FieldAbsent,
    NotANumber,
    NumberOverflow,
    Rejected,
    ResultTooLarge,
    RowAbsent,
    RowRejected,
    error_from_code,
)
from log_tier.model.identifiers import NOTHING, Offset
from log_tier.rows.patches.hindrance import Hindrance
from serving_tier.fold.verdicts import (
    FoldVerdicts,
    Judgement,
    Outcome,
    Verdict,
    of_hindrance,
    outcomes_between,
    rejection_of,
)


@pytest.mark.parametrize(
    ("verdict", "kind"),
    [
        (Verdict.CONDITION_FAILED, ConditionFailed),
        (Verdict.NOT_A_NUMBER, NotANumber),
        (Verdict.NUMBER_OVERFLOW, NumberOverflow),
        (Verdict.RESULT_TOO_LARGE, ResultTooLarge),
        (Verdict.MISFIT, RowRejected),
        (Verdict.NO_ROW, RowAbsent),
    ],
)
def test_every_rejection_has_its_error(verdict: Verdict, kind: type[Rejected]) -> None:
    found = 3 if kind is ConditionFailed else -1
    error = rejection_of(Offset(7), Outcome(verdict, found, Offset(7)))
    assert type(error) is kind
    actual = {"actual": 3} if kind is ConditionFailed else {}  # a fold records the key's version for a condition alone
    assert error.fields == {"offset": 7, **actual, "failed": 7}
    assert "atomic batch" not in str(error)
    again = error_from_code(error.code, error.message, error.fields)
    assert (type(again), str(again)) == (kind, str(error))


@pytest.mark.parametrize("why", Hindrance)
@pytest.mark.parametrize("change", [0, 1, 1023])
def test_what_hinders_a_patch_has_its_error(why: Hindrance, change: int) -> None:
    verdict, actual = of_hindrance(why, change)
    error = rejection_of(Offset(7), Outcome(verdict, actual, Offset(7)))
    assert error is not None
    kind = {Hindrance.OVERFLOW: NumberOverflow, Hindrance.TOO_LARGE: ResultTooLarge}.get(why, FieldAbsent)
    assert type(error) is kind
    assert error.fields.get("change") == (None if kind is ResultTooLarge else change)
    messages = {str(rejection_of(Offset(7), Outcome(*of_hindrance(each, change)))) for each in Hindrance}
    assert len(messages) == len(Hindrance), "each says something else"


@pytest.mark.parametrize("verdict", [Verdict.ACCEPTED, Verdict.DUPLICATE])
def test_what_is_no_rejection_has_none(verdict: Verdict) -> None:
    assert rejection_of(Offset(7), Outcome(verdict)) is None


def test_a_duplicates_error_is_its_originals() -> None:
    error = rejection_of(Offset(9), Outcome(Verdict.NOT_A_NUMBER, -1, Offset(2), duplicate_of=Offset(2)))
    assert "atomic batch" not in str(error)


def test_a_duplicate_of_what_is_forgotten_says_so() -> None:
    """The original's verdict may have been a rejection that was trimmed: nobody can call it accepted."""
    row = Judgement(Offset(50), 2, Verdict.DUPLICATE, -1, Offset(10))

    def between(verdicts_from: int) -> dict[Offset, Outcome]:
        return outcomes_between(
            50,
            51,
            verdicts_from=verdicts_from,
            judgements=lambda first, _: [row] * (first >= 50),
            results=lambda *_: [],
        )

    assert between(10) == {50: Outcome(duplicate_of=Offset(10)), 51: Outcome(duplicate_of=Offset(11))}
    assert between(11) == dict.fromkeys((50, 51), Outcome(Verdict.DUPLICATE, duplicate_of=NOTHING))


def test_a_folds_verdicts_answer_for_its_own_offsets() -> None:
    judgements = [Judgement(Offset(12), 1, Verdict.CONDITION_FAILED, 3, Offset(12))]
    results = [(Offset(11), b"1"), (Offset(13), b"2")]
    kept = FoldVerdicts.of(judgements, results, first=11, last=Offset(14))
    assert kept is not None
    rejected = Outcome(Verdict.CONDITION_FAILED, 3, Offset(12))
    every = {11: Outcome(result=b"1"), 12: rejected, 13: Outcome(result=b"2")}
    for first in range(11, 15):
        for last in range(first, 15):
            found = kept.outcomes(Offset(first), Offset(last))
            assert found == {at: each for at, each in every.items() if first <= at <= last}
    covered = [(first, last) for first in (10, 11) for last in (14, 15) if kept.covers(Offset(first), Offset(last))]
    assert covered == [(11, 14)]


def test_second_copies_and_large_folds_are_read_from_the_index() -> None:
    """The first copy may lie in another fold; and what stays in memory is bounded."""
    copy = Judgement(Offset(5), 1, Verdict.DUPLICATE, -1, Offset(2))
    assert FoldVerdicts.of([copy], [], first=5, last=Offset(5)) is None
    results = [(Offset(number), b"1") for number in range(1025)]
    assert FoldVerdicts.of([], results, first=0, last=Offset(1024)) is None
    assert FoldVerdicts.of([], results[:1024], first=0, last=Offset(1023)) is not None
