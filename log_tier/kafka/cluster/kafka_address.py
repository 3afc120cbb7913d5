"""What a `kafka://` URL says: which brokers, whose topics, and how to connect to them.

    kafka://host1:9092,host2:9092/namespace?replication=3&min_insync=2&security.protocol=SASL_SSL&sasl.mechanism=PLAIN

- **namespace** (default `duramen`): the table `flights` is the topic `namespace.flights`. Two databases on one cluster
  have two namespaces.
- **replication**, **min_insync**: of the topics that Duramen makes. Default: 3 and 2, or what a smaller cluster allows.
- **config**: a file of `property = value` lines, for what should not appear in a URL.
- Every other name is librdkafka's own and passed on (TLS, SASL, `compression.type`, time-outs, …). The environment
  too: `DURAMEN_KAFKA_SASL_PASSWORD` is `sasl.password`. URL before environment before file.

Properties on which the log's promises rest (`acks`, idempotence, …) cannot be set.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from log_tier.model.errors import InvalidRequest
from log_tier.model.identifiers import check_name

__all__ = ["NAMESPACE_DEFAULT", "KafkaAddress", "check_kafka_name"]

NAMESPACE_DEFAULT: Final = "duramen"

_ENVIRONMENT: Final = "DURAMEN_KAFKA_"

_DIGITS_MAX: Final = 9

# What brokers accept as a topic's name; "." and ".." they do not.
_KAFKA_NAME: Final = re.compile(r"(?!\.{1,2}\Z)[A-Za-z0-9._-]{1,249}\Z")

# Reasons why a property is not the user's to choose.
_OURS: Final[Mapping[str, str]] = {
    "acks": "an acknowledged write is on all in-sync replicas",
    "request.required.acks": "an acknowledged write is on all in-sync replicas",
    "enable.idempotence": "librdkafka's own retries must not write twice",
    "max.in.flight": "order within a partition rests on it",
    "max.in.flight.requests.per.connection": "order within a partition rests on it",
    "linger.ms": "the sender decides when to send: a batch must not be cut",
    "queue.buffering.max.ms": "the sender decides when to send: a batch must not be cut",
    "batch.size": "a batch must not be cut",
    "batch.num.messages": "a batch must not be cut",
    "message.max.bytes": "a batch must not be cut; the topic's max.message.bytes is what limits it",
    "transactional.id": "correctness comes from offsets and sequences, not from Kafka's transactions",
    "group.id": "positions are in tokens and indexes, not in consumer groups",
    "enable.auto.commit": "positions are in tokens and indexes, not in consumer groups",
    "enable.auto.offset.store": "positions are in tokens and indexes, not in consumer groups",
    "auto.offset.reset": "an offset that is gone is an error, never another offset",
    "isolation.level": "what a transaction took back must not be read",
    "enable.partition.eof": "the reader has to see a partition's end",
    "check.crcs": "what was damaged on the way must not be served",
    "bootstrap.servers": "the URL names the brokers",
    "metadata.broker.list": "the URL names the brokers",
}

# librdkafka's defaults that do not suit a database.
_COMMON: Final[Mapping[str, str]] = {
    # A broker that comes back is found again within a second.
    "reconnect.backoff.ms": "50",
    "reconnect.backoff.max.ms": "1000",
    # A partition's new leader is found as soon as there is one.
    "retry.backoff.ms": "50",
    "retry.backoff.max.ms": "500",
    "topic.metadata.refresh.fast.interval.ms": "50",
    "socket.nagle.disable": "true",
    # With sparse connections (the default), a client that waits for a broker that is away, with a question or for its
    # producer id, connects to it again and again without a pause: two threads that spin until it is back.
    "enable.sparse.connections": "false",
    "client.id": "duramen",
    # Brokers close idle connections as a matter of routine: not worth a line.
    "log.connection.close": "false",
}


@dataclass(frozen=True, slots=True)
class KafkaAddress:
    """A cluster, a namespace, and the settings of a client of it."""

    bootstrap: str
    """host:port, comma-separated."""
    namespace: str = NAMESPACE_DEFAULT
    replication: int | None = None
    """Replication factor of new topics; None: 3, or as many as there are brokers."""
    min_insync: int | None = None
    """`min.insync.replicas` of new topics; None: 2 with a replication of 3 or more, else 1."""
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Properties of librdkafka that the user set."""

    @classmethod
    def parse(cls, url: str, *, environment: Mapping[str, str] | None = None) -> KafkaAddress:
        """Read a URL. Raises `InvalidRequest` naming the part that cannot be; never shows a secret."""
        try:
            parts = urlsplit(url)
        except ValueError:
            raise InvalidRequest("the kafka:// URL is none: a '[' or a special character is in its host") from None
        if parts.scheme != "kafka" or not parts.netloc:
            raise InvalidRequest(f"{parts.scheme}:// names no Kafka log: use kafka://host:port,host:port/namespace")
        # A raw "/" in a password puts its rest into the path.
        if "@" in parts.netloc + parts.path:
            raise InvalidRequest(
                "a kafka:// URL holds no user and password: set sasl.username there, and the password by the "
                f"environment ({_ENVIRONMENT}SASL_PASSWORD) or a file (config=…)"
            )
        namespace = check_name(parts.path.strip("/") or NAMESPACE_DEFAULT, what="namespace")
        asked = dict(parse_qsl(parts.query, keep_blank_values=True))
        replication, min_insync = _number(asked, "replication"), _number(asked, "min_insync")
        file = asked.pop("config", None)
        properties = _read_file(Path(file)) if file is not None else {}
        properties |= _of_environment(os.environ if environment is None else environment)
        properties |= asked
        for name in properties:
            if name in _OURS:
                raise InvalidRequest(f"the Kafka property {name} cannot be set here: {_OURS[name]}")
        return cls(
            ",".join(_with_port(host) for host in parts.netloc.split(",")),
            namespace,
            replication,
            min_insync,
            properties,
        )

    def __str__(self) -> str:
        return f"kafka://{self.bootstrap}/{self.namespace}"

    def client(self, ours: Mapping[str, object], *, defaults: Mapping[str, object] | None = None) -> dict[str, object]:
        """A client's whole configuration: defaults, then what the user set, then what is ours."""
        return {**_COMMON, **(defaults or {}), **self.properties, "bootstrap.servers": self.bootstrap, **ours}

    def topic_name(self, name: str) -> str:
        """The name in Kafka of a topic of ours."""
        return f"{self.namespace}.{name}"

    def own_name(self, topic: str) -> str | None:
        """Our name of a topic in Kafka; None if it is not one of ours."""
        prefix = f"{self.namespace}."
        return topic.removeprefix(prefix) if topic.startswith(prefix) else None


def check_kafka_name(name: str) -> str:
    """Return the name of a topic of others. Raises `InvalidRequest` for one that no topic in Kafka can have."""
    if not _KAFKA_NAME.match(name):
        raise InvalidRequest(
            f"no topic in Kafka is named {name[:60]!r}: a name has 1 to 249 letters, digits, '.', '_' and '-'"
        )
    return name


def _number(asked: dict[str, str], name: str) -> int | None:
    text = asked.pop(name, None)
    if text is None:
        return None
    if not text.isdecimal() or len(text) > _DIGITS_MAX or int(text) < 1:
        raise InvalidRequest(f"{name}={text} in the kafka:// URL is no number from 1 on")
    return int(text)


def _with_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    if not colon:
        return f"{host}:9092"
    if not name or not port.isdecimal():
        raise InvalidRequest(f"{host!r} in the kafka:// URL is no host:port")
    return host


def _read_file(path: Path) -> dict[str, str]:
    try:
        text = path.read_text()
    except OSError as error:
        raise InvalidRequest(f"the file of Kafka properties {path} cannot be read: {error}") from error
    except UnicodeDecodeError as error:
        raise InvalidRequest(
            f"the file of Kafka properties {path} is no text: {error.reason} at byte {error.start}"
        ) from None  # its bytes may be those of a secret
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, equals, value = line.partition("=")
        if not equals:
            raise InvalidRequest(f"line {number} of {path} is no `property = value`")
        found[name.strip()] = value.strip()
    return found


def _of_environment(environment: Mapping[str, str]) -> dict[str, str]:
    return {
        name.removeprefix(_ENVIRONMENT).lower().replace("_", "."): value
        for name, value in environment.items()
        if name.startswith(_ENVIRONMENT)
    }
