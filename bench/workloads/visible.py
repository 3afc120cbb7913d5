"""How long after a put starts has a read that carries its token returned the value?

Each call puts, takes the token from the acknowledgement, and reads with `after=token` over a *second* connection, which
knows nothing of the first one's session. Both times start with the put: `put` ends with its acknowledgement, `visible`
with the read's answer. The bar is between the two p99 of the same calls: the whole way may take twice the put's.
"""

from __future__ import annotations

import importlib
from itertools import cycle
from time import perf_counter_ns
from typing import Any, Final

from bench.callers import Timing, drive, run_async
from bench.data import make_pairs
from bench.drivers.duramen import SERVER_NEEDS, TABLE, Duramen
from bench.workload import Bar, Measurement, RunSettings, Side, Workload

__all__ = ["VISIBLE"]

_FRESH_PAIRS: Final = 1_000_000


async def _measure(settings: RunSettings, callers: int) -> Measurement:
    driver = Duramen()
    reader: Any = None
    puts_ns: list[int] = []
    try:
        await driver.start(settings.folder)
        reader = await importlib.import_module("duramen.aio").connect(driver.address)
        writing, reading = driver.table, reader.table(TABLE)
        next_pair = cycle(make_pairs(_FRESH_PAIRS)).__next__

        async def call() -> None:
            key, value = next_pair()
            started = perf_counter_ns()
            done = await writing.put(key, value)
            puts_ns.append(perf_counter_ns() - started)
            found = await reading.get(key, after=done.token)
            if found != value:
                raise AssertionError(f"get of {key!r} after {done.token} found {found!r}, put was {value!r}")

        # The warm-up is a drive of its own: its puts must not count either.
        await drive(call, callers=callers, seconds=1.0, warmup=0.0)
        puts_ns.clear()
        visible = await drive(call, callers=callers, seconds=settings.seconds, warmup=0.0)
    finally:
        if reader is not None:
            await reader.close()
        await driver.stop()
    put = Timing(seconds=settings.seconds, latencies_ns=puts_ns)
    return Measurement(
        {
            "put_p50_us": put.latency_us(0.5),
            "put_p99_us": put.latency_us(0.99),
            "visible_p50_us": visible.latency_us(0.5),
            "visible_p99_us": visible.latency_us(0.99),
            "visible_by_put_p99": visible.latency_us(0.99) / put.latency_us(0.99),
        },
        driver.version,
        f"{driver.note}; the reader is a second connection",
    )


def _side(callers: int) -> Side:
    name = f"duramen, {callers} caller{'s' if callers > 1 else ''}"
    return Side(name, "subject", lambda settings: run_async(_measure(settings, callers)), SERVER_NEEDS)


VISIBLE: Final = Workload(
    "visible",
    "put → visible to a read with its token, over a second connection",
    (_side(1), _side(256)),
    (
        Bar("visible_by_put_p99", "at most", 2, subject="duramen, 1 caller"),
        Bar("visible_by_put_p99", "at most", 2, subject="duramen, 256 callers"),
    ),
)
