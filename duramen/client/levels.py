"""What a read must have seen: its level, its token and the session, as an offset per partition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

from duramen.client.session import Session
from log_tier.errors import InvalidRequest, InvalidToken
from log_tier.identifiers import NOTHING, Offset, Partition
from log_tier.log import Topic
from log_tier.tokens import Token

__all__ = ["SESSION", "Asked", "Level", "asked_of", "check_level"]

Level = Literal["session", "eventual", "strong"]

_LEVELS: Final = ("session", "eventual", "strong")

# Offsets are 64-bit numbers everywhere, and the next one must be one too.
_OFFSET_MAX: Final = (1 << 63) - 2


class Asked(NamedTuple):
    """What a read asks for."""

    offsets: Mapping[Partition, Offset] | None
    """None: what the session has seen when the request leaves."""
    strong: bool
    seen: bool
    """The session remembers what the read showed, so that no later one shows less."""

    def after(self, partition: Partition) -> Offset | None:
        """The offset that one partition must have applied."""
        return None if self.offsets is None else self.offsets.get(partition, NOTHING)


SESSION: Final = Asked(None, False, True)
"""The usual case."""


def check_level(level: str) -> None:
    """Raises `InvalidRequest` for a level that there is not."""
    if level not in _LEVELS:
        raise InvalidRequest(f"level is one of {', '.join(_LEVELS)}, not {level!r}")


def asked_of(session: Session, topic: Topic, token: Token | None, level: Level) -> Asked:
    """What a read with this token at this level asks of a table. Raises `InvalidToken`, also for another table's."""
    asked: dict[Partition, Offset] = {}
    if token is not None:
        asked.update(token.offsets(topic.id, table_name=topic.name))
        for partition, offset in asked.items():
            if partition >= topic.partitions or offset > _OFFSET_MAX:
                raise InvalidToken(
                    f"the token names offset {offset} of partition {partition}; {topic.name} has "
                    f"{topic.partitions} partitions, and offsets end at {_OFFSET_MAX}: it was not made here"
                )
    if level == "eventual":
        return Asked(asked, False, False)
    for number, offset in enumerate(session.offsets(topic)):
        if offset > asked.get(Partition(number), NOTHING):
            asked[Partition(number)] = offset
    return Asked(asked, level == "strong", True)
