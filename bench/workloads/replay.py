"""Replay: 1 M records of a log into a fresh index, against bare `putmulti` of the same pairs.

Neither side syncs: the log is the truth, an index is synced at checkpoints only. Duramen's side reads a log that was
written before the clock starts and folds it, versions and applied offset included; the floor has the pairs in memory.
"""

from __future__ import annotations

from importlib.metadata import version
from time import perf_counter
from typing import Final

from bench.callers import run_async
from bench.data import chunks, make_pairs
from bench.workload import Bar, Measurement, Needs, RunSettings, Side, Workload
from log_tier.model.batch import Columns, encode_batch
from log_tier.open import open_log
from serving_tier.node.node import Node

__all__ = ["RECORDS", "RECORDS_PER_TRANSACTION", "REPLAY"]

RECORDS: Final = 1_000_000
RECORDS_PER_TRANSACTION: Final = 10_000
RECORDS_PER_BATCH: Final = 1_000
"""Of the log that is replayed: what a loader or a busy coalescing client makes."""

_QUICK_DIVISOR: Final = 10


async def _replay(settings: RunSettings) -> Measurement:
    records = RECORDS // _QUICK_DIVISOR if settings.quick else RECORDS
    log = await open_log(f"file://{settings.folder}")
    try:
        topic = await log.create_topic("replay", partitions=1)
        for pairs in chunks(make_pairs(records), RECORDS_PER_BATCH):
            batch = encode_batch(Columns([key for key, _ in pairs], [value for _, value in pairs]))
            await log.append(topic.partition(0), batch)
        node = await Node.open(log, settings.folder / "index")
        try:
            started = perf_counter()
            await node.host(topic, topic.partition(0))
            await node.wait_ready()
            seconds = perf_counter() - started
            replica = node.replica(topic.partition(0))
            if replica.failure is not None or replica.index.count() != records:
                raise AssertionError(f"{replica.index.count()} of {records} keys are there: {replica.failure}")
        finally:
            await node.close()
    finally:
        await log.close()
    return Measurement(
        {"records_per_second": records / seconds, "seconds": seconds},
        f"Duramen {version('duramen')}",
        f"from opening an empty index to ready; batches of {RECORDS_PER_BATCH:,}, the log in the page cache",
    )


def _floor(settings: RunSettings) -> Measurement:
    import lmdb

    from bench.drivers.lmdb import MAP_BYTES

    records = RECORDS // _QUICK_DIVISOR if settings.quick else RECORDS
    transactions = chunks(make_pairs(records), RECORDS_PER_TRANSACTION)
    environment = lmdb.open(str(settings.folder / "lmdb"), map_size=MAP_BYTES, sync=False, metasync=False)
    started = perf_counter()
    for pairs in transactions:
        with environment.begin(write=True) as transaction:
            transaction.cursor().putmulti(pairs)
    seconds = perf_counter() - started
    environment.close()
    return Measurement(
        {"records_per_second": records / seconds, "seconds": seconds},
        f"py-lmdb {lmdb.__version__}",
        f"{RECORDS_PER_TRANSACTION:,} records a transaction, no sync",
    )


REPLAY: Final = Workload(
    "replay",
    f"replay of {RECORDS:,} records into a fresh index",
    (
        Side("duramen", "subject", lambda settings: run_async(_replay(settings))),
        Side("putmulti", "floor", _floor, Needs(("lmdb",))),
    ),
    (Bar("records_per_second", "at least", 0.6, "putmulti"),),
)
