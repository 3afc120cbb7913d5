"""Rows: what it costs to encode and decode one, and to put one, against bare fastavro and against bytes."""

from __future__ import annotations

import gc
import io
from collections.abc import Callable
from importlib.metadata import version
from itertools import cycle
from time import perf_counter_ns
from typing import Any, Final

from bench.callers import WARMUP_SECONDS, drive, run_async
from bench.drivers.duramen import SERVER_NEEDS
from bench.drivers.flights import FLIGHT_AVRO, KEY, BenchFlight, StoredFlights, TypedFlights, make_flights
from bench.workload import Bar, Measurement, Needs, RunSettings, Side, Workload
from bench.workloads.served import CALLERS

__all__ = ["ROWS"]

_ROWS: Final = 20_000
_NEEDS: Final = Needs(("fastavro", "duramen.client.rows.row_codec:RowCodec"))


def _codec() -> Any:
    from duramen.client.rows.row_codec import RowCodec
    from duramen.client.rows.shapes.shape import shape_of
    from log_tier.rows.definition import TableDefinition
    from log_tier.rows.key_fields import KeyField
    from log_tier.rows.schema import NumberedSchema

    shape = shape_of(BenchFlight)
    types = {"carrier": "str", "flight": "int", "departs": "datetime"}
    key = tuple(KeyField(name, types[name]) for name in KEY)  # type: ignore[arg-type]  # names of types
    definition = TableDefinition(key=key, value="row", schemas=(NumberedSchema(1, shape.schema),))
    return RowCodec(definition, shape)


def _with_key() -> Callable[[BenchFlight], None]:
    codec = _codec()

    def both(row: BenchFlight) -> None:
        _, value = codec.encode(row)
        if codec.decode(value) != row:
            raise AssertionError(f"{row} came back as another row")

    return both


def _fastavro() -> Callable[[BenchFlight], None]:
    from fastavro import parse_schema, schemaless_reader, schemaless_writer

    schema, names = parse_schema(FLIGHT_AVRO), [field["name"] for field in FLIGHT_AVRO["fields"]]

    def both(row: BenchFlight) -> None:
        buffer = io.BytesIO()
        schemaless_writer(buffer, schema, {name: getattr(row, name) for name in names})
        buffer.seek(0)
        found: Any = schemaless_reader(buffer, schema, None)
        if BenchFlight(**found) != row:
            raise AssertionError(f"{row} came back as another row")

    return both


def _coding_side(name: str, make: Callable[[], Callable[[BenchFlight], None]], what: str, note: str) -> Side:
    def run(settings: RunSettings) -> Measurement:
        both, rows = make(), make_flights(_ROWS)
        gc.collect()
        gc.freeze()
        opened = perf_counter_ns() + int(WARMUP_SECONDS * 1e9)
        closed, count, counted_ns = opened + int(settings.seconds * 1e9), 0, 0
        while True:
            started = perf_counter_ns()
            for row in rows:
                both(row)
            ended = perf_counter_ns()
            if started >= opened:
                count, counted_ns = count + len(rows), counted_ns + ended - started
            if ended >= closed and count:
                return Measurement({"mean_us": counted_ns / count / 1e3}, what, note)

    return Side(name, "subject" if name == "duramen" else "floor", run, _NEEDS)


def _put_side(name: str, make: Callable[[], Any], rows: Callable[[], list[Any]]) -> Side:
    async def once(settings: RunSettings) -> Measurement:
        driver = make()
        try:
            await driver.start(settings.folder)
            next_row = cycle(rows()).__next__

            async def call() -> None:
                await driver.put_row(next_row())

            timing = await drive(call, callers=CALLERS, seconds=settings.seconds)
        finally:
            await driver.stop()
        return Measurement(timing.metrics(), driver.version, driver.note)

    role: Any = "subject" if name == "duramen" else "floor"
    return Side(name, role, lambda settings: run_async(once(settings)), SERVER_NEEDS)


def _stored() -> list[Any]:
    encode = _codec().encode
    return [encode(row) for row in make_flights(10 * _ROWS)]


ROWS: Final = (
    Workload(
        "row_codec",
        "encode and decode a row of 8 fields, one thread; the key is made of 3 of them",
        (
            _coding_side("duramen", _with_key, f"Duramen {version('duramen')}", "checked, encoded, keyed; decoded"),
            _coding_side("fastavro", _fastavro, f"fastavro {version('fastavro')}", "from and to the same dataclass"),
        ),
        (Bar("mean_us", "at most", 1.3, "fastavro"),),
    ),
    Workload(
        "put_rows_256",
        f"durable put of rows, {CALLERS} concurrent callers, one client process",
        (
            _put_side("duramen", TypedFlights, lambda: make_flights(10 * _ROWS)),
            _put_side("bytes", StoredFlights, _stored),
        ),
        (Bar("per_second", "at least", 0.7, "bytes"),),
    ),
)
