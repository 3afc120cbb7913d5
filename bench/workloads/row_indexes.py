"""Ordered indexes: what they cost an apply, and what a find takes next to a get and to SQLite with the same index."""

from __future__ import annotations

import gc
import random
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from time import perf_counter, perf_counter_ns
from typing import Any, Final

from bench.callers import WARMUP_SECONDS
from bench.data import chunks
from bench.drivers.duramen import EMBEDDED_NEEDS, TABLE
from bench.drivers.flights import KEY, BenchFlight, make_flights
from bench.statistics import quantile
from bench.workload import Bar, Measurement, Needs, RunSettings, Side, Workload
from log_tier.model.batch import Columns, encode_batch
from log_tier.model.batch_header import stamp_batch
from log_tier.model.identifiers import Offset, Partition, PartitionId, TableId
from serving_tier.index.lmdb.lmdb_index import LmdbIndex

__all__ = ["ROW_INDEXES"]

_APPLIED: Final = 200_000
_RECORDS_PER_BATCH: Final = 1_000
_BATCHES_PER_TRANSACTION: Final = 10
_FOUND: Final = 1_000_000
_LIMIT: Final = 10
"""Rows that a find returns."""
_QUICK_DIVISOR: Final = 10

_BY_TAIL: Final = {"by_tail": ("tailnum",)}
_THREE: Final[dict[str, Any]] = {**_BY_TAIL, "by_route": ("origin", "dest"), "by_delay": ("dep_delay",)}
_NEEDS: Final = Needs(("fastavro", "duramen.client.rows.row_codec:RowCodec"))


def _tailed(count: int) -> list[BenchFlight]:
    """Rows of which ten or so have one tail number."""
    rng = random.Random(2)
    return [replace(row, tailnum=f"N{rng.randrange(count // _LIMIT):06}") for row in make_flights(count)]


# --- an apply


def _definition(indexes: dict[str, Any]) -> Any:
    from duramen.client.rows.shapes.shape import shape_of
    from log_tier.rows.definition import TableDefinition
    from log_tier.rows.key_fields import KeyField
    from log_tier.rows.schema import NumberedSchema
    from log_tier.rows.table_index import TableIndex

    types = {"carrier": "str", "flight": "int", "departs": "datetime"}
    return TableDefinition(
        key=tuple(KeyField(name, types[name]) for name in KEY),  # type: ignore[arg-type]  # names of types
        value="row",
        schemas=(NumberedSchema(1, shape_of(BenchFlight).schema),),
        indexes=tuple(TableIndex(number, name, fields) for number, (name, fields) in enumerate(indexes.items(), 1)),
    )


def _batches(definition: Any, count: int) -> list[bytes]:
    """Every row is put, and then once more with another value of each indexed field."""
    from duramen.client.rows.row_codec import RowCodec
    from duramen.client.rows.shapes.shape import shape_of

    encode = RowCodec[BenchFlight](definition, shape_of(BenchFlight)).encode
    rows = _tailed(count)
    other = [
        replace(each, tailnum=f"X{each.tailnum}", origin=each.dest, dest=each.origin, dep_delay=each.dep_delay + 1)
        for each in rows
    ]
    found: list[bytes] = []
    for piece in chunks([encode(each) for each in (*rows, *other)], _RECORDS_PER_BATCH):
        batch = encode_batch(Columns([key for key, _ in piece], [value for _, value in piece]))
        base = Offset(len(found) * _RECORDS_PER_BATCH)
        found.append(stamp_batch(batch, base_offset=base, timestamp_ms=1, unsynced=0))
    return found


def _applying_side(name: str, indexes: dict[str, Any]) -> Side:
    def run(settings: RunSettings) -> Measurement:
        definition = _definition(indexes)
        count = _APPLIED // _QUICK_DIVISOR if settings.quick else _APPLIED
        transactions = [b"".join(each) for each in chunks(_batches(definition, count), _BATCHES_PER_TRANSACTION)]
        place = PartitionId(TableId("uz7PoMe1SsyzElQe1u4IvA"), Partition(0))
        index = LmdbIndex.open(settings.folder / "index", partition=place, definition=definition)
        try:
            gc.collect()
            gc.freeze()
            started = perf_counter()
            for each in transactions:
                index.apply(each)
            seconds = perf_counter() - started
            if index.count() != count or index.applied != 2 * count - 1:
                raise AssertionError(f"{index.count()} rows are there at {index.applied}, and {count} were put twice")
        finally:
            index.close()
        note = f"{_RECORDS_PER_BATCH * _BATCHES_PER_TRANSACTION:,} records a transaction, half of them change a row"
        return Measurement({"mean_us": seconds * 1e6 / (2 * count)}, f"Duramen {version('duramen')}", note)

    return Side(name, "subject" if name == "duramen" else "floor", run, _NEEDS)


# --- a find


def _timed(call: Callable[[Any], object], asked: Sequence[Any], seconds: float) -> dict[str, float]:
    gc.collect()
    gc.freeze()
    opened = perf_counter_ns() + int(WARMUP_SECONDS * 1e9)
    closed = opened + int(seconds * 1e9)
    took: list[int] = []
    while True:
        for each in asked:
            started = perf_counter_ns()
            call(each)
            ended = perf_counter_ns()
            if started >= opened:
                took.append(ended - started)
            if ended >= closed and took:
                took.sort()
                return {"p50_us": quantile(took, 0.5) / 1000, "p99_us": quantile(took, 0.99) / 1000}


def _asked(rows: Sequence[BenchFlight]) -> list[BenchFlight]:
    return random.Random(3).sample(rows, 5_000)


def _rows(settings: RunSettings) -> list[BenchFlight]:
    return _tailed(_FOUND // _QUICK_DIVISOR if settings.quick else _FOUND)


def _embedded(name: str, ask: Callable[[Any, BenchFlight], object], check: Callable[[Any, BenchFlight], bool]) -> Side:
    def run(settings: RunSettings) -> Measurement:
        import duramen

        rows = _rows(settings)
        with duramen.open(settings.folder / "data") as db:
            table: Any = db.create_table(TABLE, row=BenchFlight, key=KEY, partitions=1, indexes=_BY_TAIL)
            table.put_many(rows)
            asked = _asked(rows)
            if not all(check(table, each) for each in asked[:100]):
                raise AssertionError("what was put is not what is found")
            metrics = _timed(lambda each: ask(table, each), asked, settings.seconds)
        return Measurement(metrics, f"Duramen {version('duramen')}", "one partition, read at its own applied offset")

    return Side(name, "subject" if name == "duramen" else "floor", run, EMBEDDED_NEEDS)


def _find(table: Any, row: BenchFlight) -> list[BenchFlight]:
    return list(table.find(tailnum=row.tailnum, limit=_LIMIT))


def _get(table: Any, row: BenchFlight) -> BenchFlight | None:
    found: BenchFlight | None = table.get(row.carrier, row.flight, row.departs)
    return found


def _holds(table: Any, row: BenchFlight) -> bool:
    found = list(table.find(tailnum=row.tailnum))
    return row in found and {each.tailnum for each in found} == {row.tailnum}


_FIELDS: Final = ("carrier", "flight", "departs", "tailnum", "origin", "dest", "dep_delay", "seats")


class _SqliteRows:
    """A table with one column for each field, the same key, and the same index."""

    def __init__(self, folder: Path, rows: Sequence[BenchFlight]) -> None:
        self._connection = sqlite3.connect(folder / "rows.sqlite", isolation_level=None)
        execute = self._connection.execute
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "mmap_size=4294967296", "cache_size=-65536"):
            execute(f"PRAGMA {pragma}")
        execute(f"CREATE TABLE rows ({', '.join(_FIELDS)}, PRIMARY KEY ({', '.join(KEY)})) WITHOUT ROWID")
        execute("CREATE INDEX by_tail ON rows (tailnum)")
        execute("BEGIN")
        stored = ((*(getattr(row, name) for name in _FIELDS[:2]), row.departs.timestamp(), *_rest(row)) for row in rows)
        self._connection.executemany(f"INSERT INTO rows VALUES ({', '.join('?' * len(_FIELDS))})", stored)
        execute("COMMIT")
        execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._execute = execute

    def find(self, tailnum: str | None) -> list[BenchFlight]:
        from datetime import UTC, datetime

        from_time = datetime.fromtimestamp
        found = self._execute("SELECT * FROM rows WHERE tailnum = ? LIMIT ?", (tailnum, _LIMIT)).fetchall()
        return [BenchFlight(row[0], row[1], from_time(row[2], UTC), *row[3:]) for row in found]

    def close(self) -> None:
        self._connection.close()


def _rest(row: BenchFlight) -> tuple[Any, ...]:
    return tuple(getattr(row, name) for name in _FIELDS[3:])


def _sqlite(settings: RunSettings) -> Measurement:
    rows = _rows(settings)
    table = _SqliteRows(settings.folder, rows)
    try:
        asked = _asked(rows)
        if not all({found.tailnum for found in table.find(each.tailnum)} == {each.tailnum} for each in asked[:100]):
            raise AssertionError("what was put is not what is found")
        metrics = _timed(lambda each: table.find(each.tailnum), asked, settings.seconds)
    finally:
        table.close()
    return Measurement(metrics, f"SQLite {sqlite3.sqlite_version}", "WITHOUT ROWID, mmap; rows become the same class")


ROW_INDEXES: Final = (
    Workload(
        "apply_index",
        f"apply of {2 * _APPLIED:,} puts of rows to a replica's index, one ordered index, one thread",
        (_applying_side("duramen", _BY_TAIL), _applying_side("no index", {})),
        (Bar("mean_us", "at most", 1.6, "no index"),),
    ),
    Workload(
        "apply_index_3",
        "the same with three ordered indexes",
        (_applying_side("duramen", _THREE), _applying_side("no index", {})),
        (Bar("mean_us", "at most", 3, "no index"),),
    ),
    Workload(
        "find_10",
        f"find of {_LIMIT} rows of {_FOUND:,} by an ordered index inside one process, one thread",
        (
            _embedded("duramen", _find, _holds),
            _embedded("get", _get, lambda table, row: _get(table, row) == row),
            Side("sqlite", "peer", _sqlite, Needs(("sqlite3",))),
        ),
        (Bar("p50_us", "at most", 3, "get"), Bar("p50_us", "at most", 1, "sqlite")),
    ),
)
