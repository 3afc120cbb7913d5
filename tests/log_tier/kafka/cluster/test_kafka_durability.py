"""Which settings are weak, and what is said of them."""

from __future__ import annotations

import pytest

from log_tier.kafka.cluster.durability import weaknesses

STRONG = {
    "min.insync.replicas": "2",
    "unclean.leader.election.enable": "false",
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
}


def test_nothing_is_said_of_what_keeps_its_promise() -> None:
    assert weaknesses(STRONG, replication=3, adopted=False) == []


@pytest.mark.parametrize(
    ("changed", "replication", "words"),
    [
        ({}, 1, "replication 1"),
        ({}, 2, "replication 2"),
        ({"min.insync.replicas": "1"}, 3, "by its leader alone"),
        ({"min.insync.replicas": "3"}, 3, "no writes while any broker is down"),
        ({"unclean.leader.election.enable": "true"}, 3, "may become leader"),
        ({"cleanup.policy": "compact"}, 3, "last record of each key"),
        ({"cleanup.policy": "compact,delete"}, 3, "last record of each key"),
        ({"retention.ms": "604800000"}, 3, "removes old records"),
        ({"retention.bytes": "1000"}, 3, "retention.bytes 1000"),
    ],
)
def test_what_is_weak_is_said(changed: dict[str, str], replication: int, words: str) -> None:
    found = weaknesses(STRONG | changed, replication=replication, adopted=False)
    assert any(words in each for each in found), found


def test_kafkas_own_defaults_are_weak() -> None:
    found = weaknesses({}, replication=1, adopted=False)
    assert len(found) == 2
    assert "604800000" in found[1]


def test_no_advice_on_retention_for_an_adopted_topic() -> None:
    (mine,) = weaknesses(STRONG | {"retention.ms": "1"}, replication=3, adopted=False)
    (theirs,) = weaknesses(STRONG | {"retention.ms": "1"}, replication=3, adopted=True)
    assert mine.startswith(theirs)
    assert "trim" in mine.removeprefix(theirs)
