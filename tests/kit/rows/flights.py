"""The flights of the documentation, and a class with every type that a row can have."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from decimal import Decimal
from enum import Enum
from typing import Annotated
from uuid import UUID

from duramen.client.rows.shapes.marks import NAIVE, Digits

__all__ = ["WIDE", "Cabin", "Flight", "GatedFlight", "Seat", "Wide"]


@dataclass
class Flight:
    """A row of five fields."""

    carrier: str
    flight: int
    tailnum: str | None
    dep_delay: float
    remark: str = ""


@dataclass
class GatedFlight:
    """A flight as the next version of the program has it."""

    carrier: str
    flight: int
    tailnum: str | None
    dep_delay: float
    remark: str = ""
    gate: str = "-"


class Cabin(Enum):
    """An enum whose values are no text."""

    ECONOMY = 1
    FIRST = 2


@dataclass(frozen=True)
class Seat:
    """A record in a row."""

    row: int
    letter: str
    cabin: Cabin = Cabin.ECONOMY


@dataclass
class Wide:
    """A row with every type."""

    id: int
    is_open: bool
    ratio: float
    name: str
    payload: bytes
    price: Annotated[Decimal, Digits(12, 2)]
    unique: UUID
    day: date
    at: time
    when: datetime
    local: Annotated[datetime, NAIVE]
    cabin: Cabin
    seat: Seat
    seats: list[Seat]
    by_name: dict[str, Seat]
    maybe: Seat | None
    either: int | str | Seat | None
    sizes: list[list[int]] = field(default_factory=list)
    parts: list[Wide] = field(default_factory=list)
    tax: Annotated[Decimal, Digits(6, 3)] = Decimal("-0.190")
    fallback: Cabin | None = Cabin.FIRST
    since: date = date(2020, 2, 29)
    tag: bytes = b"\xff\0"


WIDE = Wide(
    id=-(1 << 63),
    is_open=True,
    ratio=float("inf"),
    name="Zürich\0",
    payload=b"\0\xff",
    price=Decimal("-9999999999.99"),
    unique=UUID(int=1),
    day=date(1, 1, 1),
    at=time(23, 59, 59, 999_999),
    when=datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    local=datetime(1, 1, 1, 0, 0, 0, 1),
    cabin=Cabin.FIRST,
    seat=Seat(1, "A"),
    seats=[Seat(1, "A"), Seat(2, "B", Cabin.FIRST)],
    by_name={"": Seat(3, "C")},
    maybe=None,
    either=Seat(4, "D"),
    sizes=[[], [1, 2]],
)
