"""Rows of flights for the benchmark, as every side gets them, and the server that takes them as rows or as bytes."""

from __future__ import annotations

import importlib
import random
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from bench.drivers.duramen import PARTITIONS, TABLE, Duramen

__all__ = ["FLIGHT_AVRO", "KEY", "BenchFlight", "StoredFlights", "TypedFlights", "make_flights"]


@dataclass(frozen=True, slots=True)
class BenchFlight:
    """A row of eight fields."""

    carrier: str
    flight: int
    departs: datetime
    tailnum: str | None
    origin: str
    dest: str
    dep_delay: float
    seats: int


KEY: Final = ("carrier", "flight", "departs")

FLIGHT_AVRO: Final[dict[str, Any]] = {
    "type": "record",
    "name": "BenchFlight",
    "fields": [
        {"name": "carrier", "type": "string"},
        {"name": "flight", "type": "long"},
        {"name": "departs", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "tailnum", "type": ["null", "string"]},
        {"name": "origin", "type": "string"},
        {"name": "dest", "type": "string"},
        {"name": "dep_delay", "type": "double"},
        {"name": "seats", "type": "long"},
    ],
}
"""The same for bare fastavro."""

_FIRST: Final = datetime(2013, 1, 1, 5, tzinfo=UTC)


def make_flights(count: int, *, seed: int = 1) -> list[BenchFlight]:
    """`count` rows whose keys are distinct; about 3 µs each."""
    rng = random.Random(seed)
    carriers, airports = ("UA", "AA", "B6", "DL", "EV"), ("EWR", "JFK", "LGA", "ORD", "LAX", "SFO")
    return [
        BenchFlight(
            rng.choice(carriers),
            number % 9973,
            _FIRST + timedelta(minutes=number),
            None if number % 50 == 0 else f"N{rng.randrange(10_000, 99_999)}",
            rng.choice(airports),
            rng.choice(airports),
            round(rng.gauss(10, 30), 1),
            rng.randrange(20, 400),
        )
        for number in range(count)
    ]


class TypedFlights(Duramen):
    """A table of rows: each put checks and encodes its row, and the server judges it twice."""

    async def _connect(self, folder: Any) -> Any:
        database = await importlib.import_module("duramen.aio").connect(self.address)
        with suppress(importlib.import_module("duramen").TableExists):
            await database.create_table(TABLE, row=BenchFlight, key=KEY, partitions=PARTITIONS)
        self.rows = database.table(TABLE, row=BenchFlight)
        self.note += "; rows of eight fields"
        return database

    async def put_row(self, row: Any) -> None:
        await self.rows.put(row)


class StoredFlights(Duramen):
    """The same keys and values, encoded beforehand, into a table of bytes."""

    async def put_row(self, row: Any) -> None:
        await self.table.put(*row)
