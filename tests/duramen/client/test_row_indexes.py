"""Indexes that come to a table with rows, and go: blocking, asynchronous, embedded and connected."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from kit.rows.flights import Flight

import duramen
from duramen import aio
from duramen.client.rows.row_indexes import IndexState

ROWS = [Flight("UA", number, f"N{number % 3}", float(number % 7)) for number in range(60)]


def test_as_the_page_says(tmp_path: Path) -> None:
    with duramen.open(tmp_path / "data") as db:
        flights = db.create_table("flights", row=Flight, key=("carrier", "flight"))
        flights.put_many(ROWS)
        with pytest.raises(duramen.InvalidRequest, match="its indexes are none"):
            list(flights.find(tailnum="N1"))
        flights.create_index("by_tail", "tailnum")
        assert flights.indexes() == [IndexState("by_tail", ("tailnum",), in_service=True)]
        assert sorted(each.flight for each in flights.find(tailnum="N1")) == list(range(1, 60, 3))
        flights.put(Flight("DL", 7, "N1", 0.0))
        assert len(list(flights.find(tailnum="N1"))) == 21
        assert flights.explain(tailnum="N1").index == "by_tail"
        flights.create_index("by_tail", "tailnum")
        with pytest.raises(duramen.InvalidSchema, match="one of that name already, by tailnum"):
            flights.create_index("by_tail", "dep_delay")
    with duramen.open(tmp_path / "data") as db:
        flights = db.table("flights", row=Flight)
        assert len(list(flights.find(tailnum="N1"))) == 21
        flights.drop_index("by_tail")
        with pytest.raises(duramen.InvalidRequest, match="its indexes are none"):
            list(flights.find(tailnum="N1"))
        with pytest.raises(duramen.InvalidRequest, match="no index 'by_tail'"):
            flights.drop_index("by_tail")
        for fields in ((), ("",), (7,)):
            with pytest.raises(duramen.InvalidRequest, match="sorts by names of fields"):
                flights.create_index("by_x", *fields)
        with pytest.raises(duramen.InvalidSchema, match="has no field gate"):
            flights.create_index("by_gate", "gate")


def test_an_index_of_some_rows(tmp_path: Path) -> None:
    where = {"dep_delay": (5.0, None), "tailnum": "N1"}
    with duramen.open(tmp_path / "data") as db:
        flights = db.create_table("flights", row=Flight, key=("carrier", "flight"))
        flights.put_many(ROWS)
        with pytest.raises(duramen.InvalidRequest, match="no row is found by 'gate'"):
            flights.create_index("late", "flight", where={"gate": "B7"})
        with pytest.raises(duramen.InvalidRequest, match="the condition on dep_delay: it is a float, 'x' is a str"):
            flights.create_index("late", "flight", where={"dep_delay": "x"})
        with pytest.raises(duramen.InvalidRequest, match="where= maps fields"):
            flights.create_index("late", "flight", where=[("dep_delay", 1.0)])  # type: ignore[arg-type]
        flights.create_index("late", "flight", where=where)
        assert flights.indexes() == [IndexState("late", ("flight",), in_service=True, where=where)]
        flights.create_index("late", "flight", where=where)
        for other in (None, {"dep_delay": (6.0, None), "tailnum": "N1"}):
            with pytest.raises(duramen.InvalidSchema, match="one of that name already, of other rows"):
                flights.create_index("late", "flight", where=other)
        late = [each.flight for each in ROWS if each.tailnum == "N1" and each.dep_delay >= 5.0]
        assert [each.flight for each in flights.find(where, order="flight")] == late
        how = flights.explain(where)
        assert (how.index, how.entries, how.looked_at) == ("late", len(late), ())
        assert how.where == where
        assert "the index late (flight) where dep_delay=5.0.., tailnum=N1: " in str(how)
        with pytest.raises(duramen.InvalidRequest, match=r"the index late has rows with dep_delay=5\.0\.\. alone"):
            list(flights.find(tailnum="N1", dep_delay=(4.0, None), order="flight"))
    with duramen.open(tmp_path / "data") as db:
        flights = db.table("flights", row=Flight)
        flights.update("UA", late[0], set={"dep_delay": 0.0})
        flights.delete("UA", late[1])
        flights.put(Flight("DL", 1, "N1", 5.0))
        found = [(each.carrier, each.flight) for each in flights.find(where, order="flight")]
        assert found == [("DL", 1), *(("UA", each) for each in late[2:])]


async def test_two_programs(connected: Any) -> None:
    """The other program's table learns of the index with the find that needs it, and that it is another one."""
    one, other = await connected(), await connected()
    flights = await one.create_table("flights", row=Flight, key=("carrier", "flight"), partitions=2)
    await flights.put_many(ROWS)
    theirs = other.table("flights", row=Flight)
    with pytest.raises(duramen.InvalidRequest, match="no index serves"):
        [each async for each in theirs.find(tailnum="N1")]
    await flights.create_index("by_tail", "tailnum", "flight")
    assert [each.flight async for each in theirs.find(tailnum="N1", order="-flight", limit=2)] == [58, 55]
    await flights.drop_index("by_tail")
    with pytest.raises(duramen.InvalidRequest, match="the table has no index 'by_tail'"):
        # A replica that has not come to the drop still finds by it, and is right as of its offset: read the log's end.
        [each async for each in theirs.find(tailnum="N1", level="strong")]
    await flights.create_index("by_tail", "dep_delay")
    with pytest.raises(duramen.InvalidRequest, match="another one by now: open the table again"):
        [each async for each in theirs.find(tailnum="N1", level="strong")]
    assert len([each async for each in theirs.find(dep_delay=3.0)]) == 9


async def test_finds_are_refused_while_it_is_built(tmp_path: Path) -> None:
    """They name the index; scans and finds by others go on. What is given up is gone."""
    db = await aio.open(tmp_path / "data")
    try:
        flights = await db.create_table("flights", row=Flight, key=("carrier", "flight"))
        await flights.put_many(ROWS)
        await flights.put(Flight("AA", 1, "x" * 600, 1.0))
        with pytest.raises(duramen.LimitExceeded, match="too long for the index by_tail"):
            await flights.create_index("by_tail", "tailnum")
        assert await flights.indexes() == [IndexState("by_tail", ("tailnum",), in_service=False)]
        with pytest.raises(duramen.IndexBuilding, match="by_tail would serve this") as refused:
            [each async for each in flights.find(tailnum="N1")]
        assert refused.value.fields["index"] == "by_tail"
        assert len([each async for each in flights.find(carrier="UA")]) == len(ROWS)
        await flights.delete("AA", 1)
        await flights.create_index("by_tail", "tailnum")
        assert len([each async for each in flights.find(tailnum="N1")]) == 20
    finally:
        await db.close()
