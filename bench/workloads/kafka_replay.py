"""Replay from Kafka: 1 M records of one partition into a fresh index, against bare consume + `putmulti`.

Both sides read the same million records (16-byte keys in random order, 100-byte values, in sets of 1000 as our engine
writes them) from a broker that has them in the page cache, into an empty LMDB that does not sync. The clock starts
before the consumer is made and ends when everything is committed.

- *duramen*: a replica opens an empty index and follows the log: messages → stored batches, checked and joined → fold
  with versions, producers and the applied offset.
- *duramen, others' records*: the same records without our header, as a plain Kafka producer writes them; the engine
  makes batches of them record by record.
- *consume+putmulti*: `consume` of up to 10,000 messages, key and value of each, `putmulti` of 10,000 pairs a
  transaction. It neither knows versions nor where it stopped.
"""

from __future__ import annotations

import gc
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from time import perf_counter
from typing import Any, Final

from bench.callers import run_async
from bench.data import chunks, make_pairs
from bench.drivers.kafka import KAFKA_NEEDS, BareProducer, bare_consumer, one_broker, versions
from bench.workload import Bar, Measurement, Needs, RunSettings, Side, Workload
from bench.workloads.replay import RECORDS, RECORDS_PER_BATCH, RECORDS_PER_TRANSACTION
from log_tier.model.batch import Columns, encode_batch
from log_tier.model.log import Log, Topic
from log_tier.open import open_log
from serving_tier.node.node import Node

__all__ = ["KAFKA_REPLAY"]

_QUICK_DIVISOR: Final = 10

_TOPIC: Final = "replay"
_KAFKA_TOPIC: Final = f"duramen.{_TOPIC}"

_SILENT_S: Final = 30.0
"""A consumer that gets nothing for so long has lost its broker."""


def _pairs(settings: RunSettings) -> list[tuple[bytes, bytes]]:
    return make_pairs(RECORDS // _QUICK_DIVISOR if settings.quick else RECORDS)


async def _fill(log: Log, pairs: list[tuple[bytes, bytes]]) -> Topic:
    topic = await log.create_topic(_TOPIC, partitions=1)
    parts = []
    for number, chunk in enumerate(chunks(pairs, RECORDS_PER_BATCH)):
        columns = Columns([key for key, _ in chunk], [value for _, value in chunk])
        parts.append((topic.partition(0), encode_batch(columns, producer_id=1, sequence=number * RECORDS_PER_BATCH)))
    for some in range(0, len(parts), 100):
        for result in await log.append_many(parts[some : some + 100]):
            if isinstance(result, Exception):
                raise result
    return topic


async def _fill_by_others(log: Log, bootstrap: str, pairs: list[tuple[bytes, bytes]]) -> Topic:
    topic = await log.create_topic(_TOPIC, partitions=1)
    bare = BareProducer(bootstrap, linger_ms=5)
    bare.send(_KAFKA_TOPIC, 0, [(key, value, None) for key, value in pairs], None)
    bare.deliver()
    return topic


async def _replay(settings: RunSettings, *, by_others: bool) -> Measurement:
    pairs = _pairs(settings)
    with one_broker(settings.folder) as bootstrap:
        log = await open_log(f"kafka://{bootstrap}")
        try:
            topic = await (_fill_by_others(log, bootstrap, pairs) if by_others else _fill(log, pairs))
        finally:
            await log.close()
        # Another client, as a node that starts is one: nothing is connected, nothing has been fetched.
        log = await open_log(f"kafka://{bootstrap}")
        try:
            seconds = await _timed(log, topic, settings.folder, records=len(pairs))
        finally:
            await log.close()
    written = "by a plain producer" if by_others else f"in batches of {RECORDS_PER_BATCH:,}"
    return Measurement(
        {"records_per_second": len(pairs) / seconds, "seconds": seconds},
        f"Duramen {version('duramen')}",
        f"from opening an empty index to ready; written {written}",
    )


async def _timed(log: Log, topic: Topic, folder: Path, *, records: int) -> float:
    await log.bounds(topic.partition(0))
    node = await Node.open(log, folder / "index")
    try:
        gc.collect()
        gc.freeze()
        started = perf_counter()
        await node.host(topic, topic.partition(0))
        await node.wait_ready()
        seconds = perf_counter() - started
        replica = node.replica(topic.partition(0))
        if replica.failure is not None or replica.index.count() != records:
            raise AssertionError(f"{replica.index.count()} of {records} keys are there: {replica.failure}")
    finally:
        await node.close()
    return seconds


def _floor(settings: RunSettings) -> Measurement:
    import lmdb

    from bench.drivers.lmdb import MAP_BYTES

    pairs = _pairs(settings)

    async def fill(bootstrap: str) -> None:
        log = await open_log(f"kafka://{bootstrap}")
        await _fill(log, pairs)
        await log.close()

    with one_broker(settings.folder) as bootstrap:
        run_async(fill(bootstrap))
        environment = lmdb.open(
            str(settings.folder / "lmdb"), map_size=MAP_BYTES, sync=False, metasync=False, meminit=False
        )
        gc.collect()
        gc.freeze()
        started = perf_counter()
        consumer = bare_consumer(bootstrap, _KAFKA_TOPIC, 0, 0)
        left = len(pairs)
        while left:
            taken = _take(consumer, min(left, RECORDS_PER_TRANSACTION))
            with environment.begin(write=True) as transaction:
                transaction.cursor().putmulti([(message.key(), message.value()) for message in taken])
            left -= len(taken)
        seconds = perf_counter() - started
        consumer.close()
        with environment.begin() as transaction:
            found = transaction.stat()["entries"]
        environment.close()
    if found != len(pairs):
        raise AssertionError(f"{found} of {len(pairs)} keys are there")
    return Measurement(
        {"records_per_second": len(pairs) / seconds, "seconds": seconds},
        f"{versions()}, py-lmdb {lmdb.__version__}",
        f"{RECORDS_PER_TRANSACTION:,} records a transaction, no sync",
    )


def _take(consumer: Any, count: int) -> Sequence[Any]:
    """So many messages."""
    taken: list[Any] = []
    while len(taken) < count:
        got = consumer.consume(count - len(taken), _SILENT_S)
        for message in got:
            if message.error() is not None:
                raise AssertionError(f"the bare consumer got {message.error()}")
        if not got:
            raise AssertionError(f"the bare consumer got nothing for {_SILENT_S:g} s")
        taken += got
    return taken


KAFKA_REPLAY: Final = Workload(
    "kafka_replay",
    f"replay of {RECORDS:,} records from Kafka into a fresh index",
    (
        Side("duramen", "subject", lambda settings: run_async(_replay(settings, by_others=False)), KAFKA_NEEDS),
        Side("duramen, others' records", "subject", lambda s: run_async(_replay(s, by_others=True)), KAFKA_NEEDS),
        Side("consume+putmulti", "floor", _floor, Needs(("confluent_kafka", "lmdb"), here=KAFKA_NEEDS.here)),
    ),
    (Bar("records_per_second", "at least", 0.6, "consume+putmulti"),),
)
