"""A table with a definition, here and over gRPC: who writes what does not fit hears of it, and nobody else does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from kit.client.four_ways import four_ways
from kit.cluster.one_machine import DEADLINE_S
from kit.deadlines import until_true
from kit.flight_rows import FLIGHTS, UNNUMBERED_FLIGHTS, flight, flight_key

import duramen
from duramen.client.model.results import Done
from log_tier.model.identifiers import table_id_from_bytes
from log_tier.rows.table_spec import TableSpec


@pytest.fixture(params=["asynchronous, here", "asynchronous, gRPC"])
async def db(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Any]:
    async with four_ways(request.param, tmp_path / "data", lambda: request.getfixturevalue("emptied_server")) as opened:
        yield opened


@pytest.fixture
async def table(db: Any) -> Any:
    """Of the bytes that are stored: what writes through it is held to nothing before it leaves."""
    await db.connection.create_table(TableSpec("flights", 4, definition=UNNUMBERED_FLIGHTS), timeout=DEADLINE_S)
    return db.table("flights")


async def test_rows_that_fit(table: Any) -> None:
    done = await table.put(flight_key("UA", 7), flight("UA", 7))
    assert await table.get(flight_key("UA", 7), after=done.token) == flight("UA", 7)
    assert await table.put_many((flight_key("UA", n), flight("UA", n)) for n in range(100))
    assert len(await table.get_many([flight_key("UA", n) for n in range(100)])) == 100


async def test_what_does_not_fit(table: Any) -> None:
    key = flight_key("UA", 7)
    await table.put(key, flight("UA", 7))
    for wrong in (b"", b"junk", flight("UA", 8), flight("UA", 7, schema=2)):
        with pytest.raises(duramen.RowRejected, match="does not fit the table's definition"):
            await table.put(key, wrong)
    with pytest.raises(duramen.RowRejected):
        await table.update(key, add=1)
    assert await table.get(key) == flight("UA", 7)


@pytest.mark.embedded_log_only
async def test_why_it_does_not_fit(table: Any) -> None:
    """Said where the verdict comes with the write: on a busy machine, and with a slower log, the write may be over
    before it. So it is tried until it is.
    """
    key = flight_key("UA", 7)
    for wrong, why in (
        (b"junk", "the value is no row"),
        (flight("UA", 8), "the field flight is 8 in the row, and another in the key"),
        (flight("UA", 7, schema=2), "the table has no schema 2"),
    ):

        async def said(value: bytes = wrong, why: str = why) -> bool:
            with pytest.raises(duramen.RowRejected, match="does not fit the table's definition") as caught:
                await table.put(key, value)
            return f"does not fit the table's definition: {why}" in str(caught.value)

        await until_true(said)
    with pytest.raises(duramen.RowRejected, match="takes no arithmetic"):
        await table.update(key, add=1)


async def test_two_at_once(table: Any) -> None:
    """Their records leave in one batch, and one of the two does not fit."""
    good = [table.put(flight_key("UA", n), flight("UA", n)) for n in range(20)]
    bad = [table.put(flight_key("UA", 100 + n), b"junk") for n in range(20)]
    results = await asyncio.gather(
        *(each for pair in zip(good, bad, strict=True) for each in pair), return_exceptions=True
    )
    assert [type(each) for each in results[::2]] == [Done] * 20
    assert [type(each) for each in results[1::2]] == [duramen.RowRejected] * 20
    assert await table.get(flight_key("UA", 19)) == flight("UA", 19)
    assert await table.get(flight_key("UA", 100)) is None


async def test_many_rows_and_one_that_does_not_fit(table: Any) -> None:
    rows = [(flight_key("UA", n), flight("UA", n)) for n in range(3000)]
    rows[1500] = (flight_key("UA", 1500), b"junk")
    with pytest.raises(duramen.RowRejected):
        await table.put_many(rows)


async def test_an_atomic_batch(table: Any) -> None:
    batch = table.batch()
    batch.put(flight_key("UA", 1), flight("UA", 1))
    batch.put(flight_key("UA", 2), b"junk")
    with pytest.raises(duramen.RowRejected):
        await batch.commit()
    assert await table.get(flight_key("UA", 1)) is None


async def test_the_definition_can_be_asked_for(db: Any, table: Any) -> None:
    ref = await db.connection.find_table("flights", timeout=DEADLINE_S)
    assert ref.defined
    assert await db.connection.definition(ref.id, timeout=DEADLINE_S) == FLIGHTS
    plain = await db.create_table("plain")
    ref = await db.connection.find_table(plain.name, timeout=DEADLINE_S)
    assert (ref.defined, await db.connection.definition(ref.id, timeout=DEADLINE_S)) == (False, None)
    with pytest.raises(duramen.TableNotFound):
        await db.connection.definition(table_id_from_bytes(bytes(16)), timeout=DEADLINE_S)
