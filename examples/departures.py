"""A table of rows: typed, found by other fields than its key, updated field by field, and given another schema.

Everything here is asserted; the first claim that does not hold ends the program.

    python examples/departures.py
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import duramen
from duramen.blocking import Database, RowTable


@dataclass
class Departure:
    carrier: str
    flight: int
    tailnum: str | None
    dep_delay: float
    seats: int


@dataclass
class GatedDeparture(Departure):
    gate: str = "-"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, duramen.open(Path(folder) / "data") as db:
        departures = db.create_table(
            "departures",
            row=Departure,
            key=("carrier", "flight"),  # keys sort as these fields do
            indexes={"by_tail": ("tailnum", "dep_delay")},
        )
        departures.put_many(
            Departure(carrier, number, f"N{number % 7}" if number % 5 else None, float(number % 90), 180)
            for carrier in ("DL", "UA")
            for number in range(1000)
        )
        reads(departures)
        finds(departures)
        updates(departures)
        refusals(departures)
        changes_of_the_schema(db, departures)


def reads(departures: RowTable[Departure]) -> None:
    assert departures.get("UA", 7) == Departure("UA", 7, "N0", 7.0, 180)
    assert [each.flight for each in departures.scan(carrier="UA", flight=(10, 13))] == [10, 11, 12]
    print("ok  a row is read by its key, and a range of keys by a range of fields")


def finds(departures: RowTable[Departure]) -> None:
    late = list(departures.find(tailnum="N3", dep_delay=(80, None), order="-dep_delay", limit=5))
    assert [each.dep_delay for each in late] == sorted((each.dep_delay for each in late), reverse=True)
    assert all(each.tailnum == "N3" and each.dep_delay >= 80 for each in late)
    how = departures.explain(tailnum="N3", dep_delay=(80, None))
    assert (how.index, how.entries) == ("by_tail", how.rows)
    moved = departures.put(Departure("UA", 3, "N3", 999.0, 180))
    assert [each.flight for each in departures.find(tailnum="N3", dep_delay=999.0, after=moved.token)] == [3]
    print(f"ok  rows are found by an index that knows each write at once: {how}")


def updates(departures: RowTable[Departure]) -> None:
    before = departures.get("DL", 8)
    departures.update("DL", 8, add={"seats": -1}, set={"tailnum": "N99"})
    after = departures.get("DL", 8)
    assert before is not None
    assert after == Departure("DL", 8, "N99", before.dep_delay, before.seats - 1)
    assert [each.flight for each in departures.find(tailnum="N99")] == [8]
    print("ok  two that update one row lose nothing: the log decides each field")


def refusals(departures: RowTable[Departure]) -> None:
    unfit = Departure("UA", 1, "N1", 2.0, "many")  # type: ignore[arg-type]
    why = refusal(lambda: departures.put(unfit))
    assert "seats" in why
    assert "(seats)" in refusal(lambda: list(departures.find(seats=180)))
    print(f"ok  a row that does not fit never leaves, and a find says which index it needs: {why}")


def refusal(call: Callable[[], object]) -> str:
    """Why a call is refused."""
    try:
        call()
    except duramen.DuramenError as refused:
        return refused.message
    raise AssertionError("it was not refused")


def changes_of_the_schema(db: Database, departures: RowTable[Departure]) -> None:
    gated = departures.alter(row=GatedDeparture)
    gated.put(GatedDeparture("UA", 2000, "N1", 0.0, 180, gate="B7"))
    old, new = gated.get("UA", 7), gated.get("UA", 2000)
    assert old is not None
    assert new is not None
    assert (old.gate, new.gate) == ("-", "B7")
    assert db.table("departures", row=Departure).get("UA", 2000) == Departure("UA", 2000, "N1", 0.0, 180)
    print("ok  another schema: old rows have its defaults, and programs with the old type go on")


if __name__ == "__main__":
    main()
