"""`TABLE/PARTITION`, as people type it."""

from __future__ import annotations

from log_tier.model.errors import InvalidRequest
from log_tier.model.identifiers import Partition

__all__ = ["parse_partition", "parse_place"]


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
