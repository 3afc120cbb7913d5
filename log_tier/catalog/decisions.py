"""The fold's decisions on the last commands, by command id: a command that comes twice takes effect once. Immutable."""

from __future__ import annotations

from typing import Final, NamedTuple

from log_tier.concurrency.persistent_map import PersistentMap
from log_tier.model.identifiers import Offset

__all__ = ["DECISIONS_MAX", "CommandDecision", "CommandRefused", "Decisions"]

# A sender asks within seconds what became of its command, and cannot have had many others overtake it by then.
DECISIONS_MAX: Final = 1000

# Decisions that are forgotten are removed this many at once: one removal goes through all.
_REMOVED_AT_ONCE: Final = 250


class CommandRefused(Exception):
    """The fold refuses a command. The exception never leaves the fold, which records it as a decision."""


class CommandDecision(NamedTuple):
    """The fold's decision on one command."""

    offset: Offset
    rejection: str
    """Empty where the command took effect."""


class Decisions:
    """The decisions on the last `DECISIONS_MAX` commands. A lookup and a change take some µs, whatever their number.

    Invariant: the commands are numbered in their order, and those up to `_count - DECISIONS_MAX` are not known.
    """

    __slots__ = ("_count", "_numbered")

    def __init__(self) -> None:
        self._numbered: PersistentMap[str, tuple[int, CommandDecision]] = PersistentMap()
        self._count = 0

    def get(self, command_id: str) -> CommandDecision | None:
        """The decision on a command; None where it is not known (any more)."""
        number, decision = self._numbered.get(command_id, (0, None))
        return decision if number > self._count - DECISIONS_MAX else None

    def with_decision(self, command_id: str, decision: CommandDecision) -> Decisions:
        """These decisions and one more. The caller has checked that `command_id` has none yet."""
        made = Decisions.__new__(Decisions)
        made._count = self._count + 1
        numbered = self._numbered.with_entry(command_id, (made._count, decision))
        if len(numbered) > DECISIONS_MAX + _REMOVED_AT_ONCE:
            first = made._count - DECISIONS_MAX
            numbered = PersistentMap((key, entry) for key, entry in numbered.items() if entry[0] > first)
        made._numbered = numbered
        return made

    def __len__(self) -> int:
        return min(self._count, DECISIONS_MAX)

    def _known(self) -> dict[str, CommandDecision]:
        first = self._count - DECISIONS_MAX
        return {key: decision for key, (number, decision) in self._numbered.items() if number > first}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Decisions) and self._known() == other._known()

    __hash__ = None  # type: ignore[assignment]
