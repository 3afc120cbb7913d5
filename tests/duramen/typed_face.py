"""What type checkers say of tables of rows. Nobody runs it: mypy reads it with all other tests, pyright by a test.

Where a line must be refused, both have to refuse it: an ignore that ignores nothing is an error to both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, assert_type

from duramen import aio
from duramen.blocking import Database, RowTable, RowWriter, Table, TypedTable
from duramen.client.model.results import Done
from duramen.client.row_table import RowTable as AsyncRowTable
from duramen.client.rows.row_results import TypedChange, TypedEntry


@dataclass
class Crossing:
    carrier: str
    number: int


@dataclass
class GatedCrossing(Crossing):
    gate: str = "-"


def blocking(db: Database) -> None:
    crossings = db.create_table("crossings", row=Crossing, key=("carrier", "number"))
    assert_type(crossings, RowTable[Crossing])
    assert_type(db.table("crossings", row=Crossing), RowTable[Crossing])
    assert_type(crossings.get("UA", 7), Crossing | None)
    assert_type(crossings.get_many([("UA", 7)]), list[Crossing | None])
    assert_type(crossings.get_entry("UA", 7), TypedEntry[Crossing] | None)
    for crossing in crossings.scan(carrier="UA", number=(1, 9)):
        assert_type(crossing, Crossing)
    for change in crossings.watch():
        assert_type(change, TypedChange[Crossing])
        assert_type(change.after, Crossing | None)
    with crossings.writer("once") as writer:
        assert_type(writer, RowWriter[Crossing])
        writer.put(Crossing("UA", 7))
    crossings.batch().put(Crossing("UA", 7)).delete("UA", 8)
    assert_type(crossings.alter(row=GatedCrossing), RowTable[GatedCrossing])
    assert_type(db.alter_table("crossings", row={"type": "record"}, compatibility="full"), RowTable[dict[str, Any]])
    crossings.batch().update("UA", 7, set={"number": 8}).put(Crossing("UA", 9))
    assert_type(crossings.update("UA", 7, set={"number": 8}, if_version=1), Done)


def refused(db: Database) -> None:
    crossings = db.table("crossings", row=Crossing)
    crossings.put("UA")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    crossings.put_many([1])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]
    crossings.batch().put(b"row")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    crossings.update("UA", 7, set="number")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    crossings.writer("once").put(None)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    _ = crossings.get("UA", 7).carrier  # type: ignore[union-attr]  # pyright: ignore[reportOptionalMemberAccess]
    crossings.alter(row=GatedCrossing, compatibility="any")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
    db.table("names", key=str, value=str).put(1, "a")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def other_values(db: Database) -> None:
    names = db.create_table("names", key=str, value=str)
    assert_type(names, TypedTable[str, str])
    assert_type(names.get("a"), str | None)
    assert_type(db.create_table("plain"), Table)


async def with_an_event_loop(db: aio.Database) -> None:
    crossings = await db.create_table("crossings", row=Crossing, key=("carrier", "number"))
    assert_type(crossings, AsyncRowTable[Crossing])
    assert_type(await crossings.get("UA", 7), Crossing | None)
    assert_type(await crossings.alter(row=GatedCrossing), AsyncRowTable[GatedCrossing])
    async for crossing in crossings.scan():
        assert_type(crossing, Crossing)
    async for change in crossings.watch():
        assert_type(change.after, Crossing | None)
    await crossings.put("UA")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
