"""Restart with 10 M records in the log and the index intact: from starting the server to the first value read.

The server is stopped cleanly, so that the index is intact; a full load precedes every measurement, so there is one
round. The floor is what a Python server cannot go below: a new interpreter that imports gRPC and LMDB and reads one key
of an index of as many records.
"""

from __future__ import annotations

import subprocess
import sys
from time import perf_counter
from typing import Final

from bench.callers import run_async
from bench.data import make_pairs
from bench.drivers.driver import Driver
from bench.drivers.duramen import SERVER_NEEDS, Duramen
from bench.workload import Bar, Measurement, Needs, RunSettings, Side, Workload
from bench.workloads.contenders import preload

__all__ = ["RESTART"]

RECORDS: Final = 10_000_000
_LOADED_AT_ONCE: Final = 500_000
"""Pairs held in memory while loading."""

_QUICK_DIVISOR: Final = 50

_READ_ONE_KEY: Final = """
import sys, grpc.aio, lmdb
with lmdb.open(sys.argv[1], map_size=int(sys.argv[3])).begin() as transaction:
    assert transaction.get(bytes.fromhex(sys.argv[2])) is not None
"""


def _records(settings: RunSettings) -> int:
    return RECORDS // _QUICK_DIVISOR if settings.quick else RECORDS


async def _restart(settings: RunSettings) -> Measurement:
    pairs: list[tuple[bytes, bytes]] = []
    driver: Driver = Duramen()
    try:
        await driver.start(settings.folder)
        for seed in range(_records(settings) // min(_LOADED_AT_ONCE, _records(settings))):
            pairs = make_pairs(min(_LOADED_AT_ONCE, _records(settings)), seed=seed)
            await preload(driver, pairs)
    finally:
        await driver.stop()
    key, expected = pairs[-1]
    driver = Duramen()
    started = perf_counter()
    try:
        await driver.start(settings.folder)
        found = await driver.get(key)
        seconds = perf_counter() - started
    finally:
        await driver.stop()
    if found != expected:
        raise AssertionError(f"first get of {key!r} after the restart found {found!r}, put was {expected!r}")
    return Measurement({"seconds": seconds}, driver.version, f"{_records(settings):,} records in the log")


def _floor(settings: RunSettings) -> Measurement:
    import lmdb

    from bench.drivers.lmdb import MAP_BYTES

    folder = settings.folder / "lmdb"
    environment = lmdb.open(str(folder), map_size=MAP_BYTES, sync=False, metasync=False)
    count = min(_LOADED_AT_ONCE, _records(settings))
    key = b""
    for round_number in range(_records(settings) // count):
        # In key order, which loads ten times faster: a prefix that rises and sorted keys behind it.
        pairs = [(b"%04d" % round_number + key[4:], value) for key, value in sorted(make_pairs(count))]
        pairs.sort()
        with environment.begin(write=True) as transaction:
            transaction.cursor().putmulti(pairs)
        key = pairs[-1][0]
    environment.sync(True)
    environment.close()
    started = perf_counter()
    subprocess.run(
        [sys.executable, "-c", _READ_ONE_KEY, str(folder), key.hex(), str(MAP_BYTES)], check=True, timeout=60
    )
    return Measurement(
        {"seconds": perf_counter() - started},
        f"py-lmdb {lmdb.__version__}",
        f"a new interpreter, imports of grpc.aio and lmdb, one get of {_records(settings):,}",
    )


RESTART: Final = Workload(
    "restart",
    f"restart with {RECORDS:,} records in the log, index intact: first read",
    (
        Side("duramen", "subject", lambda settings: run_async(_restart(settings)), SERVER_NEEDS),
        Side("new interpreter + lmdb", "floor", _floor, Needs(("lmdb", "grpc"))),
    ),
    (Bar("seconds", "at most", 2.0),),
    runs_max=1,
)
