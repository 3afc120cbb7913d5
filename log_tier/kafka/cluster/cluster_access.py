"""Whether the cluster lets us in: from what all clients of a log hear, and asked before a call waits in vain.

librdkafka tries to log in again and again. A write or a question that is handed to it meanwhile gets no answer and no
reason. So the reason is kept here, and calls are refused with it while no client has had an answer for some seconds. A
cluster of which only one broker refuses goes on to answer, and refuses nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from confluent_kafka import KafkaError

from log_tier.concurrency.clocks import SYSTEM_CLOCK
from log_tier.kafka.cluster.failures import failure, is_login_denial
from log_tier.model.errors import DuramenError

__all__ = ["ClusterAccess"]

# The topics in use are looked at once a second, so a cluster that lets us in has answered within this time.
_SILENCE_S: Final = 3.0


class ClusterAccess:
    """The newest refusal of a login that no answer has followed. Callable from any thread; one for each log."""

    def __init__(self, clock: Callable[[], float] = SYSTEM_CLOCK.monotonic_s) -> None:
        self._clock = clock
        self._denial: KafkaError | None = None
        self._answered_s = clock()

    def note(self, error: KafkaError) -> None:
        """A client reports an error of its connections."""
        if is_login_denial(error):
            self._denial = error

    def answered(self) -> None:
        """The cluster has answered a request."""
        self._answered_s = self._clock()
        self._denial = None

    def refusal(self, doing: str) -> DuramenError | None:
        """The error for a call that would wait in vain now; None: try it. O(1)."""
        denial = self._denial
        if denial is None or self._clock() - self._answered_s < _SILENCE_S:
            return None
        return failure(denial, doing)

    def check(self, doing: str) -> None:
        """Raise the error for a call that would wait in vain now."""
        refusal = self.refusal(doing)
        if refusal is not None:
            raise refusal
