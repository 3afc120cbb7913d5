"""Exit codes: the one table from error classes to numbers. A class has its own row or that of the nearest above it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from log_tier.model.errors import (
    DuramenError,
    FolderInUse,
    InvalidRequest,
    PermissionDenied,
    Rejected,
    TableNotFound,
    Unauthenticated,
    Unavailable,
    WriteUnknown,
)

__all__ = [
    "ERROR",
    "EXIT_CODES",
    "INTERRUPTED",
    "IN_USE",
    "NOT_FOUND",
    "OK",
    "REFUSED",
    "REJECTED",
    "RETRY",
    "USAGE",
    "exit_code_of",
]

OK: Final = 0
ERROR: Final = 1
USAGE: Final = 2
NOT_FOUND: Final = 3
REJECTED: Final = 4
RETRY: Final = 5
REFUSED: Final = 6
IN_USE: Final = 7
INTERRUPTED: Final = 130
"""What shells give to a command that Ctrl-C ended: 128 + SIGINT."""

EXIT_CODES: Final[Mapping[type[DuramenError], int]] = {
    DuramenError: ERROR,
    InvalidRequest: USAGE,
    TableNotFound: NOT_FOUND,
    Rejected: REJECTED,
    Unavailable: RETRY,
    WriteUnknown: RETRY,
    Unauthenticated: REFUSED,
    PermissionDenied: REFUSED,
    FolderInUse: IN_USE,
}


def exit_code_of(error: DuramenError) -> int:
    """The exit code for an error."""
    if error.code == "port_in_use":
        return ERROR  # the command was right; its class lives in the server, which a client need not import
    for ancestor in type(error).__mro__:
        if ancestor in EXIT_CODES:
            return EXIT_CODES[ancestor]
    raise AssertionError(f"{type(error)} is outside the tree")
