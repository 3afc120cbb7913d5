"""When a topic is refused: a name that means another log, and brokers that are behind."""

from __future__ import annotations

import pytest

from log_tier.kafka.cluster.known_topic import MISSED_TIMES, KnownTopic, Looks, Sight
from log_tier.model.errors import LogDamaged, TableNotFound
from log_tier.model.identifiers import Partition, table_id_from_bytes
from log_tier.model.log import Topic

THIS, OTHER = table_id_from_bytes(bytes(15) + b"\1"), table_id_from_bytes(bytes(15) + b"\2")
KNOWN = KnownTopic(Topic(THIS, "flights", 4), "duramen.flights", False, False, 1 << 20, ())
WELL = Sight(THIS, 4)


@pytest.mark.parametrize("sight", [None, Sight(OTHER, 4)])
def test_a_broker_that_is_behind_refuses_nothing(sight: Sight | None) -> None:
    looks = Looks()
    for _ in range(5):
        for _ in range(MISSED_TIMES - 1):
            assert looks.judge(KNOWN, sight) is None
        assert looks.judge(KNOWN, WELL) is None


@pytest.mark.parametrize(
    ("sight", "words"), [(None, "was deleted in Kafka"), (Sight(OTHER, 4), f"made again.*{THIS}.*{OTHER}")]
)
def test_what_is_not_found_some_times_in_a_row_is_gone(sight: Sight | None, words: str) -> None:
    looks = Looks()
    judged = [looks.judge(KNOWN, sight) for _ in range(MISSED_TIMES)]
    assert judged[:-1] == [None] * (MISSED_TIMES - 1)
    assert isinstance(judged[-1], TableNotFound)
    with pytest.raises(TableNotFound, match=words):
        raise judged[-1]


def test_the_last_of_some_looks_decides() -> None:
    looks = Looks()
    assert looks.judge(KNOWN, Sight(OTHER, 4)) is None
    assert isinstance(looks.judge(KNOWN, None, missed_times=1), TableNotFound)


def test_other_partitions_are_refused_at_once() -> None:
    error = Looks().judge(KNOWN, Sight(THIS, 8))
    assert isinstance(error, LogDamaged)
    assert "has 8 partitions now, and its table 4" in error.message


def test_a_topic_has_so_many_partitions() -> None:
    KNOWN.check(Partition(3))
    with pytest.raises(TableNotFound, match="partitions 0 to 3, not 4"):
        KNOWN.check(Partition(4))
