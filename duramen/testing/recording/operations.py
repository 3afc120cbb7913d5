"""The records of a write as the history has them, and what of them the checker cannot judge."""

from __future__ import annotations

from typing import Any, Final

from duramen.verification.history import text_of
from log_tier.model.batch import Columns
from log_tier.model.record import (
    CONDITION_SHIFT,
    OPERATION_MASK,
    PLAIN_PUT,
    Condition,
    Operation,
)

__all__ = ["operations_of", "unjudged"]

_NUMERIC: Final = frozenset({Operation.ADD, Operation.MULTIPLY, Operation.MIN, Operation.MAX})


def operations_of(records: Columns) -> list[dict[str, Any]]:
    """One operation for each record. O(records)."""
    found = []
    for place, (key, value) in enumerate(zip(records.keys, records.values, strict=True)):
        attribute = PLAIN_PUT if records.attributes is None else records.attributes[place]
        condition = Condition(attribute >> CONDITION_SHIFT & 3)
        has_version = condition is Condition.VERSION and records.versions is not None
        found.append(
            {
                "operation": Operation(attribute & OPERATION_MASK).name.lower(),
                "key": text_of(key),
                "value": text_of(value),
                "condition": "" if condition is Condition.NONE else condition.name.lower(),
                "version": records.versions[place] if has_version and records.versions is not None else 0,
            }
        )
    return found


def unjudged(records: Columns) -> str:
    """What the checker's model has not, in words; empty: nothing."""
    for place, attribute in enumerate(records.attributes or ()):
        key, value = records.keys[place], records.values[place]
        operation = Operation(attribute & OPERATION_MASK)
        if operation is Operation.PATCH:
            return f"fields of {key!r} were updated"
        if operation in _NUMERIC and not _is_whole(value):
            return f"{key!r} was updated by the fraction {text_of(value)}"
    return ""


def _is_whole(number: bytes) -> bool:
    try:
        int(number)
    except ValueError:
        return False
    return True
