"""Watches of tables with a history: each change has what it replaced."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import replace
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import pytest
from kit.client.in_between import InBetween
from kit.rows.flights import Flight

import duramen
from duramen.client.database import Database
from log_tier.model.errors import Disconnected
from router.data.requests import ReadPart


def test_each_change_has_what_it_replaced(tmp_path: Path) -> None:
    chance = Random("befores")
    with duramen.open(tmp_path / "data") as db:
        notes = db.create_table("notes", partitions=2, key=str, value="json", history="all")
        wanted: list[tuple[str, Any, Any]] = []
        now: dict[str, int] = {}
        for number in range(700):
            key = f"k{chance.randrange(20)}"
            if chance.random() < 0.3:
                notes.delete(key)
                wanted.append((key, now.pop(key, None), None))
            else:
                notes.put(key, number)
                wanted.append((key, now.get(key), number))
                now[key] = number
        found = list(islice(notes.watch(start="earliest"), len(wanted)))
        for key in {each for each, _, _ in wanted}:
            mine = [(each.key, each.before, each.after) for each in found if each.key == key]
            assert mine == [each for each in wanted if each[0] == key]
        assert all(each.before_is_kept for each in found)


def test_changes_of_bytes(tmp_path: Path) -> None:
    with duramen.open(tmp_path / "data") as db:
        prices = db.create_table("prices", partitions=1, history=3)
        prices.put(b"JFK", b"1")
        prices.update(b"JFK", add=4)
        token = prices.delete(b"JFK").token
        prices.put(b"JFK", b"7", ttl=3600)
        found = list(islice(prices.watch(start="earliest"), 4))
        assert [(each.before, each.before_is_kept) for each in found] == [
            (None, False),
            (b"1", True),
            (b"5", True),
            (None, True),
        ]
        (again,) = islice(prices.watch(after=token), 1)
        assert again == replace(found[3], shown=again.shown)
        assert again.token == found[3].token
        flights = db.create_table("flights", row=Flight, key=("carrier", "flight"), history="all")
        flights.put(Flight("UA", 1, None, 0.0))
        flights.put(Flight("UA", 1, "N1", 0.0))
        stored = list(islice(flights.stored.watch(start="earliest"), 2))
        assert [each.before for each in stored] == [None, stored[0].value]
        plain = db.create_table("plain")
        plain.put(b"k", b"1")
        (change,) = islice(plain.watch(start="earliest"), 1)
        assert (change.before, change.before_is_kept) == (None, False)


async def test_changes_of_bytes_over_the_network(connected: Any) -> None:
    db: Database = await connected()
    prices = await db.create_table("prices", partitions=2, history="all")
    other = (await connected()).table("prices")
    async with aclosing(await other.watch()) as watch:
        for number in range(300):
            await prices.put(b"%d" % (number % 7), b"%d" % number)
        found = [await anext(watch) for _ in range(300)]
    assert all(each.before_is_kept for each in found)
    had: dict[bytes, bytes | None] = {}
    for each in found:
        assert each.before == had.get(each.key)
        had[each.key] = each.value
    await db.drop_table("prices")
    await db.create_table("prices", history="all")
    done = await db.table("prices").put(b"k", b"new")
    with pytest.raises(duramen.TableNotFound):
        await anext(other.watch(start="earliest"))
    async with aclosing(other.watch(start="earliest")) as watch:
        assert (await anext(watch)).offset == done.offset


def test_rows_and_groups(tmp_path: Path) -> None:
    with duramen.open(tmp_path / "data") as db:
        flights = db.create_table("flights", row=Flight, key=("carrier", "flight"), history=10)
        one, other, last = (Flight("UA", 1, f"N{number}", 0.0) for number in range(3))
        flights.put(one)
        with_group = flights.batch()
        with_group.put(other)
        with_group.put(last)
        with_group.commit()
        flights.update("UA", 1, set={"tailnum": "N9"})
        flights.delete("UA", 1)
        found = list(islice(flights.watch(start="earliest"), 5))
        assert [each.before for each in found[:2]] == [None, one]
        assert found[2].before in (one, other), "a group has the state that was there before it"
        assert [each.before and each.before.tailnum for each in found[3:]] == ["N2", "N9"]
        assert [each.after for each in found] == [one, other, last, None, None]


def test_what_is_not_kept_is_said(tmp_path: Path) -> None:
    with duramen.open(tmp_path / "data") as db:
        notes = db.create_table("notes", partitions=1, key=str, value=str, history=2)
        for number in range(5):
            notes.put("a", f"{number}")
        found = list(islice(notes.watch(start="earliest"), 5))
        assert [(each.before, each.before_is_kept) for each in found] == [
            (None, False),
            (None, False),
            (None, False),
            ("2", True),
            ("3", True),
        ]
        plain = db.create_table("plain", key=str, value=str)
        plain.put("a", "1")
        plain.put("a", "2")
        assert [each.before_is_kept for each in islice(plain.watch(start="earliest"), 2)] == [False, False]


async def test_a_lost_request_is_made_again_and_a_full_reply_goes_on(
    connected: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twelve small records replace values of 4 MB: one reply has room for some of them."""
    db: Database = await connected()
    files = await db.create_table("files", partitions=1, key=str, history="all")
    large = bytes(4_000_000)
    for number in range(12):
        await files.put(f"{number}", large)
    token = await files.end_token()
    for number in range(12):
        await files.delete(f"{number}")
    between = InBetween(files.stored.lookup.context.connection)
    monkeypatch.setattr(files.stored.lookup.context, "connection", between)

    async def lost(_: Any) -> Any:
        raise Disconnected("lost")

    between.read_faults = [lost]
    async with aclosing(files.watch(after=token)) as watch:
        found = [await anext(watch) for _ in range(12)]
    assert [len(each.before or b"") for each in found] == [len(large)] * 12
    asked: Sequence[Sequence[ReadPart]] = between.reads
    assert len(asked) >= 3
    assert len(asked[0]) == len(asked[1]) <= 12
