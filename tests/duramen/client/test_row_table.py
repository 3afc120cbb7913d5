"""Tables of rows, end to end: embedded, over gRPC, over the RESP endpoint; blocking and with an event loop."""

from __future__ import annotations

import pickle
from contextlib import aclosing
from dataclasses import dataclass, make_dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, assert_type

import pyarrow
import pytest
from kit.client.server_process import ServerProcess
from kit.rows.flights import WIDE, Flight, Wide

import duramen
from duramen import aio
from duramen.blocking import Database, RowTable, Table
from duramen.client.row_table import RowTable as AsyncRowTable
from log_tier.model.record import Operation

FLIGHTS = [Flight("UA", number, "N14228" if number % 3 else None, float(number % 90)) for number in range(100)]
FLIGHT = FLIGHTS[7]


def test_it_is_as_it_is_written(tmp_path: Path) -> None:
    with duramen.open(tmp_path / "data") as db:
        flights = db.create_table("flights", row=Flight, key=("carrier", "flight"))
        first = flights.put(Flight("UA", 1545, "N14228", 2.0))
        many = flights.put_many(Flight("UA", n, "N14228" if n % 3 else None, float(n % 90)) for n in range(1000))
        assert flights.get("UA", 1545, after=first.token) == Flight("UA", 1545, "N14228", 2.0)
        assert [flight.flight for flight in flights.scan(carrier="UA", flight=(10, 20))] == list(range(10, 20))
        assert many.records == 1000
        assert flights.get("UA", 1546) is None


@pytest.fixture
def table(db: Database) -> RowTable[Flight]:
    """A hundred flights."""
    made = db.create_table("flights", row=Flight, key=("carrier", "flight"), partitions=4)
    assert_type(made, RowTable[Flight])
    made.put_many(FLIGHTS)
    return made


def test_rows_are_read_by_their_key(table: RowTable[Flight]) -> None:
    found = table.get("UA", 7)
    assert_type(found, Flight | None)
    assert found == FLIGHT
    assert table.get("UA", 1000) is None
    assert table.get_many([("UA", 5), ("AA", 5), ("UA", 6)]) == [FLIGHTS[5], None, FLIGHTS[6]]
    entry = table.get_entry("UA", 7)
    assert entry is not None
    assert entry.value == FLIGHT
    assert table.get_entry("AA", 7) is None


def test_conditions_and_expiry_are_those_of_bytes(table: RowTable[Flight]) -> None:
    with pytest.raises(duramen.ConditionFailed):
        table.put(FLIGHT, if_absent=True)
    later = replace(FLIGHT, remark="late")
    entry = table.get_entry("UA", 7)
    assert entry is not None
    done = table.put(later, if_version=entry.version, ttl=3600)
    found = table.get_entry("UA", 7, after=done.token)
    assert found is not None
    assert (found.value, found.version) == (later, done.offset)
    assert found.expires_at_ms > 0
    table.delete("UA", 7, if_version=done.offset)
    assert table.get("UA", 7) is None
    with pytest.raises(duramen.ConditionFailed):
        table.delete("UA", 7, if_present=True)


def test_scans_go_along_the_key(table: RowTable[Flight]) -> None:
    table.put(Flight("AA", 50, None, 0.0))
    numbers = [flight.flight for flight in table.scan(carrier="UA", flight=(10, 20))]
    assert numbers == list(range(10, 20))
    assert [flight.flight for flight in table.scan(carrier="UA", flight=(97, None))] == [97, 98, 99]
    assert [flight.flight for flight in table.scan(carrier="UA", reverse=True, limit=2)] == [99, 98]
    assert next(table.scan()).carrier == "AA"
    assert list(table.scan({"carrier": "UA", "flight": 7})) == [FLIGHT]
    assert list(table.scan(carrier="ZZ")) == []
    with pytest.raises(duramen.InvalidRequest, match="needs carrier"):
        list(table.scan(flight=7))


def test_a_watch_shows_rows(table: RowTable[Flight]) -> None:
    watch = table.watch()
    table.put(FLIGHT)
    table.delete("UA", 7)
    put, deleted = islice(watch, 2)
    watch.close()
    assert (put.operation, put.key, put.after) == (Operation.PUT, ("UA", 7), FLIGHT)
    assert (deleted.operation, deleted.key, deleted.after) == (Operation.DELETE, ("UA", 7), None)
    again = table.watch(after=put.token)
    assert next(again).offset == deleted.offset
    again.close()


def test_a_batch_is_of_rows_that_lie_together(db: Database) -> None:
    table = db.create_table("together", row=Flight, key=("carrier", "flight"), partition_by="carrier")
    done = table.batch().put(FLIGHT).put(replace(FLIGHT, flight=8)).delete("UA", 9).commit()
    assert len(done) == 3
    assert len(list(table.scan(carrier="UA"))) == 2
    with pytest.raises(duramen.ConditionFailed):
        table.batch().put(replace(FLIGHT, flight=10)).put(FLIGHT, if_absent=True).commit()
    assert table.get("UA", 10) is None
    wrong: Any = None
    batch = table.batch().put(replace(FLIGHT, flight=11)).put(replace(FLIGHT, flight=wrong))
    with pytest.raises(duramen.InvalidRow):
        batch.commit()
    assert table.get("UA", 11) is None


def test_what_does_not_fit_never_leaves(table: RowTable[Flight]) -> None:
    wrong: Any = "7"
    before = table.end_token()
    with pytest.raises(duramen.InvalidRow, match="the field flight is '7'"):
        table.put(replace(FLIGHT, flight=wrong))
    with pytest.raises(duramen.InvalidRow, match="row 1 of put_many: the field flight"):
        table.put_many([FLIGHT, replace(FLIGHT, flight=wrong)])
    with pytest.raises(duramen.InvalidRow):
        table.put(wrong)
    with pytest.raises(duramen.InvalidRequest, match="takes rows"):
        table.put_many(FLIGHT)  # type: ignore[arg-type]
    with pytest.raises(duramen.InvalidKey, match="flight"):
        table.get("UA", wrong)
    with pytest.raises(duramen.InvalidKey):
        table.get("UA")
    with pytest.raises(duramen.InvalidKey, match="tuple"):
        table.get_many(["UA"])  # type: ignore[list-item]
    assert table.end_token() == before


def test_a_row_with_every_type_is_judged_to_fit(db: Database) -> None:
    table = db.create_table("wide", row=Wide, key="id")
    for number, row in enumerate((WIDE, replace(WIDE, either=None), replace(WIDE, either=5, parts=[WIDE]))):
        row = replace(row, id=number)
        table.put(row)
        assert table.get(number) == row


def test_two_types_of_rows_on_one_table(db: Database, table: RowTable[Flight]) -> None:
    again = db.table("flights", row=Flight)
    assert_type(again, RowTable[Flight])
    assert again.get("UA", 7) == FLIGHT
    types = {**dict.fromkeys(("carrier", "flight", "remark"), str), "tailnum": str | None, "dep_delay": float}
    other: Any = make_dataclass("Flight", list(types.items()))
    opened = db.table("flights", row=other)
    with pytest.raises(duramen.InvalidSchema, match="the table's") as refused:
        opened.get("UA", 7)
    assert refused.value.fields["field"] == "flight"
    assert table.get("UA", 7) == FLIGHT
    with pytest.raises(duramen.InvalidSchema, match="the table's"):
        db.create_table("flights", row=other, key=("carrier", "flight"), if_missing=True)
    with pytest.raises(duramen.InvalidSchema, match="keys are the fields"):
        db.create_table("flights", row=Flight, key="carrier", if_missing=True)
    same = db.create_table("flights", row=Flight, key=("carrier", "flight"), if_missing=True)
    assert same.get("UA", 7) == FLIGHT
    with pytest.raises(duramen.TableExists):
        db.create_table("flights", row=Flight, key="carrier")


def test_a_table_is_opened_as_what_it_is(db: Database, table: RowTable[Flight]) -> None:
    stored = db.table("flights")
    assert_type(stored, Table)
    assert stored.get(duramen.pack_key("UA", 7)) == table.stored.get(duramen.pack_key("UA", 7))
    db.create_table("plain").put(b"k", b"v")
    with pytest.raises(duramen.InvalidSchema, match='open it with table\\("plain"\\)'):
        db.table("plain", row=Flight).get("UA", 7)
    with pytest.raises(duramen.TableNotFound):
        db.table("missing", row=Flight).get("UA", 7)


def test_what_a_writer_of_bytes_puts_there_is_refused_by_the_log(table: RowTable[Flight]) -> None:
    key, value = duramen.pack_key("UA", 7), table.stored.get(duramen.pack_key("UA", 7))
    assert value is not None
    for wrong_key, wrong_value in (
        (key, b"x"),
        (b"other", value),
        (key, value + b"\0"),
        (key, b"\0\0\0\0\x63" + value[5:]),
    ):
        with pytest.raises(duramen.DuramenError):
            table.stored.put(wrong_key, wrong_value)
    assert table.get("UA", 7) == FLIGHT
    table.stored.put(key, value)


def test_a_table_that_was_made_again_has_another_codec(db: Database, table: RowTable[Flight]) -> None:
    @dataclass
    class Gate:
        carrier: str
        flight: int
        gate: str

    db.drop_table("flights")
    made = db.create_table("flights", row=Gate, key=("carrier", "flight"))
    made.put(Gate("UA", 7, "B7"))
    with pytest.raises((duramen.InvalidSchema, duramen.TableNotFound)):
        table.get("UA", 7)
    with pytest.raises(duramen.InvalidSchema) as refused:
        table.get("UA", 7)
    assert refused.value.fields["field"]


def test_rows_of_schemas_are_dicts(db: Database) -> None:
    arrow = pyarrow.schema([pyarrow.field("k", pyarrow.int64(), nullable=False), pyarrow.field("v", pyarrow.string())])
    avro = {"type": "record", "name": "Row", "fields": [{"name": "k", "type": "long"}, {"name": "v", "type": "string"}]}
    for name, schema, row in (("arrow", arrow, {"k": 1, "v": None}), ("avro", avro, {"k": 1, "v": "x"})):
        table = db.create_table(name, row=schema, key="k")
        table.put(row)
        assert table.get(1) == row
        assert db.table(name, row=schema).get(1) == row


def test_a_table_of_rows_goes_to_another_process(server: ServerProcess, table_name: str) -> None:
    with server.connect() as db:
        table = db.create_table(table_name, row=Flight, key=("carrier", "flight"))
        table.put(FLIGHT)
        other = pickle.loads(pickle.dumps(table))
        assert other.get("UA", 7) == FLIGHT


async def test_the_same_with_an_event_loop(tmp_path: Path) -> None:
    async with await aio.open(tmp_path / "data") as db:
        table = await db.create_table("flights", row=Flight, key=("carrier", "flight"))
        assert_type(table, AsyncRowTable[Flight])
        done = await table.put_many(FLIGHTS)
        found = await table.get("UA", 7, after=done.token, level="strong")
        assert_type(found, Flight | None)
        assert found == FLIGHT
        assert await table.get_many([("UA", 5)]) == [FLIGHTS[5]]
        assert [row async for row in table.scan(carrier="UA", flight=(3, 5))] == FLIGHTS[3:5]
        async with aclosing(await table.watch()) as watch:
            await table.batch().put(FLIGHT).commit()
            assert (await anext(watch)).after == FLIGHT
        await table.delete("UA", 7)
        assert await table.get_entry("UA", 7) is None
        assert (await table.describe()).table.name == "flights"
        opened = db.table("flights", row=Wide)
        with pytest.raises(duramen.InvalidSchema):
            await opened.get(1)
