"""A snapshot of a partition, and a new replica from it, against `cp` with fsync and against a replay of the log."""

from __future__ import annotations

import asyncio
import importlib
import os
import random
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any, Final

from bench.callers import run_async
from bench.drivers.duramen import SERVER_NEEDS
from bench.workload import Bar, Measurement, RunSettings, Side, Workload

__all__ = ["SNAPSHOT_RESTORE"]


def _version() -> str:
    return f"duramen {importlib.import_module('duramen').__version__}"


def _timed(work: Callable[[], Any]) -> tuple[float, Any]:
    began = perf_counter()
    result = work()
    return perf_counter() - began, result


async def _restored(settings: RunSettings, records: int) -> Measurement:
    """A log of records with 100-byte values, folded; a snapshot of it; and a new replica from that and from the log.

    The keys come in random order, as those of most tables do: sorted ones are replayed some ten times as fast.
    """
    batches = importlib.import_module("log_tier.model.batch")
    log_module = importlib.import_module("log_tier.open")
    ids = importlib.import_module("log_tier.model.identifiers")
    nodes = importlib.import_module("serving_tier.node.node")
    snapshots = importlib.import_module("serving_tier.snapshots")
    records = records // 10 if settings.quick else records
    order = list(range(records))
    random.Random(1).shuffle(order)
    partition = ids.Partition(0)
    log = await log_module.open_log(f"file://{settings.folder}")
    try:
        topic = await log.create_topic("bench", partitions=1)
        for begin in range(0, records, 1000):
            keys = [b"key%014d" % number for number in order[begin : begin + 1000]]
            columns = batches.Columns(keys, [os.urandom(100) for _ in keys])
            await log.append(topic.partition(partition), batches.encode_batch(columns))
        first = await nodes.Node.open(log, settings.folder / "first")
        began = perf_counter()
        replica = await first.host(topic, topic.partition(partition))
        await replica.wait_ready()
        replayed = perf_counter() - began
        store = snapshots.SnapshotStore.open(settings.folder / "store")
        began = perf_counter()
        manifest = await snapshots.take_snapshot(
            replica.reading, store, table_name="bench", work_folder=settings.folder / "work"
        )
        taken = perf_counter() - began
        second = await nodes.Node.open(log, settings.folder / "second")
        began = perf_counter()
        await snapshots.install_snapshot(
            store,
            manifest.path,
            second.replica_folder(topic.partition(partition)),
            partition=topic.partition(partition),
        )
        installed = perf_counter() - began
        fresh = await second.host(topic, topic.partition(partition))
        await fresh.wait_ready()
        ready = perf_counter() - began
        if fresh.index.count() != records:
            raise AssertionError(f"{fresh.index.count()} of {records} keys")
        await second.close()
        await first.close()
        copied = await asyncio.to_thread(_copy, settings.folder / "store" / manifest.path / "data.mdb")
    finally:
        await log.close()
    return Measurement(
        {
            "take_seconds": taken,
            "install_seconds": installed,
            "ready_seconds": ready,
            "replay_seconds": replayed,
            "take_speed": copied / taken,
            "install_speed": copied / installed,
        },
        _version(),
        f"{records:,} × 100 B, {manifest.bytes / 2**20:.0f} MiB; cp and fsync of the same file took {copied:.2f} s",
    )


def _copy(file: Path) -> float:
    """`cp` and fsync; the best of three, since the floor is what the machine can do."""

    def once() -> None:
        target = file.with_suffix(".copy")
        with open(file, "rb") as source, open(target, "wb") as sink:
            while os.sendfile(sink.fileno(), source.fileno(), None, 1 << 24):
                pass
            os.fsync(sink.fileno())
        target.unlink()

    return min(_timed(once)[0] for _ in range(3))


RESTORE: Final = Workload(
    "snapshot_restore",
    "a snapshot and a restore of a partition, against cp and fsync, and against replay",
    (Side("duramen", "subject", lambda settings: run_async(_restored(settings, 1_000_000)), SERVER_NEEDS),),
    (
        Bar("take_speed", "at least", 0.5),
        Bar("install_speed", "at least", 0.5),
        Bar("ready_seconds", "at most", 10),
    ),
    runs_max=3,
)


RESTORE_LARGE: Final = Workload(
    "snapshot_restore_10m",
    "the same with ten million records",
    (Side("duramen", "subject", lambda settings: run_async(_restored(settings, 10_000_000)), SERVER_NEEDS),),
    runs_max=1,
)

SNAPSHOT_RESTORE: Final = (RESTORE, RESTORE_LARGE)
