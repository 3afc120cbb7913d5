"""A get inside one process: `duramen.open` against bare LMDB, SQLite and RocksDB. One thread, no asyncio, no server."""

from __future__ import annotations

import gc
from collections.abc import Callable
from time import perf_counter_ns
from typing import Final, Literal

from bench.callers import WARMUP_SECONDS
from bench.data import PRELOADED_KEYS, chunks, make_pairs
from bench.drivers.driver import EmbeddedStore
from bench.drivers.duramen import EMBEDDED_NEEDS, DuramenEmbedded
from bench.workload import Bar, Measurement, Needs, RunSettings, Side, Workload

__all__ = ["EMBEDDED_GET"]

_CLOCK_EVERY: Final = 1000
"""Gets between two looks at the clock, which would cost a tenth of a fast get."""


def _side(
    name: str, role: Literal["subject", "peer", "floor"], make: Callable[[], EmbeddedStore], needs: Needs
) -> Side:
    def run(settings: RunSettings) -> Measurement:
        store = make()
        store.open(settings.folder)
        try:
            pairs = make_pairs(PRELOADED_KEYS)
            store.load(pairs)
            for key, expected in pairs:
                if store.get(key) != expected:
                    raise AssertionError(f"get of {key!r} found {store.get(key)!r}, put was {expected!r}")
            rate = _gets_per_second(store.get, pairs, seconds=settings.seconds)
        finally:
            store.close()
        return Measurement({"per_second": rate}, store.version, store.note)

    return Side(name, role, run, needs)


def _gets_per_second(get: Callable[[bytes], object], pairs: list[tuple[bytes, bytes]], *, seconds: float) -> float:
    blocks = chunks(pairs, _CLOCK_EVERY)
    keys_of_blocks = [[key for key, _ in block] for block in blocks]
    gc.collect()
    gc.freeze()
    opened = perf_counter_ns() + int(WARMUP_SECONDS * 1e9)
    closed = opened + int(seconds * 1e9)
    gets = counted_ns = 0
    while True:
        for keys in keys_of_blocks:
            started = perf_counter_ns()
            for key in keys:
                get(key)
            ended = perf_counter_ns()
            if started >= opened:
                gets += len(keys)
                counted_ns += ended - started
            if ended >= closed:
                return gets * 1e9 / counted_ns


def _lmdb() -> EmbeddedStore:
    from bench.drivers.lmdb import Lmdb

    return Lmdb()


def _sqlite() -> EmbeddedStore:
    from bench.drivers.sqlite import Sqlite

    return Sqlite()


def _rocksdict() -> EmbeddedStore:
    from bench.drivers.rocksdict import Rocksdict

    return Rocksdict()


EMBEDDED_GET: Final = Workload(
    "embedded_get",
    f"get inside one process, {PRELOADED_KEYS:,} keys, one thread",
    (
        _side("duramen", "subject", DuramenEmbedded, EMBEDDED_NEEDS),
        _side("lmdb", "floor", _lmdb, Needs(("lmdb",))),
        _side("sqlite", "peer", _sqlite, Needs(("sqlite3",))),
        _side("rocksdict", "peer", _rocksdict, Needs(("rocksdict",), install="extra: duramen[bench]")),
    ),
    (
        Bar("per_second", "at least", 0.5, "lmdb"),
        Bar("per_second", "at least", 3, "sqlite"),
    ),
)
