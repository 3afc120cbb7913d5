"""Scans of a table as it was, and differences of two states: blocking, asynchronous, embedded and connected."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import pytest
from kit.rows.flights import Flight

import duramen
from duramen.client.database import Database

Model = dict[bytes, bytes]


def changed_model(table: Any, chance: Random, model: Model, changes: int) -> Model:
    """The model after some puts and deletes of the table, which are made here."""
    model = dict(model)
    for _ in range(changes):
        key, value = b"%03d" % chance.randrange(400), b"%d" % chance.randrange(3)
        if chance.random() < 0.3:
            table.delete(key)
            model.pop(key, None)
        else:
            table.put(key, value)
            model[key] = value
    return model


def differing(before: Model, after: Model) -> dict[bytes, tuple[bytes | None, bytes | None]]:
    both = {key: (before.get(key), after.get(key)) for key in {*before, *after}}
    return {key: values for key, values in both.items() if values[0] != values[1]}


@pytest.mark.parametrize("partitions", [1, 4])
def test_every_state_is_what_was_there(tmp_path: Path, partitions: int) -> None:
    chance = Random(f"states {partitions}")
    with duramen.open(tmp_path / "data") as db:
        table = db.create_table("t", partitions=partitions, history="all")
        states: list[tuple[str, Model]] = [(table.end_token(), {})]
        for _ in range(6):
            model = changed_model(table, chance, states[-1][1], 120)
            states.append((table.end_token(), model))
        for token, model in states:
            rows = sorted(model.items())
            assert list(table.scan(at=token)) == rows
            assert list(table.scan(at=token, reverse=True, limit=7)) == rows[::-1][:7]
            assert list(table.scan(at=token, prefix=b"1")) == [row for row in rows if row[0].startswith(b"1")]
            assert list(table.scan(at=token, start=b"1", end=b"25")) == [row for row in rows if b"1" <= row[0] < b"25"]
        for (one, before), (other, after) in zip(states, chance.sample(states, len(states)), strict=True):
            found = list(table.diff(one, other))
            assert {each.key: (each.before, each.after) for each in found} == differing(before, after)
            assert len({each.key for each in found}) == len(found)
            ref = table.asynchronous.lookup.ref
            assert ref is not None
            places = [(ref.partition_of(each.key), each.key) for each in found]
            assert places == sorted(places), "in key order in each partition"
        assert {each.key for each in table.diff(states[0][0])} == set(states[-1][1]), "the second state is now"
        ranged = table.diff(states[0][0], states[1][0], prefix=b"2")
        assert {each.key: each.after for each in ranged} == {k: v for k, v in states[1][1].items() if k[:1] == b"2"}


def test_what_is_written_meanwhile_is_in_no_later_page(tmp_path: Path) -> None:
    with duramen.open(tmp_path / "data") as db:
        table = db.create_table("t", partitions=3, history="all")
        rows = [(b"%04d" % number, b"old") for number in range(3000)]
        others = [b"%04d+" % number for number in range(0, 3000, 60)]
        begun = table.end_token()
        table.put_many(rows)
        for state in (table.end_token(), datetime.now(UTC) + timedelta(days=1)):
            scanned, compared = table.scan(at=state), table.diff(begun, state)
            seen, changes = list(islice(scanned, 10)), list(islice(compared, 10))
            table.put_many([(key, b"new") for key, _ in rows])
            table.put_many([(key, b"added") for key in others])
            for key, _ in rows[::60]:
                table.delete(key)
            assert seen + list(scanned) == rows
            assert sorted((each.key, each.after) for each in [*changes, *compared]) == rows
            assert len(list(table.scan())) == 3000
            table.put_many(rows)  # for the second state, which is a later one
            for key in others:
                table.delete(key)


def test_a_state_that_goes_meanwhile_ends_the_scan(tmp_path: Path) -> None:
    with duramen.open(tmp_path / "data") as db:
        table = db.create_table("t", partitions=1, history=2)
        table.put_many([(b"%04d" % number, b"old") for number in range(3000)])
        state = table.end_token()
        scanned, compared = table.scan(at=state), table.diff(state, state)
        seen = list(islice(scanned, 200))
        later = [table.put(b"2500", b"%d" % number) for number in range(3)]
        assert table.get(b"2500") == b"2", "the index has applied them all"
        with pytest.raises(duramen.HistoryGone, match="2 newest changes of this key") as gone:
            seen += scanned
        assert gone.value.fields["earliest"] == later[0].offset
        assert 200 <= len(seen) <= 2500
        assert all(value == b"old" for _, value in seen)
        with pytest.raises(duramen.HistoryGone):
            list(compared)
        assert dict(table.scan(at=later[0].token))[b"2500"] == b"0"
        assert [each.before for each in table.diff(later[0].token)] == [b"0"]


def test_rows_and_values_of_types(tmp_path: Path) -> None:
    with duramen.open(tmp_path / "data") as db:
        flights = db.create_table("flights", row=Flight, key=("carrier", "flight"), history=10)
        one, other = Flight("UA", 1, "N1", 3.0), Flight("UA", 1, "N2", 7.0)
        flights.put(one)
        flights.put(Flight("AA", 1, "N9", 0.0))
        then = flights.end_token()
        flights.put(other)
        flights.delete("AA", 1)
        assert list(flights.scan(at=then, carrier="UA")) == [one]
        assert [each.carrier for each in flights.scan(at=then)] == ["AA", "UA"]
        found = list(flights.diff(then, flights.end_token(), carrier="UA"))
        assert [(each.key, each.before, each.after) for each in found] == [(("UA", 1), one, other)]
        assert [each.after for each in flights.diff(then, None, {"carrier": "AA"})] == [None]
        notes = db.create_table("notes", partitions=1, key=str, value="json", history="30d")
        notes.put("a", {"n": 1})
        then = notes.end_token()
        notes.put("a", {"n": 2})
        notes.put("b", {"n": 3})
        assert list(notes.scan(at=then)) == [("a", {"n": 1})]
        changed = [(each.key, each.before, each.after) for each in notes.diff(then)]
        assert changed == [("a", {"n": 1}, {"n": 2}), ("b", None, {"n": 3})]
        assert [each.key for each in notes.diff(then, prefix="b")] == ["b"]


def test_what_is_no_state_is_refused(tmp_path: Path) -> None:
    with duramen.open(tmp_path / "data") as db:
        plain = db.create_table("plain")
        lone = plain.put(b"k", b"1")
        kept = db.create_table("kept", partitions=4, history="all")
        done = kept.put(b"k", b"1")
        ref = kept.asynchronous.lookup.ref
        assert ref is not None
        whole = kept.end_token()
        offsets = {
            partition: type(offset)(offset + 1000)
            for partition, offset in duramen.Token.parse(whole).tables[ref.id].items()
        }
        ahead = duramen.Token({ref.id: offsets})
        for table, at, error, why in (
            (plain, plain.end_token(), duramen.InvalidRequest, "keeps no history"),
            (plain, lone.token, duramen.InvalidRequest, "plain keeps no history"),
            (kept, done.token, duramen.InvalidToken, "names no offset of partition"),
            (kept, plain.end_token(), duramen.InvalidToken, "table"),
            (kept, ahead, duramen.TokenAhead, "beyond|ahead|ends"),
            (kept, datetime(2026, 1, 1), duramen.InvalidRequest, "no time zone"),
        ):
            with pytest.raises(error, match=why):
                list(table.scan(at=at, timeout=5))
            with pytest.raises(error, match=why):
                list(table.diff(at, at, timeout=5))
        with pytest.raises(duramen.InvalidRequest, match="leave out after="):
            list(kept.scan(at=whole, after=whole))
        with pytest.raises(duramen.InvalidRequest, match="prefix, or start and end"):
            list(kept.diff(whole, prefix=b"a", start=b"b"))
        assert list(kept.scan(at=datetime(2001, 1, 1, tzinfo=UTC))) == []
        assert [each.after for each in kept.diff(datetime(2001, 1, 1, tzinfo=UTC), datetime.now(UTC))] == [b"1"]


async def test_over_the_network(connected: Any) -> None:
    db: Database = await connected()
    table = await db.create_table("prices", partitions=2, history="all")
    rows = [(b"%04d" % number, b"" if number % 2 else b"old") for number in range(1000)]
    await table.put_many(rows)
    then = await table.end_token()
    for key, _ in rows[:600]:
        await table.delete(key)
    await table.put(b"0000", b"new")
    other = (await connected()).table("prices")
    assert [row async for row in other.scan(at=then)] == rows
    assert [row async for row in other.scan(at=then, start=b"05", reverse=True)] == rows[:499:-1]
    found = {each.key: (each.before, each.after) async for each in other.diff(then)}
    assert found == {key: (value, b"new" if key == b"0000" else None) for key, value in rows[:600]}
    back = {each.key: (each.before, each.after) async for each in other.diff(await table.end_token(), then)}
    assert back == {key: (after, before) for key, (before, after) in found.items()}
