"""Durable appends: the embedded log against one broker that syncs every message.

8 callers with batches of 1000, each on a partition of its own, waiting for each acknowledgement before the next. The
embedded log acknowledges after fdatasync; the broker has `log.flush.interval.messages=1`, so it does too.

- *broker*: bare confluent-kafka with as many batches under way, 5 ms of linger.
- *broker, all at once*: everything handed over as fast as librdkafka takes it, which nobody who waits could do.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from time import perf_counter, perf_counter_ns
from typing import Any, Final

from bench.callers import Timing, run_async
from bench.drivers.kafka import KAFKA_NEEDS, BareProducer, one_broker, versions
from bench.workload import Bar, Measurement, RunSettings, Side, Workload
from bench.workloads.kafka_batches import (
    KAFKA_TOPIC,
    PARTITIONS,
    PREPARED_BATCHES,
    RECORDS_PER_BATCH,
    Record,
    forget,
    make_topic,
    our_version,
    produce_all,
    rate,
    timed_appends,
    work,
)
from deploy.kafka.properties import FLUSH_EVERY_MESSAGE
from log_tier.embedded import EmbeddedLog

__all__ = ["KAFKA_DURABLE"]

CALLERS: Final = PARTITIONS
BATCHES: Final = 8 * PREPARED_BATCHES

_POLL_S: Final = 0.01
"""A loop that waits for acknowledgements is woken by the first of them."""


async def _durable(settings: RunSettings) -> Measurement:
    log = await EmbeddedLog.open(settings.folder / "log")
    try:
        metrics = await timed_appends(log, settings, callers=CALLERS, batches=BATCHES)
    finally:
        await log.close()
    return Measurement(metrics, our_version(), f"{CALLERS} callers; fdatasync before each acknowledgement")


def _durable_broker(settings: RunSettings) -> Measurement:
    with one_broker(settings.folder, settings=FLUSH_EVERY_MESSAGE) as bootstrap:
        make_topic(bootstrap)
        metrics = _closed_loop(bootstrap, settings)
    note = f"{CALLERS} callers, bare confluent-kafka, linger 5 ms; log.flush.interval.messages=1"
    return Measurement(metrics, versions(), note)


def _closed_loop(bootstrap: str, settings: RunSettings) -> dict[str, float]:
    """Every caller has one batch under way, and goes on when the batch's last record is acknowledged.

    librdkafka's default linger of 5 ms; 0, 1 and 20 ms were tried, and rounds ended by `flush`: none was faster.
    """
    prepared = [chunk.records() for chunk in work(settings, CALLERS)]
    batches_of = [prepared[caller::CALLERS] for caller in range(CALLERS)]
    passes = BATCHES // PREPARED_BATCHES
    bare = BareProducer(bootstrap, linger_ms=5)
    forget()
    _closed_loop_once(bare, batches_of)
    durations: list[int] = []
    started = perf_counter()
    for _ in range(passes):
        durations += _closed_loop_once(bare, batches_of)
    elapsed = perf_counter() - started
    timing = Timing(seconds=elapsed, latencies_ns=durations)
    return {
        **rate(len(durations) * RECORDS_PER_BATCH, elapsed),
        "p50_us": timing.latency_us(0.5),
        "p99_us": timing.latency_us(0.99),
    }


def _closed_loop_once(bare: BareProducer, batches_of: list[list[list[Record]]]) -> list[int]:
    """Every caller's batches once; the durations."""
    durations: list[int] = []
    left = [iter(batches) for batches in batches_of]
    free = deque(range(len(batches_of)))

    def on_last(caller: int, began: int, error: Any, message: Any) -> None:
        bare.count(error, message)
        durations.append(perf_counter_ns() - began)
        free.append(caller)

    wanted = sum(map(len, batches_of))
    while len(durations) < wanted:
        while free:
            caller = free.popleft()
            records = next(left[caller], None)
            if records is not None:
                began = perf_counter_ns()
                bare.send(KAFKA_TOPIC, caller, records[:-1], bare.count)
                bare.send(KAFKA_TOPIC, caller, records[-1:], partial(on_last, caller, began))
        bare.producer.poll(_POLL_S)
    bare.deliver(counted=wanted * RECORDS_PER_BATCH)
    return durations


def _durable_flood(settings: RunSettings) -> Measurement:
    with one_broker(settings.folder, settings=FLUSH_EVERY_MESSAGE) as bootstrap:
        make_topic(bootstrap)
        metrics = produce_all(bootstrap, settings, callers=CALLERS, batches=BATCHES, callbacks=True)
    note = "everything handed over at once: some 100,000 records under way; log.flush.interval.messages=1"
    return Measurement(metrics, versions(), note)


KAFKA_DURABLE: Final = Workload(
    "kafka_durable",
    f"durable append, {CALLERS} callers with batches of {RECORDS_PER_BATCH}: embedded log, syncing broker",
    (
        Side("duramen", "subject", lambda settings: run_async(_durable(settings))),
        Side("broker", "peer", _durable_broker, KAFKA_NEEDS),
        Side("broker, all at once", "peer", _durable_flood, KAFKA_NEEDS),
    ),
    (Bar("records_per_second", "at least", 2, "broker"),),
)
