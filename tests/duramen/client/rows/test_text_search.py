"""Searches in text indexes: embedded, and over a server; what happens to rows, folders, schemas and versions."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest
from kit.deadlines import patience_s, wait_until
from kit.rows.flights import Flight, GatedFlight

import duramen
from duramen.client.rows.row_indexes import IndexState

ROWS = [Flight("UA", n, None if n % 5 == 0 else f"N{n % 3}", 0.0, f"fog number{n}") for n in range(60)]


def carriers(matches: list[Any]) -> list[tuple[str, int]]:
    return sorted((each.row.carrier, each.row.flight) for each in matches)


def text_folders(folder: Path) -> list[Path]:
    return sorted((folder / "index").glob("*/*/text-*"))


def test_as_the_page_says(tmp_path: Path) -> None:
    with duramen.open(tmp_path / "data") as db:
        flights = db.create_table("flights", row=Flight, key=("carrier", "flight"), partitions=3)
        flights.put_many(ROWS)
        with pytest.raises(duramen.InvalidRequest, match="has no text index"):
            flights.search("fog")
        flights.create_index("words", ["tailnum", "remark"], kind="text")
        assert flights.indexes() == [IndexState("words", ("tailnum", "remark"), in_service=True, kind="text")]
        assert len(flights.search("fog", limit=100)) == 60
        (found,) = flights.search("number7 AND fog", limit=10)
        assert found.row == ROWS[7]
        assert found.score > 0
        assert found.highlights["remark"].text == "fog number7"
        assert found.highlights["remark"].spans == ((0, 3), (4, 11))
        assert flights.put(found.row, if_version=found.version).offset > found.version
        done = flights.put(Flight("DL", 1, None, 0.0, "delayed in Newark"))
        assert carriers(flights.search("delayed AND newark", after=done.token)) == [("DL", 1)]
        assert carriers(flights.search("tailnum:n1 AND number7")) == [("UA", 7)]
        assert flights.search("remark:n1") == []
        flights.create_index("words", ["tailnum", "remark"], kind="text")
        for other in (("remark",), ("remark", "tailnum")):
            with pytest.raises(duramen.InvalidSchema, match="one of that name already, by tailnum, remark"):
                flights.create_index("words", *other, kind="text")
        with pytest.raises(duramen.InvalidSchema, match="of another kind"):
            flights.create_index("words", "tailnum")
        flights.create_index("by_tail", "tailnum")
        assert [each.name for each in flights.indexes()] == ["words", "by_tail"]
        assert len(list(flights.find(tailnum="N1"))) > 0
    with duramen.open(tmp_path / "data") as db:
        flights = db.table("flights", row=Flight)
        assert carriers(flights.search("delayed", index="words", level="strong")) == [("DL", 1)]
        flights.drop_index("words")
        with pytest.raises(duramen.InvalidRequest, match="has no text index"):
            flights.search("fog")
        wait_until(lambda: not text_folders(tmp_path / "data"), seconds=30, what="the folders of the index are gone")
        assert len(list(flights.find(tailnum="N1"))) > 0


def test_what_cannot_be_asked_for(tmp_path: Path) -> None:
    with duramen.open(tmp_path / "data") as db:
        flights = db.create_table("flights", row=Flight, key=("carrier", "flight"))
        with pytest.raises(duramen.InvalidSchema, match="dep_delay is no text"):
            flights.create_index("words", "dep_delay", kind="text")
        with pytest.raises(duramen.InvalidSchema, match="has no field gate"):
            flights.create_index("words", "gate", kind="text")
        with pytest.raises(duramen.InvalidRequest, match="a text index has all rows"):
            flights.create_index("words", "remark", where={"carrier": "UA"}, kind="text")
        with pytest.raises(duramen.InvalidRequest, match="kind= is one of"):
            flights.create_index("words", "remark", kind="fuzzy")  # type: ignore[arg-type]
        flights.create_index("words", "remark", kind="text")
        flights.create_index("tails", "tailnum", kind="text")
        with pytest.raises(duramen.InvalidRequest, match="index= names one of several: words, tails"):
            flights.search("fog")
        with pytest.raises(duramen.InvalidRequest, match="no text index 'other'"):
            flights.search("fog", index="other")
        for limit in (0, -1, 1.5, None):
            with pytest.raises(duramen.InvalidRequest, match="limit is a whole number"):
                flights.search("fog", index="words", limit=limit)  # type: ignore[arg-type]
        with pytest.raises(duramen.LimitExceeded, match="1 to 1000 rows"):
            flights.search("fog", index="words", limit=1001)
        for query in ("remark:[a TO z]", "*", "fo*", "remark:/.*/", "(" * 50, "0key:a", "", "a" * 5000, "x\0"):
            with pytest.raises((duramen.InvalidRequest, duramen.LimitExceeded)):
                flights.search(query, index="words")
        with pytest.raises(duramen.InvalidRequest, match="a query is a str"):
            flights.search(b"fog", index="words")  # type: ignore[arg-type]


def test_updates_deletes_and_expiry(tmp_path: Path) -> None:
    with duramen.open(tmp_path / "data") as db:
        flights = db.create_table("flights", row=Flight, key=("carrier", "flight"), partitions=2)
        flights.create_index("words", "remark", kind="text")
        flights.put_many(ROWS)
        flights.update("UA", 7, set={"remark": "snow"})
        assert carriers(flights.search("snow")) == [("UA", 7)]
        assert len(flights.search("fog", limit=100)) == 59
        flights.delete("UA", 7)
        assert flights.search("snow") == []
        with pytest.raises(duramen.ConditionFailed):
            flights.put(Flight("UA", 8, None, 0.0, "never"), if_absent=True)
        assert flights.search("never") == []
        flights.put(Flight("UA", 9, None, 0.0, "soon"), ttl=0.5)
        assert carriers(flights.search("soon fog", limit=100))[0:1] == [("UA", 0)]
        wait_until(lambda: not flights.search("soon"), seconds=60, what="the row has expired")
        assert flights.get("UA", 9) is None


def test_many_writes_are_found_with_their_tokens(tmp_path: Path) -> None:
    with duramen.open(tmp_path / "data") as db:
        flights = db.create_table("flights", row=Flight, key=("carrier", "flight"), partitions=2)
        flights.create_index("words", "remark", kind="text")
        for number in range(100):
            done = flights.put(Flight("UA", number % 10, None, 0.0, f"word{number}"))
            (found,) = flights.search(f"word{number}", after=done.token)
            assert found.row.flight == number % 10
        assert len(flights.search(" ".join(f"word{number}" for number in range(60, 100)), limit=100)) == 10


def test_a_lost_or_damaged_folder_is_built_again(tmp_path: Path) -> None:
    for harm in ("lost", "noise", "ahead"):
        with duramen.open(tmp_path / "data") as db:
            flights = (
                db.create_table("flights", row=Flight, key=("carrier", "flight"), partitions=2)
                if harm == "lost"
                else db.table("flights", row=Flight)
            )
            if harm == "lost":
                flights.put_many(ROWS)
                flights.create_index("words", "remark", kind="text")
            assert len(flights.search("fog", limit=100)) == 60
        folders = text_folders(tmp_path / "data")
        assert len(folders) == 2
        for each in folders:
            if harm == "lost":
                shutil.rmtree(each)
            elif harm == "noise":
                for file in each.glob("*.*"):
                    file.write_bytes(b"\xff" * 100)
            else:
                (each / "meta.json").unlink()
    with duramen.open(tmp_path / "data") as db:
        flights = db.table("flights", row=Flight)
        assert len(flights.search("fog", limit=100)) == 60


def test_a_folder_that_is_lost_under_a_running_database(tmp_path: Path) -> None:
    with duramen.open(tmp_path / "data") as db:
        flights = db.create_table("flights", row=Flight, key=("carrier", "flight"), partitions=1)
        flights.create_index("words", "remark", kind="text")
        flights.put_many(ROWS)
        (folder,) = text_folders(tmp_path / "data")
        wait_until(lambda: any(folder.glob("*.store")), seconds=60, what="rows are on disk")
        shutil.rmtree(folder)
        flights.put(Flight("DL", 1, None, 0.0, "fog"))
        assert len(flights.search("fog", limit=100)) == 61
        wait_until(lambda: (folder / "meta.json").exists(), seconds=60, what="it is built again")
        assert len(flights.search("fog", limit=100, timeout=patience_s(30))) == 61


def test_a_schema_that_comes_later(tmp_path: Path) -> None:
    with duramen.open(tmp_path / "data") as db:
        flights = db.create_table("flights", row=Flight, key=("carrier", "flight"))
        flights.put_many(ROWS)
        flights.create_index("words", "remark", kind="text")
        gated = flights.alter(row=GatedFlight)
        gated.put(GatedFlight("DL", 1, None, 0.0, "fog", "B7"))
        found = gated.search("fog", limit=100)
        assert len(found) == 61
        assert {each.row.gate for each in found} == {"-", "B7"}
        with pytest.raises(duramen.InvalidSchema, match="has no field gate"):
            gated.create_index("gates", "gate", kind="text")


async def test_two_programs_over_a_server(connected: Any) -> None:
    one, other = await connected(), await connected()
    flights = await one.create_table("flights", row=Flight, key=("carrier", "flight"), partitions=3)
    theirs = other.table("flights", row=Flight)
    with pytest.raises(duramen.InvalidRequest, match="has no text index"):
        await theirs.search("fog")
    await flights.put_many(ROWS)
    await flights.create_index("words", ["remark", "tailnum"], kind="text")
    assert await theirs.indexes() == [IndexState("words", ("remark", "tailnum"), in_service=True, kind="text")]
    (found,) = await theirs.search("number7", level="strong")
    assert found.row == ROWS[7]
    assert found.highlights["remark"].spans == ((4, 11),)
    done = await flights.put(Flight("DL", 1, None, 0.0, "delayed"))
    assert carriers(await theirs.search("delayed", after=done.token)) == [("DL", 1)]
    with pytest.raises(duramen.InvalidRequest, match="outside of quotes"):
        await theirs.search("*")
    with pytest.raises(duramen.LimitExceeded):
        await theirs.search("fog", limit=5000)
    await flights.drop_index("words")
    await flights.create_index("words", "tailnum", kind="text")
    with pytest.raises(duramen.InvalidRequest, match="another one by now: open the table again"):
        await theirs.search("fog", level="strong")


async def test_searchers_and_a_writer_at_once(connected: Any) -> None:
    db = await connected()
    flights = await db.create_table("flights", row=Flight, key=("carrier", "flight"), partitions=2)
    await flights.create_index("words", "remark", kind="text")
    written = [0]

    async def write() -> None:
        for number in range(200):
            await flights.put(Flight("UA", number, None, 0.0, "fog"))
            written[0] = number + 1

    async def search() -> None:
        seen = 0
        while written[0] < 200:
            least = written[0]
            found = len(await flights.search("fog", limit=1000))
            assert found >= max(seen, least), "a search of a session lost what it had seen"
            seen = found

    async with asyncio.TaskGroup() as tasks:
        for work in (write, search, search):
            tasks.create_task(work())
    assert len(await flights.search("fog", limit=1000)) == 200


async def test_rows_that_do_not_fit_into_a_reply(connected: Any) -> None:
    db = await connected()
    flights = await db.create_table("flights", row=Flight, key=("carrier", "flight"))
    await flights.create_index("words", "tailnum", kind="text")
    for number in range(12):
        await flights.put(Flight("UA", number, "fog", 0.0, "x" * 900_000))
    with pytest.raises(duramen.LimitExceeded, match="ask for fewer"):
        await flights.search("fog", limit=12, timeout=patience_s(60))
    assert len(await flights.search("fog", limit=3, timeout=patience_s(60))) == 3
