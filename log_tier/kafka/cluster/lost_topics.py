"""Why topics that were in use are refused: of those that are gone from the cluster, the newest."""

from __future__ import annotations

import threading
from typing import Final

from log_tier.model.errors import DuramenError, TableNotFound
from log_tier.model.identifiers import TableId

__all__ = ["GONE_MAX", "LostTopics"]

GONE_MAX: Final = 1024
"""A process that lives for years sees any number of topics deleted. What an entry is for passes within seconds: brokers
that still report the topic, and callers that hold its id. Later the cluster itself answers that no topic has the id."""


class LostTopics:
    """The reasons, by topic. Callable from any thread.

    A topic that still exists (its number of partitions was changed) is refused for as long as this process lives: there
    are as many of those as somebody changes by hand.
    """

    def __init__(self, gone_max: int = GONE_MAX) -> None:
        self._gone_max = gone_max
        self._gone: dict[TableId, DuramenError] = {}
        """Of topics that are gone from the cluster; the oldest first."""
        self._changed: dict[TableId, DuramenError] = {}
        self._lock = threading.Lock()

    def __contains__(self, topic: TableId) -> bool:
        return topic in self._gone or topic in self._changed

    def __len__(self) -> int:
        return len(self._gone) + len(self._changed)

    def add(self, topic: TableId, error: DuramenError) -> bool:
        """Note why a topic is refused from now on; False where a reason is known already. O(1)."""
        with self._lock:
            if topic in self:
                return False
            if not isinstance(error, TableNotFound):
                self._changed[topic] = error
                return True
            self._gone[topic] = error
            if len(self._gone) > self._gone_max:
                del self._gone[next(iter(self._gone))]
        return True

    def reason(self, topic: TableId) -> DuramenError | None:
        """Why a topic is refused; None: it is not."""
        return self._gone.get(topic) or self._changed.get(topic)
