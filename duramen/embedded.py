"""Everything that one machine needs, wired in one place: log, node, front."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final
from urllib.parse import quote

from log_tier.errors import FolderReadOnly, ForeignFolder
from log_tier.log import Log
from log_tier.open import LOG_FOLDER, open_log
from router.front import Front
from serving_tier.node import Node

__all__ = ["open_front"]

_INDEX_FOLDER: Final = "index"


async def open_front(data: Path) -> Front:
    """Open the data folder (made where it is missing) and serve what is in it; `Front.close` ends it all.

    Returns as soon as the replicas follow the log: one that still catches up lets its readers wait. Raises
    `FolderInUse`, `ForeignFolder`, `FolderReadOnly`, `UnknownFormat`, `DiskFull`, `LogDamaged`.
    """
    try:
        log: Log = await open_log(await asyncio.to_thread(_checked_url, data))
        try:
            node = await Node.open(log, data / _INDEX_FOLDER)
        except BaseException:
            await log.close()
            raise
    except OSError as error:
        raise FolderReadOnly(
            f"the data folder {data} cannot be used: {error.strerror or error}; make it readable and writable for "
            "this user, or name another one"
        ) from error
    try:
        return await Front.open(log, node)
    except BaseException:
        try:
            await node.close()
        finally:
            await log.close()
        raise


def _checked_url(data: Path) -> str:
    """The log's URL. Refuses a folder that somebody else made, before anything is written into it."""
    url = f"file://{quote(str(data.absolute()))}"
    if not data.exists():
        return url
    if not data.is_dir():
        raise ForeignFolder(f"{data} is a file, the data folder must be a folder: name another one")
    strangers = sorted(entry.name for entry in data.iterdir() if entry.name not in (LOG_FOLDER, _INDEX_FOLDER))
    if strangers:
        raise ForeignFolder(
            f"{data} holds {', '.join(strangers[:3])}{' …' if len(strangers) > 3 else ''}, which Duramen did not make: "
            "name an empty folder, or one that Duramen made"
        )
    return url
