"""The answer of `shutil.disk_usage`, for tests that show a server a disk of their own."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["DiskUsage"]


class DiskUsage(NamedTuple):
    """As `shutil.disk_usage` has it, in bytes."""

    total: int
    used: int
    free: int
