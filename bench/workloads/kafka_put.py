"""The whole database in one process over a Kafka log: puts of 256 callers, and how soon a put is visible.

`kafka_put_256`: the same program over both logs, everything in one process but the broker. The embedded log syncs
before it acknowledges; the broker acknowledges what is in its page cache, so this compares two promises too.

`kafka_visible`: from the start of a call until another one sees its record. One record is under way.

- *duramen*: `put`, then `get` with its token, which waits until the replica of the key's partition has applied it:
  append → acknowledgement → fetch → index → read.
- *confluent-kafka*: `produce` with no linger; a consumer that polls in another thread has the message in its hands.
  Its thread takes the time, so what the producing thread waits for is not counted.
"""

from __future__ import annotations

import threading
from itertools import count, cycle
from queue import SimpleQueue
from time import perf_counter, perf_counter_ns
from typing import Any, Final, Self

from bench.callers import WARMUP_SECONDS, Timing, drive, run_async
from bench.data import make_pairs
from bench.drivers.duramen import PARTITIONS, TABLE
from bench.drivers.in_process import in_process
from bench.drivers.kafka import KAFKA_NEEDS, BareProducer, bare_consumer, one_broker, versions
from bench.workload import Bar, Measurement, RunSettings, Side, Workload
from log_tier.open import open_log

__all__ = ["KAFKA_PUT"]

CALLERS: Final = 256
_FRESH_PAIRS: Final = 1_000_000

_LATER_US_MAX: Final = 5000
_ARRIVAL_S_MAX: Final = 30.0
_POLL_S: Final = 0.1


def _version() -> str:
    import duramen

    return f"Duramen {duramen.__version__}"


async def _put(settings: RunSettings, log_url: str | None) -> dict[str, float]:
    next_pair = cycle(make_pairs(_FRESH_PAIRS)).__next__
    async with await in_process(settings.folder / "node", log_url) as database:
        table = await database.create_table(TABLE, partitions=PARTITIONS)

        async def call() -> None:
            key, value = next_pair()
            await table.put(key, value)

        timing = await drive(call, callers=CALLERS, seconds=settings.seconds)
    return timing.metrics()


def _put_kafka(settings: RunSettings) -> Measurement:
    with one_broker(settings.folder) as bootstrap:
        metrics = run_async(_put(settings, f"kafka://{bootstrap}"))
    return Measurement(metrics, _version(), f"{PARTITIONS} partitions; one broker that does not sync")


def _put_embedded(settings: RunSettings) -> Measurement:
    metrics = run_async(_put(settings, None))
    return Measurement(metrics, _version(), f"{PARTITIONS} partitions; fdatasync before each acknowledgement")


# --- visible


async def _visible(settings: RunSettings, log_url: str) -> dict[str, float]:
    next_pair = cycle(make_pairs(_FRESH_PAIRS)).__next__
    puts_ns: list[int] = []
    async with await in_process(settings.folder / "node", log_url) as database:
        table = await database.create_table(TABLE, partitions=PARTITIONS)

        async def call() -> None:
            key, value = next_pair()
            started = perf_counter_ns()
            done = await table.put(key, value)
            puts_ns.append(perf_counter_ns() - started)
            found = await table.get(key, after=done.token)
            if found != value:
                raise AssertionError(f"get of {key!r} after {done.token} found {found!r}, put was {value!r}")

        await drive(call, callers=1, seconds=WARMUP_SECONDS, warmup=0.0)
        puts_ns.clear()
        visible = await drive(call, callers=1, seconds=settings.seconds, warmup=0.0)
    put = Timing(seconds=settings.seconds, latencies_ns=puts_ns)
    return {
        "put_p50_us": put.latency_us(0.5),
        "put_p99_us": put.latency_us(0.99),
        "visible_p50_us": visible.latency_us(0.5),
        "visible_p99_us": visible.latency_us(0.99),
    }


def _visible_kafka(settings: RunSettings) -> Measurement:
    with one_broker(settings.folder) as bootstrap:
        metrics = run_async(_visible(settings, f"kafka://{bootstrap}"))
    return Measurement(metrics, _version(), f"one caller; {PARTITIONS} partitions, put and then get with its token")


class _Poller:
    """A consumer, polled by a thread of its own, which notes when each value came. For a `with` block."""

    def __init__(self, consumer: Any) -> None:
        self._consumer = consumer
        self._arrivals: SimpleQueue[tuple[int, Any]] = SimpleQueue()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="bare consumer")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()
        self._consumer.close()

    def _run(self) -> None:
        while not self._ending.is_set():
            message = self._consumer.poll(_POLL_S)
            if message is not None:
                self._arrivals.put((perf_counter_ns(), message.error() or message.value()))

    def next(self) -> tuple[int, Any]:
        """When the next one came, and its value. Raises `queue.Empty` where nothing does."""
        return self._arrivals.get(timeout=_ARRIVAL_S_MAX)


async def _make_topic(bootstrap: str) -> None:
    log = await open_log(f"kafka://{bootstrap}")
    await log.create_topic(TABLE, partitions=1)
    await log.close()


def _visible_bare(settings: RunSettings) -> Measurement:
    from log_tier.kafka.records.header import pack_header
    from log_tier.model.record import PLAIN_PUT

    next_pair = cycle(make_pairs(_FRESH_PAIRS)).__next__
    topic = f"duramen.{TABLE}"
    durations: list[int] = []
    with one_broker(settings.folder) as bootstrap:
        run_async(_make_topic(bootstrap))
        bare = BareProducer(bootstrap, linger_ms=0)
        with _Poller(bare_consumer(bootstrap, topic, 0, 0)) as poller:
            opened = perf_counter() + WARMUP_SECONDS
            for sequence in count():
                now = perf_counter()
                if now >= opened + settings.seconds:
                    break
                (key, value), started = next_pair(), perf_counter_ns()
                header = pack_header(PLAIN_PUT, 0, 0, 1, sequence, plain_set=True)
                bare.send(topic, 0, [(key, value, header)], bare.count)
                ended, found = poller.next()
                if found != value:
                    raise AssertionError(f"{found!r} came, {value!r} was produced")
                if now >= opened:
                    durations.append(ended - started)
            bare.deliver()
    timing = Timing(seconds=settings.seconds, latencies_ns=durations)
    return Measurement(
        {"visible_p50_us": timing.latency_us(0.5), "visible_p99_us": timing.latency_us(0.99)},
        versions(),
        "produce without linger; a consumer in another thread",
    )


KAFKA_PUT: Final = (
    Workload(
        "kafka_put_256",
        f"put, {CALLERS} callers in the database's own process: Kafka log, embedded log",
        (
            Side("duramen", "subject", _put_kafka, KAFKA_NEEDS),
            Side("duramen, embedded log", "subject", _put_embedded),
        ),
    ),
    Workload(
        "kafka_visible",
        "put → visible at a replica that follows Kafka, one caller",
        (
            Side("duramen", "subject", _visible_kafka, KAFKA_NEEDS),
            Side("confluent-kafka", "floor", _visible_bare, KAFKA_NEEDS),
        ),
        (Bar("visible_p99_us", "at most", _LATER_US_MAX, "confluent-kafka", compared_by="difference"),),
    ),
)
