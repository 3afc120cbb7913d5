"""Requests to a Kafka cluster: metadata, descriptions, offsets, deletions. Each raises typed errors.

librdkafka's admin client answers with futures of its own; here they are awaited, with one time-out, and repeated where
a broker that was just lost or a leader that is being elected may answer shortly after.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any, Final, TypeVar

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec, TopicDescription

from log_tier.concurrency.backoff import Backoff
from log_tier.kafka.cluster.client_log_filter import CLIENT_LOG_FILTER
from log_tier.kafka.cluster.cluster_access import ClusterAccess
from log_tier.kafka.cluster.failures import failure, is_denial, is_missing_topic, is_passing
from log_tier.kafka.cluster.kafka_address import KafkaAddress
from log_tier.model.errors import InvalidRequest, ShuttingDown, Unavailable
from log_tier.model.identifiers import Offset, Partition

__all__ = ["ANSWER_S", "ClusterClient"]

_logger = logging.getLogger(__name__)
_logger.addFilter(CLIENT_LOG_FILTER)

_T = TypeVar("_T")

ANSWER_S: Final = 10.0
"""A request to a cluster that does not answer fails after this long; followers and writers have their own patience."""

# Time-out of the first try of `metadata`. After each try it looks whether the cluster refused our login; each try may
# take twice as long as the one before.
_LISTEN_S: Final = 1.0

# Time-out of one try of `offsets`: librdkafka asks a broker that was just lost until the others notice.
_REQUEST_S: Final = 3.0

_PAUSE_S: Final = 0.02
_PAUSE_MAX_S: Final = 0.5


class ClusterClient:
    """librdkafka's admin client. Callable from any event loop, and from threads where a method blocks."""

    def __init__(self, address: KafkaAddress, access: ClusterAccess) -> None:
        """`access` is kept current, by what is heard here."""
        self.access = access
        self._denial: KafkaError | None = None
        """Why the cluster refused our last login. Only `error_cb` reports it: the call itself just gets no answer."""
        try:
            self._client: Any = AdminClient(address.client({"error_cb": self._note}), logger=_logger)
        except KafkaException as error:
            raise InvalidRequest(f"these Kafka properties cannot be used: {error.args[0].str()}") from error
        self._bootstrap = address.bootstrap

    def close(self) -> None:
        """Let go of the connections. Idempotent."""
        self._client = None  # the last one to hold it: its connections end with it

    @property
    def admin(self) -> Any:
        """librdkafka's own client. Raises `ShuttingDown`."""
        if self._client is None:
            raise ShuttingDown("the log is closing")
        return self._client

    async def ask(self, answer: Future[_T], doing: str, *, needs: str = "") -> _T:
        """Wait for an answer. Raises the typed error for a Kafka error; `doing` names the request in its message, and
        `needs` the ACL that it takes.
        """
        try:
            found = await asyncio.wrap_future(answer)
        except KafkaException as error:
            raise self.access.refusal(doing) or failure(error, doing, needs=needs) from error
        self.access.answered()
        return found

    def metadata(self) -> Any:
        """The cluster's brokers and topics. Blocks for up to 10 s; raises `Disconnected` or `AccessDenied` then."""
        doing = f"asking {self._bootstrap} for its topics"
        self._denial = None
        deadline = time.monotonic() + ANSWER_S
        listen_s = _LISTEN_S
        while True:
            try:
                found = self.admin.list_topics(timeout=listen_s)
            except KafkaException as error:
                self.admin.poll(0)  # calls `_note`
                if self._denial is not None:
                    raise failure(self._denial, doing) from error
                left_s = deadline - time.monotonic()
                if not is_passing(error.args[0]) or left_s <= 0:
                    raise failure(error, doing) from error
            else:
                self.access.answered()
                return found
            listen_s = min(2 * listen_s, left_s)

    async def describe(self, names: Sequence[str]) -> list[TopicDescription | None]:
        """Descriptions, in order; None for a topic that is not there."""
        if not names:
            return []
        answers = self.admin.describe_topics(TopicCollection(list(names)), request_timeout=ANSWER_S)
        found: list[TopicDescription | None] = []
        for name in names:
            try:
                found.append(await asyncio.wrap_future(answers[name]))
            except KafkaException as error:
                if not is_missing_topic(error.args[0]):
                    doing, needs = f"describing the topic {name}", f"Describe on topic {name}"
                    raise self.access.refusal(doing) or failure(error, doing, needs=needs) from error
                found.append(None)
        return found

    async def offsets(
        self, name: str, partitions: Sequence[Partition], spec: Any, *, committed: bool = True
    ) -> list[int]:
        """One offset of each partition. Asks again while a leader is being found, as long as an answer may take."""
        asked = [TopicPartition(name, partition) for partition in partitions]
        doing = f"asking for the offsets of {name}"
        level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        deadline_s = asyncio.get_running_loop().time() + ANSWER_S
        backoff = Backoff(_PAUSE_S, _PAUSE_MAX_S, deadline_s=deadline_s)
        while True:
            self.access.check(doing)
            answers = self.admin.list_offsets(
                dict.fromkeys(asked, spec), isolation_level=level, request_timeout=_REQUEST_S
            )
            try:
                found = [(await asyncio.wrap_future(answers[partition])).offset for partition in asked]
            except KafkaException as error:
                if not is_passing(error.args[0]) or not await backoff.pause():
                    raise failure(error, doing, needs=f"Describe on topic {name}") from error
            else:
                # Between two leaders librdkafka may know no offset, and call that no error.
                if min(found) >= 0:
                    return found
                if not await backoff.pause():
                    raise Unavailable(f"Kafka, {doing}: no leader answered within {ANSWER_S:g} s: try again")

    async def offset_since(self, name: str, partition: Partition, time_ms: int) -> Offset | None:
        """The first record of that time (ms since 1970) or later; None where there is none."""
        place = TopicPartition(name, partition)
        spec = OffsetSpec.for_timestamp(time_ms)
        answers = self.admin.list_offsets({place: spec}, request_timeout=ANSWER_S)
        doing = f"asking for the offset of a time in {name}/{partition}"
        found = await self.ask(answers[place], doing, needs=f"Describe on topic {name}")
        return Offset(found.offset) if found.offset >= 0 else None

    async def delete_records(self, name: str, partition: Partition, before: Offset) -> Offset:
        """Remove the records below `before`; return the earliest that is left."""
        place = TopicPartition(name, partition, before)
        (answer,) = self.admin.delete_records([place]).values()
        doing = f"removing the records of {name}/{partition} below {before}"
        found = await self.ask(answer, doing, needs=f"Delete on topic {name}")
        if found.low_watermark < 0:
            raise Unavailable(f"Kafka did not say where {name}/{partition} begins now: try again")
        return Offset(found.low_watermark)

    def _note(self, error: KafkaError) -> None:
        _logger.info("%s", error.str())
        self.access.note(error)
        if is_denial(error):
            self._denial = error
