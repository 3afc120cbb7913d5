"""The thread that looks at the topics in use, again and again, until it is closed."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

from confluent_kafka import KafkaException

from log_tier.kafka.cluster.client_log_filter import CLIENT_LOG_FILTER
from log_tier.model.errors import ShuttingDown

__all__ = ["LOOK_EVERY_S", "TopicWatcher"]

_logger = logging.getLogger(__name__)
_logger.addFilter(CLIENT_LOG_FILTER)

LOOK_EVERY_S: Final = 1.0
"""How often the topics in use are looked at."""

# And at most, after looks that ended by a bug: each of them is logged with its traceback.
_LOOK_EVERY_MAX_S: Final = 60.0


class TopicWatcher:
    """Calls `look` again and again. A look that fails does not end the watch: topics that go away must be noticed."""

    def __init__(self, look: Callable[[], None], *, every_s: float = LOOK_EVERY_S) -> None:
        """`look` raises `KafkaException` where the cluster does not answer, and `ShuttingDown` to end the thread."""
        self._look = look
        self._every_s = every_s
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="duramen-kafka-topics", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def close(self) -> None:
        """End the thread, and wait for its end: for the answer of the present look, if there is one. Idempotent."""
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        pause_s = self._every_s
        while not self._closing.wait(pause_s):
            try:
                self._look()
                pause_s = self._every_s
            except ShuttingDown:
                return
            except KafkaException as error:
                # The cluster does not answer; readers and writers find that out by themselves.
                _logger.info("the topics could not be looked at: %s", error)
            except Exception:
                _logger.exception("a look at the topics ended by a bug; the next one is later")
                pause_s = min(2 * pause_s, _LOOK_EVERY_MAX_S)
