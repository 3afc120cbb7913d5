"""A place of a check's own on somebody's Kafka cluster: a check that starts nodes must not add them to a database."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit, urlunsplit

from log_tier.model.errors import InvalidRequest, TableNotFound
from log_tier.open import open_log

__all__ = ["scratch_log"]

_NAMESPACE_DEFAULT = "duramen"


@asynccontextmanager
async def scratch_log(url: str) -> AsyncIterator[str]:
    """The URL of a new namespace on the same cluster; its topics are deleted at the end.

    Raises `InvalidRequest` for a log that has no namespaces, and what opening a log raises.
    """
    parts = urlsplit(url)
    if parts.scheme != "kafka":
        raise InvalidRequest(
            f"a check that starts a cluster of its own makes a log for it: --log takes a kafka:// URL, not "
            f"{parts.scheme}://"
        )
    name = f"{parts.path.strip('/') or _NAMESPACE_DEFAULT}-check-{secrets.token_hex(4)}"
    own = urlunsplit(parts._replace(path=f"/{name}"))
    await (await open_log(own)).close()  # a cluster that cannot be reached fails here, and not in a child
    try:
        yield own
    finally:
        log = await open_log(own)
        try:
            for topic in await log.topics():
                with suppress(TableNotFound):
                    await log.delete_topic(topic.id)
        finally:
            await log.close()
