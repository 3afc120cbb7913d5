"""A topic in use, and what repeated looks at it say about it: pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from log_tier.model.errors import DuramenError, LogDamaged, TableNotFound
from log_tier.model.identifiers import Partition, TableId
from log_tier.model.log import Topic

__all__ = ["MISSED_TIMES", "KnownTopic", "Looks", "Sight"]

MISSED_TIMES: Final = 3
"""A topic counts as gone when this many looks in a row do not find it. A broker that just started may not know a new
topic yet, and report none, or an earlier topic of the same name."""


@dataclass(frozen=True, slots=True)
class KnownTopic:
    """A topic in use, and its settings that the engine depends on."""

    topic: Topic
    kafka_name: str
    adopted: bool
    """Others write it, and own it."""
    compacted: bool
    """Kafka's cleaner drops records whose key was written again."""
    set_bytes_max: int
    """The bytes that fit in one record batch."""
    weaknesses: tuple[str, ...]

    def check(self, partition: Partition) -> None:
        """Raises `TableNotFound` for a partition that it does not have."""
        if not 0 <= partition < self.topic.partitions:
            raise TableNotFound(
                f"topic {self.topic.name} has partitions 0 to {self.topic.partitions - 1}, not {partition}"
            )


class Sight(NamedTuple):
    """The topic that a broker reported under a name."""

    id: TableId
    partitions: int


class Looks:
    """How often in a row each topic was looked for and not found."""

    def __init__(self) -> None:
        self._missed: dict[TableId, int] = {}

    def judge(self, known: KnownTopic, sight: Sight | None, *, missed_times: int = MISSED_TIMES) -> DuramenError | None:
        """Count one look; None for a name that is not there. Returns why the topic is refused from now on, if it is."""
        name, topic = known.kafka_name, known.topic
        if sight is None or sight.id != topic.id:
            times = self._missed[topic.id] = self._missed.get(topic.id, 0) + 1
            if times < missed_times:
                return None
            self.forget(topic.id)
            if sight is None:
                return TableNotFound(f"the topic {name} ({topic.id}) was deleted in Kafka")
            return TableNotFound(
                f"the topic {name} was deleted and made again in Kafka: it had the id {topic.id} and has {sight.id} "
                "now. What it holds is another log; drop the table, and create it again"
            )
        self.forget(topic.id)
        if sight.partitions == topic.partitions:
            return None
        return LogDamaged(
            f"the topic {name} has {sight.partitions} partitions now, and its table {topic.partitions}: its keys have "
            "moved. Write them to a topic with a fixed number of partitions, and lay a table over that"
        )

    def forget(self, topic: TableId) -> None:
        """Begin to count again."""
        self._missed.pop(topic, None)
