"""How a verb of administration is declared: its fields on the command line, its message, its planner.

`router.admin.verbs` declares all of them with `@verb`. Nothing here imports a planner or a message: the command line
reads this at every start.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from log_tier.catalog.actions import Action

__all__ = ["Argument", "OfPartitionArgument", "Option", "PartitionArgument", "Verb", "declared", "verb"]

T = TypeVar("T", bound=type)


# --- how a person gives a field on the command line


@dataclass(frozen=True, slots=True)
class Argument:
    """A positional argument; a field with a default may be left out."""

    metavar: str
    help: str
    least: int | None = None


@dataclass(frozen=True, slots=True)
class Option:
    """A named option."""

    flag: str
    help: str
    metavar: str = ""
    least: int | None = None


@dataclass(frozen=True, slots=True)
class PartitionArgument:
    """A table and its partition in one word, TABLE/PARTITION. The next field holds the partition
    (`OfPartitionArgument`).
    """

    metavar: str
    help: str


class OfPartitionArgument:
    """Given with the field before it."""


@dataclass(frozen=True, slots=True)
class Verb:
    """The declaration of one administration verb."""

    change: type
    message: str
    """The member of `AdminStartRequest.change`; its fields have the same names."""
    planner: str
    """`module:function` below `router.admin.planners`."""
    command: str
    """Below `duramen admin`."""
    examples: tuple[str, ...] = ()
    """What follows `duramen admin` in them."""
    destroys: str = ""
    """What is lost. The command asks before it begins, unless it is given --yes."""
    destroys_if: tuple[Action, ...] = ()
    """Only a plan that has such a step destroys; empty: every plan."""
    reads_log: bool = False
    """The planner also gets `bounds`, of the logs of the tables it is about."""
    by_hand: bool = False
    """Its command says something else than its fields: `duramen.cli.admin` has it written out."""


_DECLARED: Final[dict[type, Verb]] = {}


def verb(message: str, *, planner: str, command: str = "", **more: Any) -> Callable[[T], T]:
    """Declare a class as a verb; see `Verb`. `command`: its message's name, unless it says another one."""

    def declare(change: T) -> T:
        _DECLARED[change] = Verb(change, message, planner, command or message.replace("_", "-"), **more)
        return change

    return declare


def declared() -> Mapping[type, Verb]:
    """What has been declared so far, by class, in that order."""
    return _DECLARED
