"""The errors with which a replica refuses to answer, each with both values and what to do next."""

from __future__ import annotations

from log_tier.model.errors import (
    DuramenError,
    LogDamaged,
    OffsetTrimmed,
    ReplicaBehind,
    ShuttingDown,
    TokenAhead,
    VersionMissing,
)
from log_tier.model.identifiers import Offset, Partition
from log_tier.model.log import Bounds

__all__ = [
    "behind",
    "closing",
    "compacted_away",
    "end_lost",
    "end_unknown",
    "pinned_too_late",
    "stopped_by_bug",
    "token_ahead",
    "version_gone",
]


def closing(name: str) -> ShuttingDown:
    """The error for a replica that closes because its process ends."""
    return ShuttingDown(f"replica {name} is closing; ask again")


def behind(
    name: str, partition: Partition, *, applied: Offset, asked: Offset, latest: Offset, obstacle: str = ""
) -> ReplicaBehind:
    """A reader's time is over before its offset was applied. `obstacle`: why nothing is applied now."""
    advice = f"It applies nothing now: {obstacle}" if obstacle else "Give it more time, or read another replica"
    return ReplicaBehind(
        f"replica {name} has applied {applied}, the token asks {asked}; the log ends at {latest}. {advice}",
        partition=partition,
        applied=applied,
        asked=asked,
        latest=latest,
    )


def compacted_away(what: str, partition: Partition, *, applied: Offset, compacted: Offset) -> OffsetTrimmed:
    """An index stands within the compacted part of its log. `what`: the index, for people."""
    return OffsetTrimmed(
        f"{what} has applied {applied}, and the log is compacted below {compacted}: deletes that it has not seen may "
        "be gone, and what lies between can only come from a copy of the index",
        partition=partition,
        asked=applied + 1,
        earliest=Offset(compacted - 1),
    )


def end_lost(name: str, partition: Partition, applied: Offset, floor: Offset, damage: LogDamaged) -> LogDamaged:
    """The replica met damage in its log. Where it has not applied its floor, acknowledged writes are missing in it, and
    the error says so; else it is `damage` itself.
    """
    if applied >= floor:
        return damage
    return LogDamaged(
        f"replica {name} has applied {applied}, and its log is known to have held offset {floor}: acknowledged writes "
        f"are missing. {damage.message}. To read what is left, ask at level eventual, without a token",
        **{**damage.fields, "partition": partition, "applied": applied, "asked": floor},
    )


def end_unknown(name: str, partition: Partition, *, applied: Offset, latest: Offset) -> ReplicaBehind:
    """A reader wants all that the log holds, and the log did not say in time where it ends. `latest`: last heard."""
    return ReplicaBehind(
        f"replica {name} has applied {applied}, and the log did not say in time where it ends; it ended at {latest} "
        "when it was last heard of. Give it more time; reads at other levels than strong do not ask the log",
        partition=partition,
        applied=applied,
        latest=latest,
    )


def pinned_too_late(
    name: str, partition: Partition, *, applied: Offset, asked: Offset, latest: Offset
) -> ReplicaBehind:
    """The timeout of a read at one exact offset, which may lie ahead of the log's end."""
    return ReplicaBehind(
        f"replica {name} has applied {applied}, and should be read at {asked}; the log ends at {latest}. Give it more "
        "time",
        partition=partition,
        applied=applied,
        asked=asked,
        latest=latest,
    )


def stopped_by_bug(name: str, applied: Offset, error: Exception) -> DuramenError:
    """The follower of the log met an error of no type of ours, which is the cause of the returned one."""
    bug = DuramenError(f"replica {name} stopped at {applied} by a bug: {error!r}")
    bug.__cause__ = error
    return bug


def token_ahead(name: str, partition: Partition, *, asked: Offset, bounds: Bounds) -> TokenAhead:
    """The log does not hold the offset that a token names."""
    return TokenAhead(
        f"the token asks {name} for offset {asked}, the log ends at {bounds.latest}: it comes from another deployment, "
        "or the log was replaced; read without it",
        partition=partition,
        asked=asked,
        latest=bounds.latest,
    )


def version_gone(name: str, *, asked: int, version: int, since: Offset) -> VersionMissing:
    """The error for a read whose version is not level here any more."""
    return VersionMissing(
        f"{name} is read in version {version}, and version {asked}, in which this read began, is not here any more: "
        "begin it again",
        version=asked,
        offset=since,
    )
