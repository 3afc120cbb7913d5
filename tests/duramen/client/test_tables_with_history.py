"""Tables with a history: blocking, asynchronous, embedded and connected."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from kit.rows.flights import Flight

import duramen
from duramen.client.database import Database


def test_as_the_page_says(tmp_path: Path) -> None:
    with duramen.open(tmp_path / "data") as db:
        prices = db.create_table("prices", history="all")
        first = prices.put(b"JFK", b"100")
        second = prices.put(b"JFK", b"120")
        gone = prices.delete(b"JFK")
        prices.put(b"JFK", b"90", ttl=3600)
        assert prices.get(b"JFK") == b"90"
        assert [prices.get(b"JFK", at=each.token) for each in (first, second, gone)] == [b"100", b"120", None]
        versions = prices.history(b"JFK")
        assert [each.value for each in versions] == [b"90", None, b"120", b"100"]
        assert [each.offset for each in versions][1:] == [gone.offset, second.offset, first.offset]
        assert [bool(each.expires_at_ms) for each in versions] == [True, False, False, False]
        assert prices.get(b"JFK", at=versions[3].token) == b"100"
        times = [each.time for each in versions]
        assert times == sorted(times, reverse=True)  # type: ignore[type-var]
        assert prices.get(b"JFK", at=datetime.now(UTC)) == b"90"
        assert prices.get(b"JFK", at=datetime.now(UTC) - timedelta(days=1)) is None
        assert prices.history(b"JFK", at=second.token, limit=1) == versions[2:3]
        assert prices.history(b"LGA") == []
    with duramen.open(tmp_path / "data") as db:
        assert db.table("prices").history(b"JFK") == versions
        assert db.table("prices").get(b"JFK", at=second.token) == b"120"


def test_rows_and_typed_values(tmp_path: Path) -> None:
    with duramen.open(tmp_path / "data") as db:
        flights = db.create_table("flights", row=Flight, key=("carrier", "flight"), history=10)
        one, other = Flight("UA", 1, "N1", 3.0), Flight("UA", 1, "N2", 7.0)
        then = flights.put(one)
        flights.put(other)
        assert flights.get("UA", 1, at=then.token) == one
        assert [each.value for each in flights.history("UA", 1)] == [other, one]
        notes = db.create_table("notes", key=str, value="json", history="30d")
        then = notes.put("a", {"n": 1})
        notes.put("a", {"n": 2})
        assert notes.get("a", at=then.token) == {"n": 1}
        assert [each.value for each in notes.history("a")] == [{"n": 2}, {"n": 1}]


def test_bad_input(tmp_path: Path) -> None:
    with duramen.open(tmp_path / "data") as db:
        for wrong in ("forever", 0, -3, "3y", 1.5):
            with pytest.raises(duramen.InvalidRequest, match="history= is a time"):
                db.create_table("t", history=wrong)  # type: ignore[arg-type]
        plain = db.create_table("plain")
        done = plain.put(b"k", b"1")
        for read in (lambda: plain.get(b"k", at=done.token), lambda: plain.history(b"k")):
            with pytest.raises(duramen.InvalidRequest, match="keeps no history"):
                read()
        kept = db.create_table("kept", history=2, partitions=4)
        tokens = [kept.put(b"k", b"%d" % number).token for number in range(5)]
        assert kept.get(b"k") == b"4", "the replica has applied all of them"
        with pytest.raises(duramen.HistoryGone, match="begins at offset 2") as refused:
            kept.get(b"k", at=tokens[1])
        assert refused.value.fields["earliest"] == 2
        assert kept.get(b"k", at=tokens[2]) == b"2"
        assert [each.value for each in kept.history(b"k")] == [b"4", b"3", b"2"]
        ref = kept.asynchronous.lookup.ref
        assert ref is not None
        elsewhere = next(key for key in (b"other%d" % n for n in range(99)) if ref.partition_of(key) != done_in(tokens))
        with pytest.raises(duramen.InvalidToken, match="names no offset of partition"):
            kept.get(elsewhere, at=tokens[4])
        assert kept.get(b"other", at=kept.end_token()) is None
        with pytest.raises(duramen.TokenAhead):
            kept.get(b"k", at=ahead(tokens[4]), timeout=5)
        with pytest.raises(duramen.InvalidToken):
            kept.get(b"k", at=done.token)
        with pytest.raises(duramen.InvalidRequest, match="no time zone"):
            kept.get(b"k", at=datetime(2026, 1, 1))
        with pytest.raises(duramen.InvalidRequest, match="leave out after="):
            kept.get(b"k", at=tokens[2], after=tokens[2])
        for limit in (0, 10_001, True):
            with pytest.raises(duramen.InvalidRequest, match="limit is 1 to 10000"):
                kept.history(b"k", limit=limit)
        with pytest.raises(duramen.InvalidKey):
            kept.history(b"")
        with pytest.raises(duramen.InvalidRequest, match="value and history out"):
            db.create_table("over", over="theirs", history="all")


def done_in(tokens: list[str]) -> int:
    ((_, offsets),) = duramen.Token.parse(tokens[0]).tables.items()
    return next(iter(offsets))


def ahead(token: str) -> duramen.Token:
    ((table, offsets),) = duramen.Token.parse(token).tables.items()
    return duramen.Token({table: {partition: type(offset)(offset + 1000) for partition, offset in offsets.items()}})


async def test_over_the_network(connected: Any) -> None:
    db: Database = await connected()
    table = await db.create_table("prices", history=100)
    first = await table.put(b"k", b"")
    gone = await table.delete(b"k")
    await table.put(b"k", b"2")
    assert [await table.get(b"k", at=each.token) for each in (first, gone)] == [b"", None]
    other = await connected()
    versions = await other.table("prices").history(b"k", at=await table.end_token())
    assert [each.value for each in versions] == [b"2", None, b""]
    assert all(each.time is not None for each in versions)
    assert await other.table("prices").history(b"none") == []
    assert await db.definition("prices") is None, "keys and values are just bytes"
    many = await db.create_table("many", history="all", partitions=1)
    for number in range(300):
        await many.put(b"k", b"%d" % number)
    assert [each.value for each in await many.history(b"k", limit=1000)] == [b"%d" % n for n in range(299, -1, -1)]
    with pytest.raises(duramen.InvalidRequest, match="keeps no history"):
        await (await db.create_table("plain")).history(b"k")
