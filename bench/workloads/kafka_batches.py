"""What the appending workloads write, and how both sides write it: prepared batches, through a log or bare."""

from __future__ import annotations

import asyncio
import gc
from dataclasses import dataclass
from importlib.metadata import version
from time import perf_counter, perf_counter_ns
from typing import Final

from bench.callers import Timing, run_async
from bench.data import chunks, make_pairs
from bench.drivers.kafka import BareProducer
from bench.workload import RunSettings
from log_tier.model.batch import Columns, encode_batch
from log_tier.model.identifiers import Partition, PartitionId, TableId
from log_tier.model.log import Log
from log_tier.open import open_log

__all__ = [
    "KAFKA_TOPIC",
    "PARTITIONS",
    "PREPARED_BATCHES",
    "RECORDS_PER_BATCH",
    "TOPIC",
    "Chunk",
    "Record",
    "forget",
    "make_topic",
    "our_version",
    "produce_all",
    "rate",
    "timed_appends",
    "work",
]

RECORDS_PER_BATCH: Final = 1000
PARTITIONS: Final = 8

PREPARED_BATCHES: Final = 512
"""Written once to warm up, and then over and over: some 60 MB, prepared in memory."""

_QUICK_DIVISOR: Final = 8

Record = tuple[bytes | None, bytes | None, bytes | None]
"""Key, value, header."""

TOPIC: Final = "append"
KAFKA_TOPIC: Final = f"duramen.{TOPIC}"


@dataclass(frozen=True, slots=True)
class Chunk:
    """A thousand puts of one caller."""

    caller: int
    partition: int
    columns: Columns
    sequence: int

    def batch(self) -> bytes:
        return encode_batch(self.columns, producer_id=self.caller + 1, sequence=self.sequence)

    def records(self) -> list[Record]:
        """What our engine makes of the batch: key, value, header."""
        from log_tier.kafka.records.encoding import cut_sets

        (whole,) = cut_sets(self.columns, producer_id=self.caller + 1, sequence=self.sequence, size_max=1 << 30)
        return list(whole.records())


def work(settings: RunSettings, callers: int) -> list[Chunk]:
    """The prepared chunks; caller after caller in turn, every caller as many."""
    count = PREPARED_BATCHES // (_QUICK_DIVISOR if settings.quick else 1)
    made = []
    for number, pairs in enumerate(chunks(make_pairs(count * RECORDS_PER_BATCH), RECORDS_PER_BATCH)):
        caller = number % callers
        columns = Columns([key for key, _ in pairs], [value for _, value in pairs])
        made.append(Chunk(caller, caller % PARTITIONS, columns, number // callers * RECORDS_PER_BATCH))
    return made


def forget() -> None:
    """Hide the prepared records from the garbage collector: its passes would be this program's pauses."""
    gc.collect()
    gc.freeze()


def rate(records: int, elapsed_s: float) -> dict[str, float]:
    return {"records_per_second": records / elapsed_s}


def our_version() -> str:
    return f"Duramen {version('duramen')}"


async def _append_all(log: Log, topic: TableId, prepared: list[tuple[Chunk, bytes]], callers: int) -> list[int]:
    """Every caller appends its batches, one after the other; the durations."""
    durations: list[int] = []

    async def caller(number: int) -> None:
        for chunk, batch in prepared[number::callers]:
            started = perf_counter_ns()
            await log.append(PartitionId(topic, Partition(chunk.partition)), batch)
            durations.append(perf_counter_ns() - started)

    await asyncio.gather(*map(caller, range(callers)))
    return durations


async def timed_appends(log: Log, settings: RunSettings, *, callers: int, batches: int) -> dict[str, float]:
    warmup = [(chunk, chunk.batch()) for chunk in work(settings, callers)]
    timed = warmup * (batches // PREPARED_BATCHES)
    topic = await log.create_topic(TOPIC, partitions=PARTITIONS)
    forget()
    await _append_all(log, topic.id, warmup, callers)
    started = perf_counter()
    durations = await _append_all(log, topic.id, timed, callers)
    elapsed = perf_counter() - started
    timing = Timing(seconds=elapsed, latencies_ns=durations)
    return {
        **rate(len(timed) * RECORDS_PER_BATCH, elapsed),
        "p50_us": timing.latency_us(0.5),
        "p99_us": timing.latency_us(0.99),
    }


def make_topic(bootstrap: str, partitions: int = PARTITIONS) -> None:
    """By our engine, so that its settings are those of the other side."""

    async def make() -> None:
        log = await open_log(f"kafka://{bootstrap}")
        await log.create_topic(TOPIC, partitions=partitions)
        await log.close()

    run_async(make())


def produce_all(
    bootstrap: str, settings: RunSettings, *, callers: int, batches: int, callbacks: bool
) -> dict[str, float]:
    """Everything handed over as fast as librdkafka takes it; the rate until the last acknowledgement."""
    warmup = [(chunk.partition, chunk.records()) for chunk in work(settings, callers)]
    bare = BareProducer(bootstrap, linger_ms=5)
    records, elapsed = 0, 0.0
    forget()
    for part in (warmup, warmup * (batches // PREPARED_BATCHES)):
        records = len(part) * RECORDS_PER_BATCH
        started = perf_counter()
        for partition, chunk in part:
            bare.send(KAFKA_TOPIC, partition, chunk, bare.count if callbacks else None)
        bare.deliver(counted=records if callbacks else None)
        elapsed = perf_counter() - started
    return rate(records, elapsed)
