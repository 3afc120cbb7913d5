"""librdkafka's errors in our words: the class says whose fault it is, and whether anything can have been written."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException

from log_tier.kafka.cluster.failures import append_failure, failure, is_damage, is_missing_topic, is_passing
from log_tier.model.errors import (
    AccessDenied,
    Disconnected,
    DuramenError,
    InvalidRequest,
    LimitExceeded,
    Overloaded,
    TableExists,
    TableNotFound,
    Unavailable,
    WriteUnknown,
)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (KafkaError._TRANSPORT, Disconnected),
        (KafkaError._ALL_BROKERS_DOWN, Disconnected),
        (KafkaError._TIMED_OUT, Disconnected),
        (KafkaError._NOENT, Disconnected),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, TableNotFound),
        (KafkaError.TOPIC_ALREADY_EXISTS, TableExists),
        (KafkaError.SASL_AUTHENTICATION_FAILED, AccessDenied),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, AccessDenied),
        (KafkaError._SSL, AccessDenied),
        (KafkaError.MSG_SIZE_TOO_LARGE, LimitExceeded),
        (KafkaError.INVALID_REPLICATION_FACTOR, InvalidRequest),
        (KafkaError._QUEUE_FULL, Overloaded),
        (KafkaError.NOT_ENOUGH_REPLICAS, Unavailable),
        (KafkaError.NOT_LEADER_FOR_PARTITION, Unavailable),
        (KafkaError.UNKNOWN, Unavailable),
    ],
)
def test_each_becomes_one_of_ours(code: int, kind: type[DuramenError]) -> None:
    for error in (KafkaError(code), KafkaException(KafkaError(code))):
        found = failure(error, "doing a thing")
        assert type(found) is kind
        assert "doing a thing" in found.message


@pytest.mark.parametrize(
    ("code", "unknown"),
    [
        (KafkaError._MSG_TIMED_OUT, True),
        (KafkaError._TRANSPORT, True),
        (KafkaError.REQUEST_TIMED_OUT, True),
        (KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND, True),
        (KafkaError._PURGE_INFLIGHT, True),
        (KafkaError._FATAL, True),
        (KafkaError.UNKNOWN, True),
        (KafkaError._PURGE_QUEUE, True),  # it may have been sent before, and wait for its next try
        (KafkaError._QUEUE_FULL, False),
        (KafkaError.MSG_SIZE_TOO_LARGE, False),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, False),
        (KafkaError.NOT_ENOUGH_REPLICAS, True),  # that is the last try's answer
    ],
)
def test_an_append_that_may_have_been_written_is_unknown(code: int, unknown: bool) -> None:
    assert isinstance(append_failure(KafkaError(code), "orders", 3), WriteUnknown) == unknown


def test_what_kinds_of_trouble_there_are() -> None:
    assert is_missing_topic(KafkaError(KafkaError._UNKNOWN_PARTITION))
    assert not is_missing_topic(KafkaError(KafkaError._TRANSPORT))
    assert is_damage(KafkaError(KafkaError._LOG_TRUNCATION))
    assert not is_damage(KafkaError(KafkaError.OFFSET_OUT_OF_RANGE))
    assert is_damage(KafkaError(KafkaError._AUTO_OFFSET_RESET, "Partition log truncation detected at offset 23"))
    assert not is_damage(KafkaError(KafkaError._AUTO_OFFSET_RESET, "fetch failed"))
    assert is_passing(KafkaError(KafkaError.NOT_LEADER_FOR_PARTITION))
    assert not is_passing(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))
