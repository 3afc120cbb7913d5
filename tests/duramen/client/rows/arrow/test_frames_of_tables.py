"""Tables of rows as Arrow, and frames as rows: blocking and with an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import make_dataclass, replace
from pathlib import Path
from typing import Any

import pandas
import pyarrow as pa
import pytest
from kit.rows.flights import WIDE, Flight, Wide

import duramen
from duramen import aio
from duramen.blocking import Database, RowTable

KEY = ("carrier", "flight")
FLIGHTS = [
    Flight(carrier, number, "N14228" if number % 3 else None, float(number % 90))
    for carrier in ("AA", "UA")
    for number in range(1500)
]


@pytest.fixture
def table(db: Database) -> RowTable[Flight]:
    """Three thousand flights, so several pages."""
    made = db.create_table("flights", row=Flight, key=KEY, partitions=3)
    made.put_many(FLIGHTS)
    return made


def rows_of(found: Any) -> list[Flight]:
    return [Flight(**each) for each in found.to_pylist()]


def test_a_table_is_read_as_arrow(table: RowTable[Flight]) -> None:
    found = table.to_arrow()
    assert found.schema.names == ["carrier", "flight", "tailnum", "dep_delay", "remark"]
    assert rows_of(found) == FLIGHTS
    chosen = table.to_arrow(["dep_delay", "flight"], where={"carrier": "UA", "flight": (1000, None), "tailnum": None})
    wanted = [each for each in FLIGHTS if each.carrier == "UA" and each.flight >= 1000 and each.tailnum is None]
    assert chosen.to_pylist() == [{"dep_delay": each.dep_delay, "flight": each.flight} for each in wanted]
    assert rows_of(table.to_arrow(limit=1200)) == FLIGHTS[:1200]
    assert rows_of(table.to_arrow(where={"dep_delay": 5.0}, limit=2)) == [FLIGHTS[5], FLIGHTS[95]]
    assert table.to_arrow(where={"carrier": "B6"}).num_rows == 0


def test_it_shows_what_a_token_says(table: RowTable[Flight]) -> None:
    done = table.put(Flight("ZZ", 1, None, 0.0))
    assert table.to_arrow(["flight"], where={"carrier": "ZZ"}, after=done.token).num_rows == 1


def test_a_table_is_read_by_the_stream_protocol(table: RowTable[Flight]) -> None:
    assert pa.table(table).equals(table.to_arrow())
    reader = table.arrow_batches(["flight"])
    first = next(reader)
    assert 0 < first.num_rows < len(FLIGHTS)
    reader.close()
    assert pa.table(table).to_pandas()["flight"].tolist() == [each.flight for each in FLIGHTS]


def narrowed(found: Any) -> Any:
    """Other types for the same values, and a column less, which has a default."""
    types = {"carrier": pa.large_string(), "flight": pa.int16(), "tailnum": pa.string_view(), "dep_delay": pa.float64()}
    return found.drop_columns(["remark"]).cast(pa.schema(types))


@pytest.mark.parametrize(
    "frame",
    [
        lambda found: found,
        lambda found: found.to_reader(),
        lambda found: found.combine_chunks().to_batches()[0],
        lambda found: found.to_pandas(),
        narrowed,
    ],
)  # fmt: skip
def test_frames_are_put(db: Database, table: RowTable[Flight], frame: Callable[[Any], Any]) -> None:
    copy = db.create_table("copy", row=Flight, key=KEY, partitions=2)
    done = copy.put_many(frame(table.to_arrow()))
    assert done.records == len(FLIGHTS)
    assert list(copy.scan(after=done.token)) == FLIGHTS


def test_a_table_is_put_into_another_one(db: Database, table: RowTable[Flight]) -> None:
    """The stream waits for the event loop, and is read outside of it."""
    copy = db.create_table("copy", row=Flight, key=KEY)
    copy.put_many(table)
    assert list(copy.scan()) == FLIGHTS
    with copy.writer("once more") as writer:
        writer.put_rows(table)
    assert writer.written == len(FLIGHTS)


def test_a_row_that_does_not_fit_is_named(table: RowTable[Flight]) -> None:
    frame = pandas.DataFrame({"carrier": ["XX", "XX"], "flight": [1, 1.5], "tailnum": None, "dep_delay": 0.0})
    with pytest.raises(duramen.InvalidRow, match=r"^row 1 of put_many: the field flight is 1\.5") as caught:
        table.put_many(frame)
    assert caught.value.fields["field"] == "flight"
    with pytest.raises(duramen.InvalidSchema, match="gate: it is no field of Flight"):
        table.put_many(frame.assign(gate="B7"))
    with table.writer("frames") as writer:
        writer.put_rows(frame.head(1))
        with pytest.raises(duramen.InvalidRow, match=r"^row 2 of the writer"):
            writer.put_rows(frame)
    assert writer.written == 2


def test_every_type_goes_both_ways(db: Database) -> None:
    columns = [name for name in Wide.__dataclass_fields__ if name != "parts"]
    table = db.create_table("wide", row=Wide, key="id")
    rows = [WIDE, replace(WIDE, id=1, either=None, maybe=WIDE.seat, by_name={}), replace(WIDE, id=2, either="text")]
    table.put_many(rows)
    with pytest.raises(duramen.InvalidSchema, match=r"have themselves inside.*leave it out by columns="):
        table.to_arrow()
    found = table.to_arrow(columns)
    again = db.create_table("again", row=Wide, key="id")
    none = pa.array([[]] * len(rows), pa.list_(pa.null()))
    again.put_many(found.append_column("parts", none))
    assert list(again.scan()) == rows


def test_rows_of_older_schemas_are_read_by_the_newest(db: Database) -> None:
    """A class that the table had first reads and writes by its own schema; Arrow has the newest one's columns."""
    table = db.create_table("flights", row=Flight, key=KEY)
    table.put(FLIGHTS[0])
    assert table.to_arrow()["remark"].to_pylist() == [""]


def test_an_argument_that_is_none_is_refused(table: RowTable[Flight]) -> None:
    for arguments, message in (
        ({"columns": ["gate"]}, "no column 'gate'"),
        ({"limit": -1}, "limit is a whole number"),
        ({"where": {"gate": 1}}, "names 'gate'"),
    ):
        with pytest.raises(duramen.InvalidRequest, match=message):
            table.to_arrow(**arguments)


async def test_with_an_event_loop(tmp_path: Path) -> None:
    async with await aio.open(tmp_path / "data") as db:
        table = await db.create_table("flights", row=Flight, key=KEY, partitions=3)
        done = await table.put_many(FLIGHTS)
        found = await table.to_arrow(after=done.token)
        assert rows_of(found) == FLIGHTS
        batches = table.arrow_batches(["flight"], where={"carrier": "UA"})
        first = await anext(batches)
        assert first.column(0)[0].as_py() == 0
        await batches.aclose()
        copy = await db.create_table("copy", row=Flight, key=KEY)
        copied, _ = await asyncio.gather(copy.put_many(found), table.get("UA", 1))
        assert copied.records == len(FLIGHTS)
        assert (await copy.to_arrow()).equals(found)


def test_a_class_made_at_run_time_has_columns(db: Database) -> None:
    made = make_dataclass("Pair", [("k", int), ("v", list[float])])
    table: RowTable[Any] = db.create_table("pairs", row=made, key="k")
    table.put_many(made(number, [0.5] * number) for number in range(5))
    assert table.to_arrow(["v"])["v"].to_pylist() == [[0.5] * number for number in range(5)]
