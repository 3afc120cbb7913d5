"""Options that many commands share, and the connection that they describe."""

from __future__ import annotations

import re
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Final

import typer

from duramen.client.model import consistency as levels
from log_tier.model.errors import InvalidRequest
from log_tier.rpc.address import checked_address

__all__ = [
    "AT_DEFAULT",
    "After",
    "At",
    "AtTime",
    "AtToken",
    "End",
    "IfAbsent",
    "IfPresent",
    "IfVersion",
    "Json",
    "KeyFields",
    "Level",
    "MaxLag",
    "Prefix",
    "ReadLevel",
    "Start",
    "Timeout",
    "TokenOnly",
    "Ttl",
    "asked_state",
    "check_at",
    "level_of",
    "named_state",
]

AT_DEFAULT: Final = "localhost:7070"

_DAY: Final = re.compile(r"\d{4}-\d{2}-\d{2}")

At = Annotated[
    str,
    typer.Option(
        "--at",
        envvar="DURAMEN_AT",
        metavar="HOST:PORT",
        help="The server; duramens://HOST:PORT calls it with TLS.",
        show_default=True,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object per line, errors included.")]
Timeout = Annotated[float, typer.Option("--timeout", metavar="SECONDS", help="How long the call may take.")]
After = Annotated[
    str | None,
    typer.Option("--after", metavar="TOKEN", help="See at least what this token has seen (`put --token` prints one)."),
]

AtToken = Annotated[
    str | None,
    typer.Option(
        "--at-token",
        metavar="TOKEN",
        help="As it was at this token (`duramen token` and `put --token` print one), where the table keeps a history.",
    ),
]
AtTime = Annotated[
    str | None,
    typer.Option(
        "--at-time", metavar="TIME", help="As it was at this time, as 2026-01-31T12:00:00Z; by default in local time."
    ),
]

Prefix = Annotated[str | None, typer.Option("--prefix", help="Keys that begin so.")]
Start = Annotated[str | None, typer.Option("--start", help="From this key on, itself included.")]
End = Annotated[str | None, typer.Option("--end", help="Up to this key, itself not included.")]
KeyFields = Annotated[
    list[str] | None,
    typer.Option(
        "--field",
        metavar="NAME=VALUE",
        help="Keys with this field: the first field of the key, and further ones in their order; the last one may "
        "be a range, NAME=START..END, the end not included. May be repeated.",
    ),
]


class ReadLevel(StrEnum):
    """How new a read must be; see `duramen.client.table.Table`."""

    SESSION = "session"
    EVENTUAL = "eventual"
    STRONG = "strong"
    BOUNDED = "bounded"


_PLAIN: Final[dict[ReadLevel, levels.Level]] = {
    ReadLevel.SESSION: "session",
    ReadLevel.EVENTUAL: "eventual",
    ReadLevel.STRONG: "strong",
}

Level = Annotated[
    ReadLevel | None,
    typer.Option(
        "--level",
        help="strong: everything that was acknowledged when the command began; session: what --after has seen; "
        "eventual: what is there, also while the log is away; bounded: what was acknowledged --max-lag seconds ago. "
        "By default session with --after, else strong.",
    ),
]
MaxLag = Annotated[
    float | None,
    typer.Option("--max-lag", metavar="SECONDS", help="With --level bounded: how old the answer may be at most."),
]
Ttl = Annotated[float | None, typer.Option("--ttl", metavar="SECONDS", help="The key expires after that time.")]
IfAbsent = Annotated[bool, typer.Option("--if-absent", help="Only if the key is not there.")]
IfPresent = Annotated[bool, typer.Option("--if-present", help="Only if the key is there.")]
IfVersion = Annotated[
    int | None,
    typer.Option("--if-version", metavar="N", help="Only if the key's version is N (`get --json` tells it)."),
]
TokenOnly = Annotated[bool, typer.Option("--token", help="Print the write's token and nothing else.")]


def level_of(level: ReadLevel | None, max_lag: float | None, after: str | None) -> levels.Level:
    """The consistency level that the options describe together. Raises `InvalidRequest` where they do not go together.

    A command is a session of its own, which has seen nothing: without a token only a strong read sees what the command
    before it has written.
    """
    if (level is ReadLevel.BOUNDED) != (max_lag is not None):
        raise InvalidRequest("--level bounded and --max-lag SECONDS go together: give both, or none")
    if max_lag is not None:
        return levels.bounded(max_lag)
    if level is None:
        return "strong" if after is None else "session"
    return _PLAIN[level]


def check_at(at: str, timeout: float) -> None:
    """Raises `InvalidRequest` for what is no address, and for no time."""
    checked_address(at)
    if timeout <= 0:
        raise InvalidRequest(f"--timeout takes a number of seconds above 0, not {timeout:g}")


def asked_state(token: str | None, time: str | None) -> str | datetime | None:
    """The state that the options name; None: the present. Raises `InvalidRequest`."""
    if token is not None and time is not None:
        raise InvalidRequest("--at-token and --at-time name two states: give one of them")
    return token if time is None else _time_of(time, "--at-time takes a time")


def named_state(text: str) -> str | datetime:
    """The state that an argument names, a token or a time. A time begins with its day, which no token does. Raises
    `InvalidRequest`.
    """
    return _time_of(text, "a state is a token, or a time") if _DAY.match(text) else text


def _time_of(text: str, what: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidRequest(f"{what} as 2026-01-31T12:00:00Z, not {text!r}: {error}") from None
    return found.astimezone() if found.tzinfo is None else found
