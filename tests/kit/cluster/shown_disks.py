"""Disks that nodes of this process are shown in the place of their own."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

import pytest

__all__ = ["show_disks"]

DISK = 1000 << 20


class _Usage(NamedTuple):
    """As `shutil.disk_usage` has it."""

    total: int
    used: int
    free: int


def show_disks(monkeypatch: pytest.MonkeyPatch, full: Collection[str]) -> None:
    """Each node that is in `full` when it looks has 50 of its disk's 1,000 MiB free, the others 800."""

    def usage(folder: Path) -> _Usage:
        free = DISK // 20 if set(full).intersection(Path(folder).parts) else DISK * 4 // 5
        return _Usage(DISK, DISK - free, free)

    monkeypatch.setattr("shutil.disk_usage", usage)
