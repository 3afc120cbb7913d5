"""A refused login is the reason of calls only while nobody has an answer."""

from __future__ import annotations

import pytest

pytest.importorskip("confluent_kafka")

from confluent_kafka import KafkaError

from log_tier.kafka.cluster.cluster_access import ClusterAccess
from log_tier.model.errors import AccessDenied

REFUSED = KafkaError(KafkaError._AUTHENTICATION, "invalid credentials")


def test_a_cluster_that_answers_nobody_refuses_calls_until_it_answers() -> None:
    now = 100.0
    access = ClusterAccess(lambda: now)
    access.note(REFUSED)
    assert access.refusal("writing") is None, "a broker may just have started"
    now = 103.0
    refusal = access.refusal("writing")
    assert isinstance(refusal, AccessDenied)
    assert "writing" in refusal.message
    assert "invalid credentials" in refusal.message
    with pytest.raises(AccessDenied):
        access.check("reading")
    access.answered()
    access.check("reading")
    now = 200.0
    access.check("reading")


def test_one_broker_that_refuses_while_another_one_answers() -> None:
    now = 0.0
    access = ClusterAccess(lambda: now)
    for _ in range(100):
        now += 1.0
        access.note(REFUSED)
        access.check("writing")
        access.answered()


@pytest.mark.parametrize("code", [KafkaError._TRANSPORT, KafkaError.TOPIC_AUTHORIZATION_FAILED])
def test_other_errors_are_no_refused_logins(code: int) -> None:
    now = 0.0
    access = ClusterAccess(lambda: now)
    access.note(KafkaError(code))
    now = 100.0
    access.check("writing")
