"""Opening a log by its URL."""

from __future__ import annotations

from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from log_tier.model.errors import InvalidRequest
from log_tier.model.log import Log
from log_tier.privacy.masked_url import mask_url
from log_tier.rpc.address import checked_address

__all__ = ["LOG_FOLDER", "open_log"]

LOG_FOLDER: Final = "log"
"""The log's folder inside a data folder; the indexes are in `index` next to it."""


async def open_log(url: str) -> Log:
    """Open the log that `url` names; close it when done.

        file:///data        an embedded log in the folder /data/log, owned by this process
        grpc://host:port    a log that a server owns
        kafka://host:port   topics of a Kafka cluster; `log_tier.kafka.cluster.kafka_address` defines the rest of such a
        URL

    Raises `InvalidRequest` for any other URL, and what opening that log raises.
    """
    try:
        parts = urlsplit(url)
    except ValueError:  # it would show the URL's host, and a password before it
        raise InvalidRequest(f"{mask_url(url)!r} is no URL: a '[' or a special character is in its host") from None
    if parts.scheme == "file" and parts.netloc in ("", "localhost") and parts.path.startswith("/"):
        from log_tier.embedded import EmbeddedLog

        return await EmbeddedLog.open(Path(unquote(parts.path)) / LOG_FOLDER)
    if parts.scheme == "grpc" and parts.netloc:
        from log_tier.remote.remote_log import RemoteLog

        return await RemoteLog.open(checked_address(parts.netloc))
    if parts.scheme == "kafka":
        try:
            from log_tier.kafka import KafkaLog
        except ImportError as error:
            raise InvalidRequest(
                f"a Kafka log needs the extra `kafka`: pip install 'duramen[kafka]' ({error})"
            ) from error

        return await KafkaLog.open(url)
    raise InvalidRequest(
        f"{mask_url(url)!r} names no log: use file:///an/absolute/folder, grpc://host:port or kafka://host:port"
    )
