"""Appending to Kafka through our engine, against bare confluent-kafka.

**What both sides of `kafka_append` do**: the same two million records (16-byte keys, 100-byte values, our header of 28
bytes, which the bare side has ready), acks=all with idempotence, to 8 partitions of one broker, timed from the first
record handed over to the last acknowledgement, after a warm-up of a quarter as many. Half a million of them are
distinct; a log does not look at keys or sequences.

- *duramen*: finished batches of 1000, 4 appends under way on each partition, as routers do. Each batch is checked,
  decoded, given its headers and handed over record by record; it returns with its offset, and lies whole in one record
  batch of Kafka's.
- *confluent-kafka*: one `produce` for each record, partition after partition, 1000 at a time, a delivery callback for
  each that looks at its error; librdkafka sends what it likes, 5 ms of linger (its default).
- *confluent-kafka, no callbacks*: the same without; whether each record arrived is not asked.

`kafka_append_1` is one record at a time: `append` against `produce` and `flush`.
"""

from __future__ import annotations

from itertools import cycle
from time import perf_counter, perf_counter_ns
from typing import Final

from bench.callers import WARMUP_SECONDS, Timing, drive, run_async
from bench.data import make_pairs
from bench.drivers.kafka import KAFKA_NEEDS, BareProducer, one_broker, versions
from bench.workload import Bar, Measurement, RunSettings, Side, Workload
from bench.workloads.kafka_batches import (
    KAFKA_TOPIC,
    PARTITIONS,
    PREPARED_BATCHES,
    RECORDS_PER_BATCH,
    TOPIC,
    make_topic,
    our_version,
    produce_all,
    timed_appends,
)
from log_tier.model.batch import Columns, encode_batch
from log_tier.open import open_log

__all__ = ["KAFKA_APPEND"]

UNDER_WAY: Final = 4
"""Appends of each partition: one on its way, and some that wait for the next round."""

BATCHES: Final = 4 * PREPARED_BATCHES


async def _append(settings: RunSettings) -> Measurement:
    callers = PARTITIONS * UNDER_WAY
    with one_broker(settings.folder) as bootstrap:
        log = await open_log(f"kafka://{bootstrap}")
        try:
            metrics = await timed_appends(log, settings, callers=callers, batches=BATCHES)
        finally:
            await log.close()
    return Measurement(
        metrics, our_version(), f"{callers} appends of {RECORDS_PER_BATCH} under way on {PARTITIONS} partitions"
    )


def _bare(settings: RunSettings, *, callbacks: bool) -> Measurement:
    with one_broker(settings.folder) as bootstrap:
        make_topic(bootstrap)
        metrics = produce_all(bootstrap, settings, callers=PARTITIONS * UNDER_WAY, batches=BATCHES, callbacks=callbacks)
    asked = "a delivery callback for each record" if callbacks else "no delivery callbacks"
    return Measurement(metrics, versions(), f"linger 5 ms, {asked}; key, value and header are those of the other side")


# --- one record at a time


async def _append_single(settings: RunSettings) -> Measurement:
    next_pair = cycle(make_pairs(100_000)).__next__
    sequence = 0
    with one_broker(settings.folder) as bootstrap:
        log = await open_log(f"kafka://{bootstrap}")
        try:
            topic = await log.create_topic(TOPIC, partitions=1)

            async def call() -> None:
                nonlocal sequence
                key, value = next_pair()
                batch = encode_batch(Columns([key], [value]), producer_id=1, sequence=sequence)
                sequence += 1
                await log.append(topic.partition(0), batch)

            timing = await drive(call, callers=1, seconds=settings.seconds)
        finally:
            await log.close()
    return Measurement(timing.metrics(), our_version(), "one caller, one record, encoding included")


def _bare_single(settings: RunSettings) -> Measurement:
    from log_tier.kafka.records.header import pack_header
    from log_tier.model.record import PLAIN_PUT

    next_pair = cycle(make_pairs(100_000)).__next__
    durations: list[int] = []
    with one_broker(settings.folder) as bootstrap:
        make_topic(bootstrap, partitions=1)
        bare = BareProducer(bootstrap, linger_ms=5)
        opened = perf_counter() + WARMUP_SECONDS
        sequence = 0
        while (now := perf_counter()) < opened + settings.seconds:
            (key, value), started = next_pair(), perf_counter_ns()
            header = pack_header(PLAIN_PUT, 0, 0, 1, sequence, plain_set=True)
            bare.send(KAFKA_TOPIC, 0, [(key, value, header)], bare.count)
            bare.deliver(counted=1)
            sequence += 1
            if now >= opened:
                durations.append(perf_counter_ns() - started)
    timing = Timing(seconds=settings.seconds, latencies_ns=durations)
    return Measurement(timing.metrics(), versions(), "one thread: produce, flush (which ends the linger)")


KAFKA_APPEND: Final = (
    Workload(
        "kafka_append",
        f"append to Kafka, {BATCHES} batches of {RECORDS_PER_BATCH} × (16 + 100) bytes, {PARTITIONS} partitions",
        (
            Side("duramen", "subject", lambda settings: run_async(_append(settings)), KAFKA_NEEDS),
            Side("confluent-kafka", "floor", lambda settings: _bare(settings, callbacks=True), KAFKA_NEEDS),
            Side("confluent-kafka, no callbacks", "floor", lambda s: _bare(s, callbacks=False), KAFKA_NEEDS),
        ),
        (Bar("records_per_second", "at least", 0.7, "confluent-kafka"),),
    ),
    Workload(
        "kafka_append_1",
        "append to Kafka, one record at a time, one caller",
        (
            Side("duramen", "subject", lambda settings: run_async(_append_single(settings)), KAFKA_NEEDS),
            Side("confluent-kafka", "floor", _bare_single, KAFKA_NEEDS),
        ),
    ),
)
