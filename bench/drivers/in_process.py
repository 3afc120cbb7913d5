"""The whole database in this process over any log: `duramen.aio.open` is the same over the embedded one."""

from __future__ import annotations

from pathlib import Path

from duramen.client.database import Database
from duramen.embedded import open_front
from router.direct import DirectReads

__all__ = ["in_process"]


async def in_process(folder: Path, log_url: str | None) -> Database:
    """A database whose indexes lie in `folder`, and whose log is at `log_url`; None: in the folder too."""
    front = await open_front(folder, log_url=log_url)
    return Database(front, direct=lambda name, seen: DirectReads(front, name, seen))
