"""Finding rows by ordered indexes, end to end: embedded, over gRPC, over the RESP endpoint; blocking and not."""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from kit.rows.flights import Flight

import duramen
from duramen import aio
from duramen.blocking import Database, RowTable

FLIGHTS = [Flight("UA", n, "N14228" if n % 3 else None, float(n % 90)) for n in range(100)]
INDEXES = {"by_tail": ("tailnum", "dep_delay"), "by_delay": "dep_delay"}


@dataclass
class LaterFlight:
    """A flight in a schema that came later."""

    carrier: str
    flight: int
    tailnum: str | None
    dep_delay: float
    remark: str = ""
    gate: str | None = None


@dataclass
class Airport:
    code: str


@dataclass
class FlownLeg:
    number: int
    origin: Airport | None = None
    hours: float = 0.0
    marks: list[str] = field(default_factory=list)


@pytest.fixture
def table(db: Database) -> RowTable[Flight]:
    made = db.create_table("flights", row=Flight, key=("carrier", "flight"), partitions=4, indexes=INDEXES)
    made.put_many(FLIGHTS)
    return made


def numbers(table: RowTable[Flight], **how: object) -> list[int]:
    return [each.flight for each in table.find(**how)]  # type: ignore[arg-type]


def test_rows_are_found_in_the_order_of_an_index(table: RowTable[Flight]) -> None:
    by_delay = sorted((each for each in FLIGHTS if each.tailnum), key=lambda each: (each.dep_delay, each.flight))
    assert list(table.find(tailnum="N14228", order="dep_delay")) == by_delay
    assert numbers(table, tailnum="N14228", order="-dep_delay", limit=5) == [89, 88, 86, 85, 83]
    assert numbers(table, tailnum=None, dep_delay=(60, None)) == [60, 63, 66, 69, 72, 75, 78, 81, 84, 87]
    assert numbers(table, dep_delay=(3, 5)) == [3, 93, 4, 94]
    assert numbers(table, dep_delay=3, tailnum=None) == [3, 93]
    assert numbers(table, carrier="UA", flight=(10, 13)) == [10, 11, 12]
    assert numbers(table, dep_delay=(3, 5), limit=0) == []
    assert numbers(table, dep_delay=(3, 5), limit=3, remark="") == [3, 93, 4]


def test_an_index_follows_its_rows(table: RowTable[Flight]) -> None:
    moved = table.put(Flight("UA", 3, "N1", 500.0))
    assert numbers(table, dep_delay=500.0, after=moved.token) == [3]
    assert numbers(table, dep_delay=3.0) == [93]
    gone = table.delete("UA", 93)
    assert numbers(table, dep_delay=3.0, after=gone.token) == []
    batch = table.batch().put(Flight("UA", 4, "N1", 500.0)).put(Flight("UA", 4, "N1", 501.0))
    batch.commit()
    assert numbers(table, tailnum="N1") == [3, 4]
    assert numbers(table, tailnum="N1", order="-dep_delay", limit=1) == [4]


def test_more_rows_than_a_page_come_once_each(db: Database) -> None:
    table = db.create_table("many", row=Flight, key=("carrier", "flight"), partitions=3, indexes=INDEXES)
    table.put_many(Flight("UA", n, f"N{n % 7}", float(n % 13)) for n in range(9000))
    found = numbers(table, order="dep_delay")
    assert sorted(found) == list(range(9000))
    assert found == sorted(range(9000), key=lambda n: (n % 13, n))
    assert numbers(table, order="-dep_delay") == found[::-1]


@pytest.mark.parametrize("order", ["flight", "-flight", "-remark", ("remark", "flight"), ("-remark", "-dep_delay")])
@pytest.mark.parametrize("limit", [None, 0, 1, 7, 1000])
def test_an_order_that_no_index_has(db: Database, order: str | tuple[str, ...], limit: int | None) -> None:
    """The rows are those without it, sorted; of those that are alike the order is that of the entries."""
    table = db.create_table("sorted", row=Flight, key=("carrier", "flight"), partitions=3, indexes=INDEXES)
    rows = [Flight("UA", n, f"N{n % 2}", float(n * 31 % 17), "abc"[n % 3]) for n in range(200)]
    table.put_many(rows)
    fields = (order,) if isinstance(order, str) else order
    down = fields[0].startswith("-")
    for more in ({}, {"remark": ("b", None)}):
        met = [row for row in rows if row.tailnum == "N1" and row.remark >= ("b" if more else "")]
        expected = sorted(
            met,
            key=lambda row: (
                [getattr(row, each.removeprefix("-")) for each in fields],
                (row.dep_delay, row.flight),
            ),
            reverse=down,
        )
        found = list(table.find(more, tailnum="N1", order=order, limit=limit))
        assert found == expected[:limit]
    shown = table.explain(tailnum="N1", order=order, limit=limit)
    assert (shown.index, shown.sorted_by, shown.entries) == ("by_tail", fields, 100)
    assert shown.rows == (100 if limit is None else min(limit, 100))


async def test_it_is_sorted_by_rows_of_all_schemas(connected: Any) -> None:
    """Of a schema that came after the program had opened the table, too."""
    one, other = await connected(), await connected()
    flights = await one.create_table("altered", row=Flight, key=("carrier", "flight"), indexes=INDEXES)
    await flights.put_many([Flight("UA", number, "N1", 1.0) for number in range(5)])
    theirs = other.table("altered", row=Flight)
    last = theirs.find(tailnum="N1", order="-flight", limit=2, level="strong")
    assert [each.flight async for each in last] == [4, 3]
    await flights.alter(row=LaterFlight)
    newer = one.table("altered", row=LaterFlight)
    await newer.put_many([LaterFlight("UA", number, "N1", 1.0, gate="B7") for number in range(5, 9)])
    found = [each.flight async for each in theirs.find(tailnum="N1", order="-flight", level="strong")]
    assert found == [8, 7, 6, 5, 4, 3, 2, 1, 0]


def test_explain_says_what_was_read(table: RowTable[Flight]) -> None:
    shown = table.explain(tailnum="N14228", dep_delay=(60, None))
    assert (shown.index, shown.fields, shown.partitions) == ("by_tail", ("tailnum", "dep_delay"), 4)
    assert shown.entries == shown.rows == 20
    assert shown.looked_at == ()
    looked = table.explain(dep_delay=(60, None), remark="no such")
    assert (looked.index, looked.entries, looked.rows, looked.looked_at) == ("by_delay", 30, 0, ("remark",))
    by_key = table.explain(carrier="UA", flight=7)
    assert (by_key.index, by_key.fields, by_key.partitions, by_key.rows) == ("", ("carrier", "flight"), 1, 1)
    assert str(shown) == "the index by_tail (tailnum, dep_delay): 4 partitions asked, 20 entries read, 20 rows"
    assert "each looked at for remark" in str(looked)


def test_rows_that_lie_together_are_asked_for_in_one_partition(db: Database) -> None:
    table = db.create_table(
        "together",
        row=Flight,
        key=("carrier", "flight"),
        partition_by="carrier",
        partitions=8,
        indexes={"by_tail": ("tailnum", "carrier"), "by_delay": "dep_delay"},
    )
    carriers = [f"C{number}" for number in range(12)]
    rows = [Flight(each, n, f"N{n % 3}", float(n % 50)) for each in carriers for n in range(500)]
    table.put_many(rows)
    for each in carriers:
        found = list(table.find(carrier=each, tailnum="N1", dep_delay=(10, 20), order="dep_delay"))
        expected = [row for row in rows if row.carrier == each and row.tailnum == "N1" and 10 <= row.dep_delay < 20]
        assert found == sorted(expected, key=lambda row: (row.dep_delay, row.flight))
    shown = table.explain(carrier="C7", dep_delay=(10, None), order="dep_delay")
    assert (shown.index, shown.partitions, shown.rows, shown.looked_at) == ("by_delay", 1, 400, ("carrier",))
    assert shown.entries < len(rows) * 0.8, "those of the other partitions did not come over"
    assert table.explain(carrier="C7", tailnum="N1").partitions == 1
    for conditions in ({"tailnum": "N1"}, {"carrier": ("C7", None), "tailnum": "N1"}, {"flight": 7, "tailnum": "N1"}):
        assert table.explain(conditions).partitions == 8
    moved = table.put(Flight("C7", 7, "N1", 49.5))
    assert [row.flight for row in table.find(carrier="C7", dep_delay=49.5, after=moved.token)] == [7]


def test_what_no_index_serves_is_refused_with_the_one_that_would(table: RowTable[Flight]) -> None:
    with pytest.raises(duramen.InvalidRequest, match=r"no index serves this: one of the fields \(remark\) would"):
        numbers(table, remark="late")
    with pytest.raises(duramen.InvalidRequest, match="the condition on tailnum: it is a str, 7 is a int"):
        numbers(table, tailnum=7)
    with pytest.raises(duramen.InvalidRequest, match="limit is a whole number"):
        numbers(table, tailnum="N1", limit=-1)


def test_fields_inside_others_none_and_what_is_no_number(db: Database) -> None:
    legs = db.create_table(
        "legs", row=FlownLeg, key="number", indexes={"by_origin": ("origin.code", "hours"), "by_hours": "hours"}
    )
    rows = [
        FlownLeg(1, Airport("EWR"), 2.0),
        FlownLeg(2, None, 1.0, ["a"]),
        FlownLeg(3, Airport("EWR"), -0.0),
        FlownLeg(4, Airport("JFK"), math.nan),
        FlownLeg(5, Airport("EWR"), math.inf),
    ]
    legs.put_many(rows)
    assert [each.number for each in legs.find({"origin.code": "EWR"})] == [3, 1, 5]
    assert [each.number for each in legs.find({"origin.code": None})] == [2]
    assert [each.number for each in legs.find(order="hours")] == [3, 2, 1, 5, 4]
    assert [each.number for each in legs.find(hours=(1, None))] == [2, 1, 5]
    assert [each.number for each in legs.find(hours=math.nan)] == [4]
    assert [each.number for each in legs.find(hours=0.0)] == [3]


@pytest.mark.parametrize(
    ("indexes", "why"),
    [
        ({"by_gate": "gate"}, "the index by_gate: the schema .* has no field gate"),
        ({"by tail": "tailnum"}, "a name has 1 to 64 letters"),
        ({"by_tail": ()}, "1 to 16 fields"),
        ({"by_tail": ("tailnum", "tailnum")}, "twice"),
    ],
)
def test_an_index_that_rows_do_not_have_is_refused(db: Database, indexes: dict[str, str], why: str) -> None:
    with pytest.raises(duramen.InvalidSchema, match=why):
        db.create_table("flights", row=Flight, key=("carrier", "flight"), indexes=indexes)
    with pytest.raises(duramen.InvalidRequest, match="indexes= are of rows"):
        db.create_table("plain", indexes={"by_tail": "tailnum"})


def test_a_table_begins_with_an_index_of_some_rows(db: Database) -> None:
    """It has the rows that meet its conditions, and is what `create_index` makes."""
    late = duramen.OrderedIndex("tailnum", "flight", where={"dep_delay": (60.0, None)})
    made = db.create_table("some", row=Flight, key=("carrier", "flight"), partitions=2, indexes={"late": late})
    made.put_many(FLIGHTS)
    expected = [each.flight for each in FLIGHTS if each.tailnum and each.dep_delay >= 60.0]
    assert numbers(made, tailnum="N14228", dep_delay=(60.0, None)) == expected
    assert made.explain(tailnum="N14228", dep_delay=(60.0, None)).index == "late"
    with pytest.raises(duramen.InvalidRequest, match="no index"):
        numbers(made, tailnum="N14228")
    made.create_index("late", *late.fields, where=late.where)
    assert [each.where for each in made.indexes()] == [{"dep_delay": (60.0, None)}]
    assert repr(late) == "OrderedIndex('tailnum', 'flight', where={'dep_delay': (60.0, None)})"


@pytest.mark.parametrize(
    ("where", "why"),
    [({"gate": "B7"}, "gate"), ({"dep_delay": "late"}, "dep_delay"), ([("dep_delay", 1.0)], "where= maps fields")],
)
def test_conditions_of_a_first_index_that_are_none_are_refused(db: Database, where: Any, why: str) -> None:
    with pytest.raises(duramen.InvalidRequest, match=why):
        db.create_table(
            "some", row=Flight, key=("carrier", "flight"), indexes={"late": duramen.OrderedIndex("flight", where=where)}
        )
    assert "some" not in [each.name for each in db.tables()]


def test_a_row_too_long_for_an_index_is_refused(table: RowTable[Flight]) -> None:
    with pytest.raises(duramen.RowRejected, match=r"the index by_tail|does not fit the table's definition"):
        table.put(Flight("UA", 1, "N" * 600, 0.0))
    assert table.get("UA", 1) == FLIGHTS[1]


def test_two_writers_and_finders_at_once_see_whole_states(table: RowTable[Flight]) -> None:
    """A row that moves to and fro between two values is found once, whatever happens meanwhile."""
    stop = threading.Event()
    failed: list[object] = []

    def move() -> None:
        for turn in range(40):
            table.put(Flight("UA", 7, "N7", 1000.0 + turn % 2))
        stop.set()

    def look() -> None:
        while not stop.is_set():
            found = numbers(table, tailnum="N7")
            if found not in ([], [7]):
                failed.append(found)

    threads = [threading.Thread(target=each) for each in (move, look, look)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert failed == []
    assert numbers(table, tailnum="N7") == [7]


async def test_with_an_event_loop(tmp_path: Path) -> None:
    async with await aio.open(tmp_path / "data") as db:
        table = await db.create_table("flights", row=Flight, key=("carrier", "flight"), indexes=INDEXES)
        done = await table.put_many(FLIGHTS)
        found = [each.flight async for each in table.find(tailnum="N14228", order="-dep_delay", limit=2)]
        assert found == [89, 88]
        assert (await table.explain(dep_delay=(3, 5), after=done.token)).rows == 4


def test_a_database_that_is_opened_again_has_its_indexes(tmp_path: Path) -> None:
    with duramen.open(tmp_path / "data") as db:
        db.create_table("flights", row=Flight, key=("carrier", "flight"), indexes=INDEXES).put_many(FLIGHTS)
    with duramen.open(tmp_path / "data") as db:
        table = db.table("flights", row=Flight)
        assert numbers(table, dep_delay=(3, 5)) == [3, 93, 4, 94]
