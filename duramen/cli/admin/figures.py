"""Figures for people."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

__all__ = ["duration", "local_time", "offset", "place", "size"]


class PartitionAnswer(Protocol):
    """An answer about one partition."""

    @property
    def table(self) -> str:
        """The table's name."""
        ...

    @property
    def partition(self) -> int:
        """The partition's number."""
        ...


def size(count: int) -> str:
    """Bytes: `640 B`, `1.5 MiB`."""
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def duration(seconds: float) -> str:
    """`0.4 s`, `3 min 20 s`, `2 h 5 min`, `3 d 4 h`."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    whole = int(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    if whole < 86_400:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 86_400} d {whole % 86_400 // 3600} h"


def local_time(time_ms: int) -> str:
    """A time in this machine's time zone."""
    return datetime.fromtimestamp(time_ms / 1000).strftime("%Y-%m-%d %H:%M:%S")


def offset(number: int | None) -> str:
    """An offset with thousands separators; `-` if there is none."""
    return "-" if number is None or number < 0 else f"{number:,}"


def place(each: PartitionAnswer) -> str:
    """`flights/3`."""
    return f"{each.table}/{each.partition}"
