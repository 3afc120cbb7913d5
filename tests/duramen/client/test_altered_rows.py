"""A table's schema changes while programs with the earlier one go on; each of them has a server of its own."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from kit.rows.flights import Flight, GatedFlight

import duramen
from duramen import aio
from duramen.blocking import Database
from duramen.client.database import Database as AsyncDatabase
from duramen.client.row_table import RowTable
from log_tier.model.record import Operation


@dataclass
class BareFlight:
    """A flight of which rows of `Flight` cannot be made: what it leaves out has no default there."""

    carrier: str
    flight: int
    gate: str = "-"


OLD, NEW = Flight("UA", 1, None, 2.0), GatedFlight("UA", 2, "N14228", 3.0, "", "B7")


class CountedDefinitions:
    """Counts the requests of a client for definitions."""

    def __init__(self, database: AsyncDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[int] = []
        inner = database.connection.definition

        async def counted(table_id: Any, *, schema: int = 0, timeout: float) -> Any:
            self.asked.append(schema)
            return await inner(table_id, schema=schema, timeout=timeout)

        monkeypatch.setattr(database.connection, "definition", counted)


@pytest.fixture
async def programs(connected: Any) -> tuple[AsyncDatabase, AsyncDatabase]:
    """An old and a new one. The old one has opened its table."""
    return await connected(), await connected()


async def opened(old: AsyncDatabase) -> RowTable[Flight]:
    table = await old.create_table("flights", row=Flight, key=("carrier", "flight"), partitions=2)
    await table.put(OLD)
    return table


async def test_old_and_new_programs_read_and_write_each_others_rows(
    programs: tuple[AsyncDatabase, AsyncDatabase], monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = programs
    flights = await opened(old)
    gated = await new.alter_table("flights", row=GatedFlight)
    assert await gated.get("UA", 1, level="strong") == GatedFlight("UA", 1, None, 2.0, "", "-")
    token = (await gated.put(NEW)).token
    counted = CountedDefinitions(old, monkeypatch)
    found = await asyncio.gather(*(flights.get("UA", 2, after=token) for _ in range(10)))
    assert found == [Flight("UA", 2, "N14228", 3.0)] * 10
    assert counted.asked == [2], "one request for all of them"
    assert [row async for row in flights.scan(carrier="UA")] == [OLD, Flight("UA", 2, "N14228", 3.0)]
    token = (await flights.put(Flight("UA", 3, None, 4.0))).token
    assert await gated.get("UA", 3, after=token) == GatedFlight("UA", 3, None, 4.0)
    assert len(counted.asked) == 1


@pytest.mark.parametrize("how", ["get_entry", "get_many", "scan"])
async def test_each_way_of_reading_learns_of_the_schema(
    programs: tuple[AsyncDatabase, AsyncDatabase], how: str
) -> None:
    old, new = programs
    flights = await opened(old)
    token = (await (await new.alter_table("flights", row=GatedFlight)).put(NEW)).token
    wanted = Flight("UA", 2, "N14228", 3.0)
    if how == "get_entry":
        entry = await flights.get_entry("UA", 2, after=token)
        assert entry is not None
        assert entry.value == wanted
    elif how == "get_many":
        assert await flights.get_many([("UA", 2), ("UA", 9), ("UA", 1)], after=token) == [wanted, None, OLD]
    else:
        assert [row async for row in flights.scan(after=token)] == [OLD, wanted]


async def test_a_watch_goes_on_over_the_change(programs: tuple[AsyncDatabase, AsyncDatabase]) -> None:
    old, new = programs
    flights = await opened(old)
    seen = []
    async with aclosing(flights.watch(start="earliest")) as changes:
        await (await new.alter_table("flights", row=GatedFlight)).put(NEW)
        async for change in changes:
            seen.append((change.operation, change.key, change.after))
            if change.key == ("UA", 2):
                break
    assert (Operation.PUT, ("UA", 1), OLD) in seen
    assert seen[-1] == (Operation.PUT, ("UA", 2), Flight("UA", 2, "N14228", 3.0))
    assert {(key, after) for operation, key, after in seen if operation == Operation.BARRIER} == {(None, None)}


async def test_a_row_that_an_old_type_cannot_have(programs: tuple[AsyncDatabase, AsyncDatabase]) -> None:
    old, new = programs
    flights = await opened(old)
    bare = await new.alter_table("flights", row=BareFlight)
    token = (await bare.put(BareFlight("UA", 2))).token
    with pytest.raises(duramen.InvalidSchema, match="the field tailnum: rows of schema 2") as refused:
        await flights.get("UA", 2, after=token)
    assert refused.value.fields["field"] == "tailnum"
    assert await flights.get("UA", 1) == OLD, "its other rows are there"


async def test_what_may_not_follow_is_refused_by_the_field(programs: tuple[AsyncDatabase, AsyncDatabase]) -> None:
    old, new = programs
    flights = await opened(old)
    with pytest.raises(duramen.InvalidSchema, match="the field tailnum") as refused:
        await flights.alter(row=BareFlight, compatibility="full")
    assert refused.value.fields["field"] == "tailnum"
    with pytest.raises(duramen.InvalidSchema, match="compatibility is one of backward"):
        await flights.alter(row=BareFlight, compatibility="sideways")  # type: ignore[call-overload]
    await flights.alter(row=GatedFlight)
    with pytest.raises(duramen.CommandRejected, match="has definition 2 by now, with schema 2 of job"):
        await new.alter_table("flights", row=BareFlight, if_definition=1)
    await new.create_table("bytes")
    with pytest.raises(duramen.InvalidRequest, match="tables of rows alone have a schema"):
        await new.alter_table("bytes", row=GatedFlight)


async def test_a_number_that_the_table_does_not_have(
    programs: tuple[AsyncDatabase, AsyncDatabase], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No fold lets it in. One look, shared by all who meet it, and then an error that names it."""
    old, _ = programs
    flights = await opened(old)
    assert await flights.get("UA", 1) == OLD

    async def stored(*_: Any, **__: Any) -> bytes:
        return b"\0" + (77).to_bytes(4) + b"?"

    monkeypatch.setattr(flights.stored, "get", stored)
    counted = CountedDefinitions(old, monkeypatch)
    ended = await asyncio.gather(*(flights.get("UA", 1) for _ in range(10)), return_exceptions=True)
    assert all(isinstance(each, duramen.UnknownFormat) and each.fields["schema"] == 77 for each in ended)
    assert counted.asked == [77]


async def test_a_server_that_has_not_heard_of_the_schema_looks_again(
    programs: tuple[AsyncDatabase, AsyncDatabase], monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = programs
    await opened(old)
    before = await old.definition("flights")
    await new.alter_table("flights", row=GatedFlight)
    inner = old.connection.definition

    async def late(table_id: Any, *, schema: int = 0, timeout: float) -> Any:
        return await inner(table_id, schema=schema, timeout=timeout) if schema else before

    monkeypatch.setattr(old.connection, "definition", late)
    assert await old.table("flights", row=GatedFlight).get("UA", 1) == GatedFlight("UA", 1, None, 2.0)


def test_without_an_event_loop(tmp_path: Path) -> None:
    with duramen.open(tmp_path / "data") as db:
        assert isinstance(db, Database)
        flights = db.create_table("flights", row=Flight, key=("carrier", "flight"))
        flights.put(OLD)
        gated = flights.alter(row=GatedFlight)
        gated.put(NEW)
        wanted = Flight("UA", 2, "N14228", 3.0)
        assert list(flights.scan()) == [OLD, wanted]
        again = db.table("flights", row=Flight)
        assert again.get_many([("UA", 1), ("UA", 2)]) == [OLD, wanted]
        third = db.alter_table(
            "flights",
            row={
                "type": "record",
                "name": "Flight",
                "fields": [
                    {"name": "carrier", "type": "string"},
                    {"name": "flight", "type": "long"},
                    {"name": "seats", "type": "long", "default": 0},
                ],
            },
        )
        assert third.get("UA", 2) == {"carrier": "UA", "flight": 2, "seats": 0}
        third.put({"carrier": "UA", "flight": 4, "seats": 7})
        bare = db.table("flights", row=BareFlight)
        with pytest.raises(duramen.InvalidSchema):
            bare.get("UA", 4)


def test_rows_of_every_schema_are_there_after_a_restart(tmp_path: Path) -> None:
    with duramen.open(tmp_path / "data") as db:
        db.create_table("flights", row=Flight, key=("carrier", "flight")).put(OLD)
        db.alter_table("flights", row=GatedFlight).put(NEW)
    with duramen.open(tmp_path / "data") as db:
        found = db.table("flights", row=GatedFlight)
        assert list(found.scan()) == [GatedFlight("UA", 1, None, 2.0), NEW]
        definition = db.definition("flights")
        assert definition is not None
        assert [each.schema.name for each in definition.schemas] == ["Flight", "Flight"]


async def test_both_faces_say_the_same(tmp_path: Path) -> None:
    db = await aio.open(tmp_path / "data")
    try:
        flights = await db.create_table("flights", row=Flight, key=("carrier", "flight"))
        gated = await flights.alter(row=GatedFlight)
        assert repr(gated) == "<duramen table 'flights' of GatedFlight>"
        again = await flights.alter(row=GatedFlight)
        await again.put(NEW)
        assert await gated.get("UA", 2) == NEW
    finally:
        await db.close()
