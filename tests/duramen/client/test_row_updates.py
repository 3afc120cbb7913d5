"""Updates of fields, end to end: decided by log order, and refused before they leave where they do not fit."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from kit.client.four_ways import four_ways
from kit.flight_rows import flight_key
from kit.rows.flights import WIDE, Cabin, Flight, Seat, Wide

import duramen
from log_tier.model.record import Operation

UA7 = Flight("UA", 7, "N14228", 2.0)


@pytest.fixture(params=["asynchronous, here", "asynchronous, gRPC"])
async def db(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Any]:
    async with four_ways(request.param, tmp_path / "data", lambda: request.getfixturevalue("emptied_server")) as opened:
        yield opened


@pytest.fixture
async def table(db: Any) -> Any:
    made = await db.create_table("flights", row=Flight, key=("carrier", "flight"), partitions=4, partition_by="carrier")
    await made.put(UA7)
    return made


async def test_fields_are_changed(table: Any) -> None:
    done = await table.update("UA", 7, add={"dep_delay": 1.5}, set={"tailnum": None, "remark": "late"})
    assert await table.get("UA", 7, after=done.token) == Flight("UA", 7, None, 3.5, "late")
    done = await table.update("UA", 7, append={"remark": "r"}, if_version=done.offset)
    entry = await table.get_entry("UA", 7)
    assert (entry.value.remark, entry.version, entry.expires_at_ms) == ("later", done.offset, 0)
    await table.update("UA", 7, max={"dep_delay": 9.0}, ttl=3600, if_present=True)
    entry = await table.get_entry("UA", 7)
    assert entry.expires_at_ms > 0
    await table.update("UA", 7, multiply={"dep_delay": 0.5})
    assert (await table.get_entry("UA", 7)).expires_at_ms == entry.expires_at_ms, "it is kept"


async def test_many_at_once_lose_nothing(table: Any) -> None:
    await asyncio.gather(*(table.update("UA", 7, add={"dep_delay": 1.0}) for _ in range(50)))
    assert await table.get("UA", 7) == replace(UA7, dep_delay=52.0)


async def test_what_the_log_refuses(table: Any) -> None:
    with pytest.raises(duramen.RowAbsent, match="there is no row"):
        await table.update("UA", 8, set={"remark": "x"})
    with pytest.raises(duramen.ConditionFailed):
        await table.update("UA", 7, set={"remark": "x"}, if_version=-1)
    await table.update("UA", 7, set={"dep_delay": 1e308})
    with pytest.raises(duramen.NumberOverflow, match="beyond the field's type"):
        await table.update("UA", 7, set={"remark": "x"}, add={"dep_delay": 1e308})
    await table.delete("UA", 7)
    with pytest.raises(duramen.RowAbsent):
        await table.update("UA", 7, set={"remark": "x"})
    assert await table.get("UA", 7) is None


async def test_what_does_not_fit_never_leaves(table: Any) -> None:
    end = await table.end_token()
    for given, field, expected in (
        ({"set": {"dep_delay": "late"}}, "dep_delay", "a float"),
        ({"set": {"dep_delay": None}}, "dep_delay", "a float"),
        ({"add": {"dep_delay": "1"}}, "dep_delay", "a float"),
        ({"add": {"remark": "x"}}, "remark", "add is not for string: it takes append, set"),
        ({"set": {"gate": "B7"}}, "gate", "there is no field gate"),
        ({"set": {"remark.x": "B7"}}, "remark.x", "there is no field x"),
        ({"set": {"flight": 8}}, "flight", "it is a field of the key"),
        ({"append": {"tailnum": 7}}, "tailnum", "a str"),
        ({"set": {"remark": "x"}, "append": {"remark": "y"}}, "remark", "the patch changes it twice"),
    ):
        with pytest.raises(duramen.InvalidRow) as caught:
            await table.update("UA", 7, **given)
        assert caught.value.fields["field"] == field
        assert expected in str(caught.value)
    nothing: list[dict[str, Any]] = [{}, {"set": {}}, {"set": ["remark"]}, {"set": {1: 2}}]
    for wrong in nothing:
        with pytest.raises(duramen.InvalidRequest):
            await table.update("UA", 7, **wrong)
    with pytest.raises(duramen.InvalidKey):
        await table.update("UA", set={"remark": "x"})
    assert await table.end_token() == end


async def test_a_batch_of_puts_and_updates(table: Any) -> None:
    batch = table.batch()
    batch.put(Flight("UA", 8, None, 1.0)).update("UA", 8, add={"dep_delay": 1.0}).update("UA", 7, set={"remark": "x"})
    dones = await batch.commit()
    assert len(dones) == 3
    assert await table.get_many([("UA", 7), ("UA", 8)]) == [replace(UA7, remark="x"), Flight("UA", 8, None, 2.0)]
    refused = table.batch().update("UA", 7, set={"remark": "y"}).update("UA", 9, set={"remark": "y"})
    with pytest.raises(duramen.RowAbsent, match="the atomic batch was rejected"):
        await refused.commit()
    assert (await table.get("UA", 7)).remark == "x"


async def test_two_in_one_batch_of_the_log(table: Any) -> None:
    """Of callers whose records leave together, each hears of its own."""
    calls = [table.update("UA", number, add={"dep_delay": 1.0}) for number in (7, 8, 7, 9)]
    found = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(each).__name__ for each in found] == ["Done", "RowAbsent", "Done", "RowAbsent"]
    assert (await table.get("UA", 7)).dep_delay == 4.0


async def test_junk_of_others_is_void(table: Any) -> None:
    with pytest.raises(duramen.RowRejected):
        await table.stored.batch().patch(flight_key("UA", 7), b"junk").commit()
    assert await table.get("UA", 7) == UA7


async def test_a_verdict_names_its_field(db: Any) -> None:
    schema = {
        "type": "record",
        "name": "Seats",
        "fields": [
            {"name": "id", "type": "int"},
            {"name": "left", "type": ["null", "int"]},
            {"name": "all", "type": "int"},
        ],
    }
    seats = await db.create_table("seats", row=schema, key="id", partitions=1)
    await seats.put({"id": 1, "left": None, "all": 100})
    with pytest.raises(duramen.FieldAbsent, match="null in the row: left") as caught:
        await seats.update(1, set={"all": 5}, add={"left": -1})
    assert caught.value.fields["field"] == "left"
    with pytest.raises(duramen.NumberOverflow, match="all") as full:
        await seats.update(1, min={"left": 5}, add={"all": (1 << 31) - 1})
    assert full.value.fields["field"] == "all"
    await seats.update(1, min={"left": 5}, add={"all": 1})
    assert await seats.get(1) == {"id": 1, "left": 5, "all": 101}


@pytest.mark.embedded_log_only
def test_every_type_of_python(tmp_path: Path) -> None:
    with duramen.open(tmp_path / "data") as db:
        wide = db.create_table("wide", row=Wide, key="id")
        wide.put(WIDE)
        key = WIDE.id
        other = Seat(9, "Z", Cabin.FIRST)
        wide.update(
            key,
            set={
                "is_open": False,
                "cabin": Cabin.ECONOMY,
                "seat": other,
                "seats": [other],
                "by_name": {"a": other},
                "maybe": other,
                "either": "x",
                "day": date(2026, 11, 28),
                "fallback": None,
                "parts": [WIDE],
                "unique": WIDE.unique,
            },
            add={"price": Decimal("0.99"), "tax": 0},
            min={"when": WIDE.when},
            append={"name": "!", "payload": b"!", "sizes": [[3]]},
        )
        assert wide.get(key) == replace(
            WIDE,
            is_open=False,
            cabin=Cabin.ECONOMY,
            seat=other,
            seats=[other],
            by_name={"a": other},
            maybe=other,
            either="x",
            day=date(2026, 11, 28),
            fallback=None,
            parts=[WIDE],
            price=Decimal("-9999999999.00"),
            name="Zürich\0!",
            payload=b"\0\xff!",
            sizes=[[], [1, 2], [3]],
        )
        wide.update(key, set={"seat.letter": "B", "maybe.cabin": Cabin.ECONOMY}, add={"seat.row": 1})
        found = wide.get(key)
        assert found is not None
        assert (found.seat, found.maybe) == (Seat(10, "B", Cabin.FIRST), Seat(9, "Z", Cabin.ECONOMY))
        with pytest.raises(duramen.InvalidRow, match="a Cabin"):
            wide.update(key, set={"seat.cabin": "FIRST"})


def test_it_is_there_after_a_restart(tmp_path: Path) -> None:
    with duramen.open(tmp_path / "data") as db:
        table = db.create_table("flights", row=Flight, key=("carrier", "flight"))
        table.put(UA7)
        table.update("UA", 7, set={"remark": "late"})
    with duramen.open(tmp_path / "data") as db:
        table = db.table("flights", row=Flight)
        table.update("UA", 7, append={"remark": "r"})
        assert table.get("UA", 7) == replace(UA7, remark="later")


def test_blocking_calls(tmp_path: Path) -> None:
    with duramen.open(tmp_path / "data") as db:
        table = db.create_table("flights", row=Flight, key=("carrier", "flight"), partition_by="carrier")
        table.put(UA7)
        done = table.update("UA", 7, set={"remark": "late"}, add={"dep_delay": 1.0}, if_present=True)
        table.batch().put(Flight("UA", 8, None, 0.0)).update("UA", 8, set={"tailnum": "N1"}).commit()
        assert [*table.scan(carrier="UA")] == [Flight("UA", 7, "N14228", 3.0, "late"), Flight("UA", 8, "N1", 0.0)]
        with pytest.raises(duramen.InvalidRow, match="add is not for string"):
            table.update("UA", 7, add={"remark": 1})
        with pytest.raises(duramen.ConditionFailed):
            table.update("UA", 7, set={"remark": ""}, if_version=done.offset + 100)
        changes = table.watch(start="earliest")
        found = {each.operation: each for each in (next(changes) for _ in range(4))}
        assert set(found) == {Operation.PUT, Operation.PATCH}
        assert (found[Operation.PATCH].key, found[Operation.PATCH].after) == (("UA", 8), None)
        changes.close()
