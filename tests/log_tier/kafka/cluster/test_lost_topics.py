"""How many topics that are gone a process remembers."""

from __future__ import annotations

from log_tier.kafka.cluster.lost_topics import LostTopics
from log_tier.model.errors import LogDamaged, TableNotFound
from log_tier.model.identifiers import table_id_from_bytes

IDS = [table_id_from_bytes(number.to_bytes(16, "big")) for number in range(100)]


def test_the_newest_topics_that_are_gone_are_remembered() -> None:
    lost = LostTopics(10)
    for topic in IDS:
        assert lost.add(topic, TableNotFound(f"{topic} was deleted"))
    assert [topic for topic in IDS if topic in lost] == IDS[-10:]
    assert len(lost) == 10
    reason = lost.reason(IDS[-1])
    assert reason is not None
    assert reason.message == f"{IDS[-1]} was deleted"
    assert lost.reason(IDS[0]) is None


def test_the_first_reason_stays() -> None:
    lost = LostTopics(10)
    assert lost.add(IDS[0], TableNotFound("first"))
    assert not lost.add(IDS[0], TableNotFound("second"))
    assert str(lost.reason(IDS[0])) == "first"


def test_a_topic_that_still_exists_is_refused_for_ever() -> None:
    lost = LostTopics(10)
    lost.add(IDS[0], LogDamaged("its keys have moved"))
    for topic in IDS[1:]:
        lost.add(topic, TableNotFound("deleted"))
    assert IDS[0] in lost
    assert len(lost) == 11
