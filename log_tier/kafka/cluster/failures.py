"""librdkafka's errors in our words. Nothing else in Duramen knows its codes."""

from __future__ import annotations

from typing import Final

from confluent_kafka import KafkaError, KafkaException

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

__all__ = [
    "append_failure",
    "failure",
    "is_damage",
    "is_denial",
    "is_login_denial",
    "is_missing_topic",
    "is_passing",
]

_NOT_THERE: Final = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.UNKNOWN_TOPIC_ID,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
    }
)
_NO_BROKER: Final = frozenset(
    {
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._RESOLVE,
        KafkaError._TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
        KafkaError._MSG_TIMED_OUT,
        KafkaError._WAIT_COORD,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError._NOENT,  # no partition that was asked for has a leader
    }
)
# No connection came about: the login, or one end's certificate, was refused.
_LOGIN_DENIED: Final = frozenset(
    {
        KafkaError._AUTHENTICATION,
        KafkaError._SSL,
        KafkaError.SASL_AUTHENTICATION_FAILED,
    }
)
_DENIED: Final = _LOGIN_DENIED | {
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
}
_REFUSED: Final = frozenset(
    {
        KafkaError.INVALID_REPLICATION_FACTOR,
        KafkaError.INVALID_PARTITIONS,
        KafkaError.INVALID_CONFIG,
        KafkaError.INVALID_REQUEST,
        KafkaError.POLICY_VIOLATION,
        KafkaError.TOPIC_DELETION_DISABLED,
        KafkaError.UNSUPPORTED_VERSION,
        KafkaError._INVALID_ARG,
        KafkaError._UNSUPPORTED_FEATURE,
    }
)
_TOO_LARGE: Final = frozenset(
    {KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE, KafkaError.INVALID_MSG_SIZE}
)

# Between two leaders, or before the first one.
_PASSING: Final = _NO_BROKER | {
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.REPLICA_NOT_AVAILABLE,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.KAFKA_STORAGE_ERROR,
    KafkaError.NOT_CONTROLLER,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
}

# Errors of an append that say that nothing was written. librdkafka reports the answer to its last try; an earlier one
# may have been written and its reply lost. So what can follow such a try is not here: too few replicas in sync, and
# what was taken out of its queue.
_UNWRITTEN: Final = (
    _NOT_THERE
    | _DENIED
    | _TOO_LARGE
    | {
        KafkaError._QUEUE_FULL,
        KafkaError.INVALID_RECORD,
        KafkaError.POLICY_VIOLATION,
    }
)


def failure(error: KafkaError | KafkaException, doing: str, *, needs: str = "") -> DuramenError:
    """The typed error for `error`; `doing` names the request in its message, `needs` the ACL without which Kafka
    refuses it (`Write on topic duramen.flights`).
    """
    if isinstance(error, KafkaException):
        error = error.args[0]
    code, text = error.code(), f"Kafka, {doing}: {error.str()} ({error.name()})"
    if code in _NOT_THERE:
        return TableNotFound(f"{text}: the topic was deleted, or these credentials may not see it")
    if code == KafkaError.TOPIC_ALREADY_EXISTS:
        return TableExists(f"{text}")
    if code in _LOGIN_DENIED:
        return AccessDenied(f"{text}: see the TLS and SASL settings of the kafka:// URL")
    if code in _DENIED:
        lacks = f"allow it {needs}" if needs else "see the cluster's ACLs"
        return AccessDenied(f"{text}: the principal of these credentials lacks an ACL: {lacks}")
    if code in _TOO_LARGE:
        return LimitExceeded(f"{text}: raise max.message.bytes of the topic, or write less at once")
    if code in _REFUSED:
        return InvalidRequest(text)
    if code == KafkaError._QUEUE_FULL:
        return Overloaded(f"{text}: wait and try again")
    if code in _NO_BROKER:
        return Disconnected(f"{text}: are the brokers up, and is the address right?")
    if code == KafkaError.NOT_ENOUGH_REPLICAS:
        return Unavailable(f"{text}: fewer replicas are in sync than min.insync.replicas asks; nothing was written")
    return Unavailable(f"{text}: try again")


def append_failure(error: KafkaError, topic: str, partition: int) -> DuramenError:
    """What the failure of an append means: a clear refusal where nothing was written, else `WriteUnknown`."""
    doing = f"writing to {topic}/{partition}"
    if error.code() in _UNWRITTEN:
        return failure(error, doing, needs=f"Write on topic {topic}")
    return WriteUnknown(
        f"Kafka, {doing}: {error.str()} ({error.name()}): the write is in the log once or not at all; "
        "read the key to know"
    )


def is_missing_topic(error: KafkaError) -> bool:
    """The topic, or the partition, is not there."""
    return error.code() in _NOT_THERE


def is_login_denial(error: KafkaError) -> bool:
    """The cluster does not take our credentials, or does not prove to be the one that we trust."""
    return error.code() in _LOGIN_DENIED


def is_denial(error: KafkaError) -> bool:
    """The cluster does not let us in, or is not the one that we trust."""
    return error.code() in _DENIED


def is_damage(error: KafkaError) -> bool:
    """Records that were there are not, or are not what they were."""
    if error.code() in (KafkaError._LOG_TRUNCATION, KafkaError._BAD_MSG, KafkaError.INVALID_MSG):
        return True
    # librdkafka found a truncation and reports the lost position; the reason is in the text alone.
    return error.code() == KafkaError._AUTO_OFFSET_RESET and "truncation" in error.str()


def is_passing(error: KafkaError) -> bool:
    """A retry may help soon. A topic that is missing may be one that this broker has not heard of yet."""
    return error.code() in _PASSING
