"""Appending to the log: batches of 1000 records, each synced before the next, against the bare file.

One appender that waits for each batch: nothing can be gathered, so what is measured is what the log adds to a write
and a sync, two wake-ups of a thread among it. In addition, without a bar, eight appends under way: what group commit
makes of the same disk. A log takes finished batches (the client encodes them), so all sides get the same bytes.
"""

from __future__ import annotations

import asyncio
from importlib.metadata import version
from itertools import repeat
from time import perf_counter_ns
from typing import Final

from bench.callers import Timing, run_async
from bench.data import make_pairs
from bench.drivers import synced_file
from bench.workload import Bar, Measurement, RunSettings, Side, Workload
from log_tier.embedded import EmbeddedLog
from log_tier.model.batch import Columns, encode_batch

__all__ = ["BATCHES", "BATCH_RECORDS", "LOG_APPEND", "finished_batch", "measurement"]

BATCH_RECORDS: Final = 1000
BATCHES: Final = 2000
"""Fixed work, some 240 MB: the floor's file can be preallocated whole, and both sides write the same bytes."""


def finished_batch() -> bytes:
    """An encoded batch of `BATCH_RECORDS` plain puts."""
    pairs = make_pairs(BATCH_RECORDS)
    return encode_batch(Columns([key for key, _ in pairs], [value for _, value in pairs]))


def measurement(durations_ns: list[int], elapsed_ns: int, *, batch_bytes: int, version: str, note: str) -> Measurement:
    """What both sides report: records and MiB a second over the whole, and the latency of one append."""
    timing = Timing(seconds=elapsed_ns / 1e9, latencies_ns=durations_ns)
    metrics = timing.metrics()
    appends_per_second = metrics.pop("per_second")
    metrics["records_per_second"] = appends_per_second * BATCH_RECORDS
    metrics["mebibytes_per_second"] = appends_per_second * batch_bytes / (1 << 20)
    return Measurement(metrics, version, note)


async def _append(settings: RunSettings, under_way: int) -> Measurement:
    data = finished_batch()
    batches = BATCHES // 10 if settings.quick else BATCHES
    durations: list[int] = []
    left = iter(range(batches))
    log = await EmbeddedLog.open(settings.folder / "log")
    try:
        topic = await log.create_topic("append", partitions=1)

        async def caller() -> None:
            for _ in left:
                started = perf_counter_ns()
                await log.append(topic.partition(0), data)
                durations.append(perf_counter_ns() - started)

        started = perf_counter_ns()
        await asyncio.gather(*(caller() for _ in range(under_way)))
        elapsed = perf_counter_ns() - started
        syncs = log.statistics().syncs
    finally:
        await log.close()
    note = (
        f"checked, stamped, written, synced, acknowledged; {under_way} under way, {syncs} syncs for {batches} batches"
    )
    version_text = f"Duramen {version('duramen')}"
    return measurement(durations, elapsed, batch_bytes=len(data), version=version_text, note=note)


def _floor(settings: RunSettings) -> Measurement:
    data = finished_batch()
    batches = BATCHES // 10 if settings.quick else BATCHES
    durations = synced_file.timed_writes(settings.folder, repeat(data, batches), bytes_max=batches * len(data))
    return measurement(
        durations, sum(durations), batch_bytes=len(data), version="the file system", note=synced_file.NOTE
    )


LOG_APPEND: Final = Workload(
    "log_append",
    f"log append, {BATCHES} batches of {BATCH_RECORDS} × (16 + 100) bytes, each synced",
    (
        Side("duramen", "subject", lambda settings: run_async(_append(settings, 1))),
        Side("duramen-8-under-way", "subject", lambda settings: run_async(_append(settings, 8))),
        Side("write+fdatasync", "floor", _floor),
    ),
    (Bar("records_per_second", "at least", 0.7, "write+fdatasync"),),
)
