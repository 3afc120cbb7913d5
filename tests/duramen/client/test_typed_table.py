"""Tables whose keys and values are text, JSON or tuples, end to end."""

from __future__ import annotations

import pickle
from datetime import date
from itertools import islice
from pathlib import Path
from typing import Any, assert_type

import pytest
from kit.client.server_process import ServerProcess

import duramen
from duramen import aio
from duramen.blocking import Database, TypedTable

WRONG: Any = b"x"


def test_text_is_at_home(db: Database) -> None:
    names = db.create_table("names", key=str, value=str)
    assert_type(names, TypedTable[str, str])
    names.put_many({"b": "2", "a": "1", "zü": "3"})
    found = names.get("zü")
    assert_type(found, str | None)
    assert found == "3"
    assert names.get_many(["a", "x"]) == ["1", None]
    assert list(names.scan()) == [("a", "1"), ("b", "2"), ("zü", "3")]
    assert list(names.scan(prefix="z")) == [("zü", "3")]
    assert list(names.scan(start="a", end="b")) == [("a", "1")]
    assert list(names.scan(reverse=True, limit=1)) == [("zü", "3")]
    entry = names.get_entry("a")
    assert entry is not None
    names.put("a", "4", if_version=entry.version)
    names.delete("b")
    assert [names.get(key) for key in ("a", "b")] == ["4", None]
    assert db.table("names", key=str, value=str).get("a") == "4"


def test_json_is_what_it_was(db: Database) -> None:
    events = db.create_table("events", key={"day": date, "number": int}, value="json", partition_by="day")
    day = date(2020, 2, 29)
    events.put((day, 1), {"ü": [1, None, 2.5]})
    events.put((day, -1), "text")
    assert events.get((day, 1)) == {"ü": [1, None, 2.5]}
    assert list(events.scan(prefix=(day,))) == [((day, -1), "text"), ((day, 1), {"ü": [1, None, 2.5]})]
    assert list(events.scan(start=(day, 0))) == [((day, 1), {"ü": [1, None, 2.5]})]
    watch = events.watch(start="earliest")
    assert {(change.key, str(change.after)) for change in islice(watch, 2)} == {
        ((day, -1), "text"),
        ((day, 1), "{'ü': [1, None, 2.5]}"),
    }
    watch.close()


@pytest.mark.parametrize("value", [float("nan"), {1, 2}, b"x", "\ud800", object()])
def test_what_json_does_not_have_is_refused(value: object, tmp_path: Path) -> None:
    with duramen.open(tmp_path / "data") as db:
        table = db.create_table("events", value="json")
        with pytest.raises(duramen.InvalidValue, match="none of JSON"):
            table.put(b"k", value)


@pytest.mark.parametrize("stored", [b"", b"{", b"[" * 100_000, b"1" * 5000])
def test_what_another_client_stored_and_is_no_json_is_refused(stored: bytes, tmp_path: Path) -> None:
    """A table of JSON judges that values are texts: to parse each of them would cost every replica."""
    with duramen.open(tmp_path / "data") as db:
        table = db.create_table("events", value="json")
        db.table("events").put(b"k", stored)
        with pytest.raises(duramen.InvalidValue, match="no JSON"):
            table.get(b"k")
        with pytest.raises(duramen.InvalidValue, match="no JSON"):
            list(table.scan())


def test_what_is_no_text_is_refused(db: Database) -> None:
    names = db.create_table("names", key=str, value=str)
    keys: list[Any] = [WRONG, "", "x" * 512, "\ud800", None]
    for key in keys:
        with pytest.raises(duramen.InvalidKey):
            names.get(key)
    values: list[Any] = [WRONG, "\ud800", 5]
    for value in values:
        with pytest.raises(duramen.InvalidValue):
            names.put("k", value)
    with pytest.raises(duramen.InvalidRequest):
        names.put_many([WRONG])
    with pytest.raises(duramen.InvalidRequest):
        list(names.scan(prefix="a", start="b"))
    tuples = db.create_table("tuples", key=("a", "b"))
    others: list[Any] = [(1,), (1, 2, 3), [1, 2], "12", WRONG]
    for wrong in others:
        with pytest.raises(duramen.InvalidKey):
            tuples.put(wrong, b"v")
    tuples.put((1, "x"), b"v")
    assert list(tuples.scan(prefix=())) == [((1, "x"), b"v")]
    with pytest.raises(duramen.InvalidRequest, match="at most the fields"):
        list(tuples.scan(prefix=(1, 2, 3)))


def test_a_table_of_bytes_shows_how_text_is_at_home(db: Database) -> None:
    plain = db.create_table("plain")
    text: Any = "text"
    with pytest.raises(duramen.InvalidKey, match="key=str"):
        plain.put(text, b"v")
    with pytest.raises(duramen.InvalidValue, match="value=str"):
        plain.put(b"k", text)
    assert_type(db.create_table("same", key=bytes, value=bytes), TypedTable[bytes, bytes])
    db.table("plain", key=bytes, value=bytes).put(b"k", b"v")
    with pytest.raises(duramen.InvalidSchema, match='table\\("plain"\\)'):
        db.table("plain", key=str).get("k")


def test_it_goes_to_another_process(server: ServerProcess, table_name: str) -> None:
    with server.connect() as db:
        table = db.create_table(table_name, key=str, value="json")
        table.put("k", [1])
        assert pickle.loads(pickle.dumps(table)).get("k") == [1]


async def test_the_same_with_an_event_loop(tmp_path: Path) -> None:
    async with await aio.open(tmp_path / "data") as db:
        table = await db.create_table("names", key=str, value="json")
        await table.put("a", 1)
        await table.put_many([("b", [2])])
        assert await table.get("a", level="strong") == 1
        assert await table.get_many(["b", "c"]) == [[2], None]
        assert [pair async for pair in table.scan(prefix="a")] == [("a", 1)]
        await table.delete("a")
        assert await table.get_entry("a") is None
