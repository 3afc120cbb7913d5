"""Which records a table with a definition takes: its judge decides, on every replica alike."""

from __future__ import annotations

from typing import Final

from log_tier.model.record import UPDATES, Operation
from log_tier.rows.judge import RowJudge

__all__ = ["fits"]

_PUT: Final = Operation.PUT


def fits(judge: RowJudge, operation: int, key: bytes, value: bytes) -> bool:
    """Can the table hold what this record writes? A record that writes no value fits: it finds nothing to change.

    What updates compute are numbers and longer texts. A table of texts takes them; one of rows does not, since neither
    is a row. About 4 µs for a row of eight fields.
    """
    if operation == _PUT:
        return judge.refusal(key, value) is None
    if operation in UPDATES:
        return not judge.holds_rows and judge.refusal(key, value) is None
    return True
