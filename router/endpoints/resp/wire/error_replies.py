"""Errors of the database as error replies, in words that Redis clients know.

The first word of an error reply is its kind. Clients know a few of Redis' own and retry some of them; where one means
the same it is used, and everything else is `ERR` with the database's message. Two are this endpoint's own, as nothing
that Redis says means the same: `WRITEUNKNOWN`, the write is there once or not at all; `UNIQUEVIOLATION`, another row
has a value that one row alone may have.
"""

from __future__ import annotations

from typing import Final

from log_tier.model.errors import (
    DiskFull,
    DuramenError,
    LogStopped,
    NotHosted,
    Overloaded,
    PartitionMismatch,
    ReplicaBehind,
    ShuttingDown,
    Unavailable,
    UniqueViolation,
    WriteUnknown,
)
from log_tier.model.record import KEY_BYTES_MAX
from router.endpoints.resp.wire.replies import Problem

__all__ = ["BAD_KEY", "CROSS_SLOT", "no_permission", "problem_of", "wrong_arity"]

BAD_KEY: Final = Problem(f"ERR keys have 1 to {KEY_BYTES_MAX} bytes here")
CROSS_SLOT: Final = Problem("CROSSSLOT Keys in request don't hash to the same slot")

_KINDS: Final = (
    (WriteUnknown, "WRITEUNKNOWN"),
    (UniqueViolation, "UNIQUEVIOLATION"),
    (DiskFull, "MISCONF"),
    (LogStopped, "MISCONF"),
    (PartitionMismatch, "CROSSSLOT"),
    (ReplicaBehind, "TRYAGAIN"),
    (Overloaded, "TRYAGAIN"),
    (NotHosted, "CLUSTERDOWN"),
    (ShuttingDown, "LOADING"),
    (Unavailable, "TRYAGAIN"),
)


def problem_of(error: DuramenError) -> Problem:
    """The error reply for `error`."""
    kind = next((kind for known, kind in _KINDS if isinstance(error, known)), "ERR")
    return Problem(f"{kind} {error.message}")


def no_permission(user: str, command: str, missing: str) -> Problem:
    """A user may not do this. `missing`: the grant that would let it."""
    return Problem(f"NOPERM User {user} has no permissions to run the '{command}' command here: it lacks '{missing}'")


def wrong_arity(command: str) -> Problem:
    """Too few or too many arguments."""
    return Problem(f"ERR wrong number of arguments for '{command}' command")
