"""The Kafka engine compared with bare confluent-kafka, and the embedded log with a broker that syncs.

One broker, the clients and what they feed share this machine's cores: what the broker uses, the clients lack. Each run
has a broker of its own, on an empty folder. `bench.drivers.kafka` says what the broker is and what the bare sides do.
"""

from __future__ import annotations

from typing import Final

from bench.workload import Workload
from bench.workloads.kafka_append import KAFKA_APPEND
from bench.workloads.kafka_durable import KAFKA_DURABLE
from bench.workloads.kafka_put import KAFKA_PUT
from bench.workloads.kafka_replay import KAFKA_REPLAY

__all__ = ["KAFKA"]

KAFKA: Final[tuple[Workload, ...]] = (*KAFKA_APPEND, KAFKA_DURABLE, KAFKA_REPLAY, *KAFKA_PUT)
