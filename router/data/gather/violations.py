"""The rows of one call that the log has rejected, since others have their values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from log_tier.model.errors import Rejected, UniqueViolation
from router.data.requests import WriteOutcome

__all__ = ["first_of"]

_NAMED_MAX: Final = 20
"""Rows that one message names."""


def first_of(outcomes: Sequence[WriteOutcome]) -> Rejected:
    """The error for the caller of several records, some of which were rejected: the first one's. Where that is a row
    whose values others have, it names each such row of the call.
    """
    refused = [each.rejected for each in outcomes if each.rejected is not None]
    first = refused[0]
    if not isinstance(first, UniqueViolation):
        return first
    # The members of an atomic group all have the verdict on the one at fault.
    alike = {each.fields["failed"]: each for each in refused if isinstance(each, UniqueViolation)}
    if len(alike) == 1:
        return first
    rows = [str(each.fields["refused"]) for each in alike.values() if "refused" in each.fields]
    shown = ", ".join(rows[:_NAMED_MAX]) + (", …" if len(rows) > _NAMED_MAX else "")
    what = f"{len(alike)} rows of this call have values of others: {shown}"
    return UniqueViolation(f"{first.message}; {what}", **{**first.fields, "rows": len(alike)})
