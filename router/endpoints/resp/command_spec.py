"""What a command is: its name, how many words it has, where its keys are, and what runs it. Pure.

Each module of `commands/` declares its own; `commands/command_table.py` collects them. Kinds:

    read     a `DataCommand` that changes nothing
    blind    a `DataCommand` that need not read before it writes; `blind` makes its records where that holds for its
             options
    change   a `DataCommand` that reads and writes
    sync     about the connection: a function that returns its reply
    async    everything else: a coroutine

The flag `no_multi` lets a command run between MULTI and EXEC, `alone` refuses it there; the others wait for EXEC.

Arity, key positions and flags are those of Redis 7, which COMMAND reports to clients: some route by them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from router.endpoints.resp.data.key_views import DraftRecord
from router.endpoints.resp.wire.arguments import shown, text_of
from router.endpoints.resp.wire.error_replies import wrong_arity
from router.endpoints.resp.wire.replies import Problem

__all__ = [
    "DATA_KINDS",
    "Blind",
    "CommandSpec",
    "async_command",
    "blind_command",
    "change_command",
    "read_command",
    "sync_command",
]

Blind = Callable[[Sequence[bytes], int], "list[DraftRecord] | None"]
"""Arguments and the time in ms → the records of a write that does not read; None where its options make it read.
Raises `Problem`."""

_READ_ALONE: Final = frozenset({"scan", "keys", "randomkey", "duramen.token", "duramen.await"})
"""Of the commands with a task of their own."""

_CHANGES: Final = frozenset({"change", "blind"})
_CHANGE_ALONE: Final = frozenset({"exec", "flushdb", "duramen.write"})

DATA_KINDS: Final = frozenset({"read", "change", "blind"})
"""Of the commands that are functions of a view."""


@dataclass(frozen=True, slots=True)
class CommandSpec:
    """One command. Positions count the command's name as 0."""

    name: str
    arity: int
    """How many words it has, its name included; negative: at least so many."""
    flags: frozenset[str]
    kind: Literal["read", "change", "blind", "sync", "async"]
    run: Callable[..., Any]
    first: int = 0
    """The first key; 0: no keys."""
    last: int = 0
    """The last one; negative: from the end."""
    step: int = 0
    blind: Blind | None = None
    divisible: bool = False
    """Over several partitions, each does its part, and the replies are added."""
    cut: int = 0
    """So many keys at most are done at once, and the rest after them; 0: all of a partition's together."""
    summary: str = ""
    subcommands: Mapping[str, int] | None = None
    """The arity of each, where the next word is one of these."""
    async_words: frozenset[str] = frozenset()
    """The subcommands of a `sync` command that are coroutines all the same."""

    @property
    def only_reads(self) -> bool:
        """Does it change nothing, so that it may be ended, and begun again?"""
        return self.kind == "read" or self.name in _READ_ALONE

    @property
    def changes(self) -> bool:
        """Does it change what is stored, so that it may have happened where its reply is lost?"""
        return self.kind in _CHANGES or self.name in _CHANGE_ALONE

    def is_async(self, command: Sequence[bytes]) -> bool:
        """Does `run` return a coroutine for these words?"""
        return self.kind == "async" or (
            bool(self.async_words) and len(command) > 1 and text_of(command[1]).upper() in self.async_words
        )

    def refusal(self, command: Sequence[bytes]) -> Problem | None:
        """Why these words are no command, whatever they mean; None where they may be one."""
        if not self.fits(len(command)):
            return wrong_arity(self.name)
        if self.subcommands is not None and len(command) > 1:
            name = text_of(command[1]).upper()
            arity = self.subcommands.get(name)
            if arity is None:
                return Problem(f"ERR unknown subcommand '{shown(command[1])}'. Try {self.name.upper()} HELP.")
            if not _fits(arity, len(command)):
                return wrong_arity(f"{self.name}|{name.lower()}")
        return None

    def fits(self, words: int) -> bool:
        """Is this a number of words that it can have?"""
        return words == self.arity or words >= -self.arity > 0

    def keys(self, command: Sequence[bytes]) -> Sequence[bytes]:
        """The keys of a command."""
        if not self.first:
            return ()
        last = self.last if self.last >= 0 else len(command) + self.last
        return command[self.first : last + 1 : self.step]


def _fits(arity: int, words: int) -> bool:
    return words == arity if arity > 0 else words >= -arity


_READ: Final = frozenset({"readonly", "fast"})
_WRITE: Final = frozenset({"write", "denyoom", "fast"})
_SLOW_WRITE: Final = frozenset({"write", "denyoom"})
_CONNECTION: Final = frozenset({"fast", "loading", "stale"})


def read_command(name: str, arity: int, run: Callable[..., Any], summary: str, *, last: int = 1) -> CommandSpec:
    """A command that reads the keys from its first argument to `last`."""
    return CommandSpec(name, arity, _READ, "read", run, 1, last, 1, summary=summary)


def change_command(
    name: str, arity: int, run: Callable[..., Any], summary: str, *, last: int = 1, step: int = 1, slow: bool = False
) -> CommandSpec:
    """A command that reads and writes."""
    flags = _SLOW_WRITE if slow else _WRITE
    return CommandSpec(name, arity, flags, "change", run, 1, last, step, summary=summary)


def blind_command(
    name: str, arity: int, run: Callable[..., Any], blind: Blind, summary: str, *, last: int = 1, step: int = 1
) -> CommandSpec:
    """A command that writes without reading, by most of its options."""
    return CommandSpec(name, arity, _SLOW_WRITE, "blind", run, 1, last, step, blind, last != 1, summary=summary)


def sync_command(
    name: str,
    arity: int,
    run: Callable[..., Any],
    *flags: str,
    summary: str,
    words: Mapping[str, int] | None = None,
    async_words: frozenset[str] = frozenset(),
) -> CommandSpec:
    """A command about the connection that answers at once. `words`: the arity of each subcommand; `async_words`: see
    `CommandSpec`."""
    return CommandSpec(
        *(name, arity, _CONNECTION.union(flags), "sync", run),
        summary=summary,
        subcommands=words,
        async_words=async_words,
    )


def async_command(
    name: str,
    arity: int,
    run: Callable[..., Any],
    *flags: str,
    summary: str,
    words: Mapping[str, int] | None = None,
    keys: tuple[int, int, int] = (0, 0, 0),
) -> CommandSpec:
    """A coroutine. `keys`: first, last and step."""
    return CommandSpec(name, arity, frozenset(flags), "async", run, *keys, summary=summary, subcommands=words)
