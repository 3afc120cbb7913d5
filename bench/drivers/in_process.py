"""The whole database in this process over any log: `duramen.aio.open` is the same over the embedded one."""

from __future__ import annotations

from pathlib import Path

from duramen.client.database import Database
from duramen.server.wiring.single_machine import open_local_data
from router.data.direct_reads import DirectReads

__all__ = ["in_process"]


async def in_process(folder: Path, log_url: str | None) -> Database:
    """A database whose indexes lie in `folder`, and whose log is at `log_url`; None: in the folder too."""
    data_plane = await open_local_data(folder, log_url=log_url)
    return Database(
        data_plane, direct=lambda name, session: DirectReads(data_plane, name, session.offsets, session.saw)
    )
