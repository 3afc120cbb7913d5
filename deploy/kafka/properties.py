"""The settings of one broker: the text of its server.properties."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from deploy.kafka.ports import HOST

__all__ = ["FLUSH_EVERY_MESSAGE", "Listeners", "server_properties"]

# Kafka acknowledges what is in the page cache of enough brokers. With this it syncs every batch first, as our own log
# does: what a benchmark must set to compare like with like.
FLUSH_EVERY_MESSAGE: Final[Mapping[str, str]] = {"log.flush.interval.messages": "1"}

_OF_ALL: Final[Mapping[str, str]] = {
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,SSL:SSL",
    # A topic that nobody made is a mistake to be seen, not one more topic.
    "auto.create.topics.enable": "false",
    "unclean.leader.election.enable": "false",
    # Fail-over in seconds. A broker that is silent for three seconds is fenced and its partitions get another leader; a
    # follower that has not caught up for as long leaves the in-sync set.
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "3000",
    "replica.socket.timeout.ms": "3000",
    "controller.socket.timeout.ms": "2000",
    "controller.quorum.fetch.timeout.ms": "2000",
    "controller.quorum.election.timeout.ms": "500",
    "group.initial.rebalance.delay.ms": "0",
    # Small: a machine's brokers share its two cores with the tests.
    "num.network.threads": "2",
    "num.io.threads": "4",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.num.partitions": "4",
    # Preallocated per segment and mapped twice: the default is 10 MiB, and tests make hundreds of partitions.
    "log.index.size.max.bytes": str(1 << 20),
    # The default is a third of the heap.
    "log.cleaner.dedupe.buffer.size": str(8 << 20),
}


@dataclass(frozen=True)
class Listeners:
    """Where one process listens on loopback."""

    broker: int  # the port of clients and of the other brokers
    controller: int  # the port of the quorum that keeps the metadata


def server_properties(number: int, cluster: Sequence[Listeners], data: Path, extra: Mapping[str, str]) -> str:
    """The settings of broker `number`, from 1, of a cluster. `extra` wins over everything else, but for
    its `listeners` (`SSL://127.0.0.1:9093`, say), which are added to ours.

    Of one broker every topic has one replica by default; of more, every topic has three, and two of them must have a
    record before it is acknowledged.
    """
    own = cluster[number - 1]
    replicas = min(3, len(cluster))
    in_sync = max(1, replicas - 1)
    settings = {
        **_OF_ALL,
        "node.id": str(number),
        "controller.quorum.voters": ",".join(
            f"{voter}@{HOST}:{each.controller}" for voter, each in enumerate(cluster, start=1)
        ),
        "log.dirs": str(data),
        "default.replication.factor": str(replicas),
        "min.insync.replicas": str(in_sync),
        "offsets.topic.replication.factor": str(replicas),
        "transaction.state.log.replication.factor": str(replicas),
        "transaction.state.log.min.isr": str(in_sync),
        "share.coordinator.state.topic.replication.factor": str(replicas),
        "share.coordinator.state.topic.min.isr": str(in_sync),
        **extra,
    }
    advertised = ",".join([f"PLAINTEXT://{HOST}:{own.broker}", *filter(None, [extra.get("listeners")])])
    settings["listeners"] = f"{advertised},CONTROLLER://{HOST}:{own.controller}"
    settings["advertised.listeners"] = advertised
    return "".join(f"{key}={value}\n" for key, value in settings.items())
