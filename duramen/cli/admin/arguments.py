"""What many commands of `duramen admin` take: `TABLE/PARTITION` as people type it, and the options of a change."""

from __future__ import annotations

import os
import re
from typing import Annotated, Final

import typer

from log_tier.model.errors import InvalidRequest
from log_tier.model.identifiers import Partition

__all__ = ["DryRun", "Table", "Wait", "WaitTimeout", "Yes", "absolute_url", "parse_partition", "parse_place"]

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")

Table = Annotated[str, typer.Argument(metavar="[TABLE]", help="The table's name; none: all tables.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be done, and what it would cost.")]
Wait = Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until it is done.")]
WaitTimeout = Annotated[
    float | None,
    typer.Option("--timeout", metavar="SECONDS", help="How long to wait; the job goes on after that.", min=0.1),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def parse_place(text: str) -> tuple[str, Partition | None]:
    """`flights` or `flights/3`. Raises `InvalidRequest`."""
    table, slash, number = text.partition("/")
    if not table or (slash and not (number.isascii() and number.isdigit())):
        raise InvalidRequest(f"{text!r} is no TABLE[/PARTITION], like flights or flights/3")
    return table, Partition(int(number)) if slash else None


def parse_partition(text: str) -> tuple[str, Partition]:
    """`flights/3`. Raises `InvalidRequest`."""
    table, partition = parse_place(text)
    if partition is None:
        raise InvalidRequest(f"{text!r} names no partition: give TABLE/PARTITION, like {text}/0")
    return table, partition


def absolute_url(url: str) -> str:
    """A folder that is given relative to this one by its absolute path: servers have working folders of their own."""
    return url if _SCHEME.match(url) else os.path.abspath(url)
