"""Opening a log by its URL."""

from __future__ import annotations

from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from log_tier.errors import InvalidRequest
from log_tier.log import Log

__all__ = ["LOG_FOLDER", "open_log"]

LOG_FOLDER: Final = "log"
"""The log's folder inside a data folder; the indexes lie beside it."""


async def open_log(url: str) -> Log:
    """Open the log that `url` names; close it when done.

        file:///data        an embedded log in the folder /data/log, owned by this process
        grpc://host:port    a log that a server owns

    Raises `InvalidRequest` for any other URL, and what opening that log raises.
    """
    parts = urlsplit(url)
    if parts.scheme == "file" and parts.netloc in ("", "localhost") and parts.path.startswith("/"):
        from log_tier.embedded import EmbeddedLog

        return await EmbeddedLog.open(Path(unquote(parts.path)) / LOG_FOLDER)
    if parts.scheme == "grpc" and parts.netloc:
        from log_tier.service.client import RemoteLog

        return await RemoteLog.open(parts.netloc)
    raise InvalidRequest(f"{url!r} names no log: use file:///an/absolute/folder or grpc://host:port")
