"""What a read must have seen: its level, its token and the session, as an offset per partition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Literal, NamedTuple, TypeAlias

from duramen.client.model.session import Session
from log_tier.model.errors import InvalidRequest, InvalidToken
from log_tier.model.identifiers import ANYTHING, NOTHING, Offset, Partition
from log_tier.model.table_ref import TableRef
from log_tier.model.tokens import Token

__all__ = [
    "SESSION",
    "AsOf",
    "Asked",
    "Bounded",
    "Level",
    "asked_of",
    "bounded",
    "check_level",
    "time_at_ms",
    "time_ms_of",
]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MS: Final = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class Bounded:
    """A read level that `bounded(seconds)` makes: a replica may lag by that much."""

    max_lag: float
    """Seconds."""


Level = Literal["session", "eventual", "strong"] | Bounded

AsOf: TypeAlias = str | Token | datetime
"""The state that a read of the past shows: that of a token, or of a time with a time zone."""

_LEVELS: Final = ("session", "eventual", "strong")

# Staleness is counted in milliseconds, and a replica that is days behind is no bound worth naming.
_LAG_MIN_S: Final = 0.001
_LAG_MAX_S: Final = 86_400.0

# Offsets are 64-bit numbers everywhere, and the next one must be one too.
_OFFSET_MAX: Final = (1 << 63) - 2


class Asked(NamedTuple):
    """The offsets and the bound that a read requires."""

    offsets: Mapping[Partition, Offset] | None
    """None: what the session has seen when the request leaves."""
    strong: bool
    seen: bool
    """The session remembers what the read showed, so that no later one shows less. Not at level `eventual`."""
    lag_max_ms: int = 0
    """The replica was level with the log within this time; 0: no bound."""

    def after(self, partition: Partition) -> Offset | None:
        """The offset that one partition must have applied."""
        if self.offsets is None:
            return None
        return self.offsets.get(partition, NOTHING if self.seen else ANYTHING)

    def named(self, session: Session, ref: TableRef) -> dict[Partition, Offset]:
        """What a read of all partitions of a table names. O(partitions)."""
        if self.offsets is None:
            return session.seen(ref)
        if self.seen:
            return dict(self.offsets)
        return {partition: self.offsets.get(partition, ANYTHING) for partition in map(Partition, range(ref.partitions))}


SESSION: Final = Asked(None, False, True)
"""The usual case."""


def time_ms_of(at: datetime) -> int:
    """A time as requests have it: ms since 1970, never 0. Raises `InvalidRequest` for one without a time zone."""
    if at.tzinfo is None:
        raise InvalidRequest(f"the time {at} has no time zone: give it one, as datetime.now(UTC) has")
    # 0 would ask for no time, and nothing was written then.
    return (at - _EPOCH) // _MS or -1


def time_at_ms(time_ms: int) -> datetime:
    """The time, of milliseconds since 1970."""
    return _EPOCH + time_ms * _MS


def bounded(max_lag: float) -> Bounded:
    """A level for reads: from a replica that was level with the log within the last `max_lag` seconds.

    So it shows everything that had been acknowledged that long ago, to any client, and what this client has seen. It
    costs no question to the log, unlike `"strong"`, as long as some replica keeps up; one that does not waits until it
    does.
    """
    level = Bounded(max_lag)
    check_level(level)
    return level


def check_level(level: Level) -> None:
    """Raises `InvalidRequest` for a level that there is not."""
    if isinstance(level, Bounded):
        lag = level.max_lag
        if isinstance(lag, bool) or not isinstance(lag, (int, float)) or not _LAG_MIN_S <= lag <= _LAG_MAX_S:
            raise InvalidRequest(f"max_lag is a number of seconds from {_LAG_MIN_S:g} to {_LAG_MAX_S:g}, not {lag!r}")
    elif level not in _LEVELS:
        raise InvalidRequest(f"level is one of {', '.join(_LEVELS)} or duramen.bounded(max_lag), not {level!r}")


def asked_of(session: Session, ref: TableRef, token: Token | None, level: Level) -> Asked:
    """What a read with this token at this level asks of a table. Raises `InvalidToken`, also for another table's."""
    lag_max_ms = int(level.max_lag * 1000) if isinstance(level, Bounded) else 0
    if lag_max_ms and token is None:
        return Asked(None, False, True, lag_max_ms)
    asked: dict[Partition, Offset] = {}
    if token is not None:
        asked.update(token.offsets(ref.id, table_name=ref.name))
        for partition, offset in asked.items():
            if partition >= ref.partitions or offset > _OFFSET_MAX:
                raise InvalidToken(
                    f"the token names offset {offset} of partition {partition}; {ref.name} has "
                    f"{ref.partitions} partitions, and offsets end at {_OFFSET_MAX}: it was not made here"
                )
    if level == "eventual":
        return Asked(asked, False, False)
    for number, offset in enumerate(session.offsets(ref)):
        if offset > asked.get(Partition(number), NOTHING):
            asked[Partition(number)] = offset
    return Asked(asked, level == "strong", True, lag_max_ms)
