"""What is known of one batch's fate, and what each answer makes of it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from log_tier.model.errors import (
    DatabaseClosed,
    DeadlineExceeded,
    Disconnected,
    DuramenError,
    Overloaded,
    ShuttingDown,
    WriteUnknown,
)
from log_tier.model.identifiers import Offset
from router.data.outcomes import outcome_unknown, write_unknown
from router.data.requests import OutcomesPart, WriteResult

__all__ = ["BatchProgress", "Fate", "may_be_written", "place_in"]

# After these the same bytes may be sent again: nothing is known against them.
_REPEATABLE: Final = (Disconnected, ShuttingDown, Overloaded, WriteUnknown)


class Fate(Enum):
    """What an answer means for a batch."""

    PLACED = "placed"
    """The batch is in the log; what became of its records is not known yet, or not of interest."""
    JUDGED = "judged"
    """The batch is in the log, and what became of its records is known."""
    AGAIN = "again"
    """The same bytes are to be sent again."""
    REFUSED = "refused"
    """The batch will not be sent again."""


@dataclass(slots=True)
class BatchProgress:
    """What is known of one batch's fate."""

    under_way: bool = False
    """The batch was handed to the connection, which has not answered yet."""
    unknown: bool = False
    """A copy may be in the log. Invariant: never becomes False again."""
    repeated: bool = False
    """The batch was sent before: whatever came of that, its place is the one of the copy that counts, which the fold
    knows (W3)."""
    reason: DuramenError | None = None
    """Why it was not written so far."""
    is_over: bool = False
    """Its callers have been answered that nothing was written: it must not leave, so no call may join it any more."""

    def answered(self, result: WriteResult | DuramenError, *, asked: bool) -> Fate:
        """Take an answer to one try. `asked`: the try asked for verdicts."""
        self.under_way = False
        place = place_in(result)
        if place is not None:
            if place.pending:
                # This batch had not asked for verdicts: a process on the way has sent it twice.
                self.repeated |= not asked
                return Fate.PLACED
            return Fate.JUDGED if asked or place.outcomes else Fate.PLACED
        assert isinstance(result, DuramenError), f"an answer without a place is an error, not {result!r}"
        self.unknown |= may_be_written(result)
        self.reason = result
        if not isinstance(result, _REPEATABLE):
            return Fate.REFUSED
        self.repeated = True
        return Fate.AGAIN

    def asks(self, part: OutcomesPart) -> None:
        """The batch is in the log, and `part`, the question what became of its records, is on its way."""
        self.unknown = True
        self.reason = outcome_unknown(part, DeadlineExceeded("no replica has applied it in time"))

    def too_late(self, last_caller: bool) -> DuramenError:
        """The error for callers whose time is over. `last_caller`: no other caller waits for this batch."""
        # While another caller waits for the batch, it goes on, and may still be written.
        if last_caller and not self.unknown and not self.under_way:
            self.is_over = True
            return self.reason or DeadlineExceeded("the write could not be sent in time; nothing was written")
        if isinstance(self.reason, WriteUnknown):
            return self.reason
        return write_unknown("its time is over" if self.reason is None else self.reason.message)

    def final(self, error: DuramenError) -> DuramenError:
        """The error that its callers get where it ends with `error`: that nothing was written, or that nobody knows."""
        if (self.unknown or self.under_way) and not isinstance(error, WriteUnknown):
            return write_unknown(error.message)
        return error


def may_be_written(error: DuramenError) -> bool:
    """Could a copy be in the log after this answer? Of an error that says nothing, the worst is assumed."""
    if isinstance(error, Disconnected):
        return error.fields.get("sent", 1) != 0
    return isinstance(error, (WriteUnknown, DeadlineExceeded, DatabaseClosed)) or type(error) is DuramenError


def place_in(result: WriteResult | DuramenError) -> WriteResult | None:
    """Where the batch is in the log, if the answer says so: a `WriteUnknown` about the verdict alone says so too."""
    if isinstance(result, WriteResult):
        return result
    if isinstance(result, WriteUnknown) and "offset" in result.fields:
        return WriteResult(Offset(int(str(result.fields["offset"]))), 0, pending=True)
    return None
