"""The commands: what each module of this package declares, by name."""

from __future__ import annotations

from typing import Final

from router.endpoints.resp.command_spec import DATA_KINDS, CommandSpec
from router.endpoints.resp.commands import (
    cluster,
    connection,
    counters,
    duramen,
    flushdb,
    keys,
    native,
    scans,
    server,
    slowlog,
    strings,
    subscriptions,
    transactions,
)
from router.endpoints.resp.commands.users import acl
from router.endpoints.resp.wire.arguments import shown
from router.endpoints.resp.wire.fallback_parser import RespCommand
from router.endpoints.resp.wire.replies import Problem

__all__ = ["BY_STEP", "BY_WORD", "COMMANDS", "find_command", "unknown_command"]

_MODULES: Final = (
    *(strings, keys, counters, connection, server, flushdb, scans, transactions, subscriptions, cluster),
    *(slowlog, duramen, native, acl),
)

COMMANDS: Final[dict[str, CommandSpec]] = {spec.name: spec for module in _MODULES for spec in module.SPECS}
"""Every command by its name in small letters."""

BY_WORD: Final = {word: spec for spec in COMMANDS.values() for word in (spec.name.encode(), spec.name.upper().encode())}
"""Every command by the words that clients send, in small or in capital letters."""

BY_STEP: Final = {spec.run: spec for spec in COMMANDS.values() if spec.kind in DATA_KINDS}
"""Commands on keys by what runs them: of two that do the same, one, and what they ask of a caller is the same."""


def find_command(word: bytes) -> CommandSpec | None:
    """The command of that name, in any letters."""
    return BY_WORD.get(word) or BY_WORD.get(word.upper())


def unknown_command(command: RespCommand) -> Problem:
    """As Redis refuses what it does not know."""
    args = ""
    for argument in command[1:]:
        if len(args) >= 128:
            break
        args += f"'{shown(argument, 128 - len(args))}' "
    return Problem(f"ERR unknown command '{shown(command[0], 128)}', with args beginning with: {args}")
