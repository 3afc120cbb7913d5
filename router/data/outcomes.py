"""What became of a write: of parts that the log did not take or did not answer, and of records that are in it.

A batch is on stable storage as soon as it has its place. The fold decides what its conditions and updates came to,
alike on every replica. So the question may go to any replica, and again to another.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from log_tier.model.errors import DeadlineExceeded, DuramenError, LogDamaged, PermissionDenied, WriteUnknown
from log_tier.model.identifiers import HISTORY_TABLE, NOTHING, Offset, PartitionId, TableId
from router.data.requests import OutcomesPart, WriteOutcome, WritePart, WriteResult
from serving_tier.fold.verdicts import Outcome, Verdict, rejection_of

__all__ = [
    "behind_their_index",
    "judged",
    "outcome_forgotten",
    "outcome_unknown",
    "refused_parts",
    "unanswered",
    "unjudged",
    "write_unknown",
]


def refused_parts(
    parts: Sequence[WritePart], closed: Collection[TableId], refusals: Mapping[PartitionId, DuramenError]
) -> Mapping[PartitionId, DuramenError]:
    """The partitions to which these parts must not be appended, and why. Under 1 µs where there are none.

    Without users nobody is asked for a grant, and so the history, which servers alone write (`closed`), is refused
    here. What they write of it they hand to the log. `refusals`: why replicas could not be opened.
    """
    ours = [part.partition for part in parts if part.partition.table in closed]
    if ours:
        refused = PermissionDenied(f"{HISTORY_TABLE} is written by the servers alone: nobody else can change it")
        return behind_their_index(parts, refusals) | dict.fromkeys(ours, refused)
    return behind_their_index(parts, refusals) if refusals else {}


def behind_their_index(
    parts: Sequence[WritePart], refusals: Mapping[PartitionId, DuramenError]
) -> dict[PartitionId, DuramenError]:
    """The partitions whose log ends before what an index here has applied, as after a log was put back from an older
    copy: an append would get an offset that was acknowledged for something else, and the index would never apply it.

    `refusals`: why replicas could not be opened.
    """
    found = {part.partition: refusals.get(part.partition) for part in parts}
    return {partition: refusal for partition, refusal in found.items() if isinstance(refusal, LogDamaged)}


def unanswered(parts: Sequence[WritePart], error: DuramenError | TimeoutError, timeout: float) -> list[DuramenError]:
    """A result for each part of an append that ended with `error`.

    After a `TimeoutError`, `timeout` seconds long, each is a `WriteUnknown`: the log may have it, or may still take it.
    """
    if isinstance(error, DuramenError):
        return [error] * len(parts)
    return [
        WriteUnknown(
            f"no reply came from the log within {timeout:.3g} s: the batch is in the log or it is not; append "
            "the same bytes again, a second copy is void",
            partition=part.partition.partition,
        )
        for part in parts
    ]


def outcome_unknown(part: OutcomesPart, reason: DuramenError) -> WriteUnknown:
    """The write is in the log, and nobody said in time what became of it. Fields: `offset`, `partition`."""
    return WriteUnknown(
        f"the write is in the log at offset {part.base_offset}, what became of it is not known yet "
        f"({reason.message}): read the key with a token of that offset",
        offset=part.base_offset,
        partition=part.partition.partition,
    )


def unjudged(part: OutcomesPart, reason: DuramenError, *, patient: bool) -> WriteResult | WriteUnknown:
    """The answer about a write that is in the log while its outcomes are not known for `reason`. `patient`: its caller
    asks again where only the time was too short.
    """
    if patient and isinstance(reason, DeadlineExceeded):
        return WriteResult(part.base_offset, part.timestamp_ms, pending=True)
    return outcome_unknown(part, reason)


def judged(part: OutcomesPart, found: Mapping[Offset, Outcome]) -> WriteResult | WriteUnknown:
    """The answer about a batch of which the index knows these outcomes. O(outcomes)."""
    if any(outcome.verdict is Verdict.DUPLICATE for outcome in found.values()):
        return outcome_forgotten(part)
    outcomes = [_write_outcome(offset, part.base_offset, outcome) for offset, outcome in found.items()]
    return WriteResult(part.base_offset, part.timestamp_ms, outcomes)


def _write_outcome(offset: Offset, base_offset: Offset, outcome: Outcome) -> WriteOutcome:
    """A record's outcome for its writer; for a retry, the outcome and offset of the first copy."""
    original = NOTHING if outcome.duplicate_of is None else outcome.duplicate_of
    place = original if original > NOTHING else offset
    rejected = rejection_of(place, outcome)
    return WriteOutcome(offset - base_offset, rejected, outcome.result if rejected is None else None, original)


def outcome_forgotten(part: OutcomesPart) -> WriteUnknown:
    """The batch is a second copy, and what became of the first one is remembered no more. Fields as above."""
    return WriteUnknown(
        f"the write at offset {part.base_offset} is the second copy of one that is so old that its outcome is "
        "forgotten: read the key to know it, and its version",
        offset=part.base_offset,
        partition=part.partition.partition,
    )


def write_unknown(reason: str) -> WriteUnknown:
    """No reply that settles it came, and a copy of the write may be in the log."""
    return WriteUnknown(
        f"no reply settled it in time ({reason}): the write is in the log once or not at all; read the key to know"
    )
