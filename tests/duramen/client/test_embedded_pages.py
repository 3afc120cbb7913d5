"""Scans and finds of an embedded database: the first page in the caller's thread, the others behind it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest
from kit.rows.flights import Flight

import duramen
from duramen.blocking import Database, RowTable
from duramen.client.transport.loop_thread import LoopThread

ROWS = [Flight("UA", number, f"N{number % 3}", float(number % 13)) for number in range(1000)]


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with duramen.open(tmp_path / "data") as opened:
        yield opened


def filled(database: Database) -> RowTable[Flight]:
    """A table whose partitions have been read, so that their files are open."""
    table = database.create_table(
        "flights", row=Flight, key=("carrier", "flight"), partitions=3, indexes={"by_tail": "tailnum"}
    )
    table.put_many(ROWS)
    assert len(list(table.scan())) == len(list(table.find(tailnum=("N0", None)))) == len(ROWS)
    return table


def test_one_page_needs_no_event_loop(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    table = filled(database)

    def crossed(*_: object) -> object:
        raise AssertionError("the event loop was asked")

    expected = [each for each in ROWS if each.tailnum == "N1"]
    monkeypatch.setattr(LoopThread, "run", crossed)
    assert list(table.find(tailnum="N1", limit=10)) == expected[:10]
    assert list(table.find(tailnum="N1", order="-tailnum", limit=3)) == expected[:-4:-1]
    assert list(table.scan(carrier="UA", flight=(5, 50))) == ROWS[5:50]
    assert list(table.scan(carrier="DL")) == []
    assert len(list(table.stored.scan(limit=200))) == 200


def test_the_walk_goes_on_behind_the_first_page(database: Database) -> None:
    table = filled(database)
    assert list(table.scan(carrier="UA")) == ROWS
    assert list(table.scan(carrier="UA", reverse=True, limit=950)) == ROWS[:-951:-1]
    by_tail = sorted(ROWS, key=lambda each: (each.tailnum, each.flight))
    assert list(table.find(order="tailnum")) == by_tail
    assert list(table.find(order="tailnum", limit=777)) == by_tail[:777]
    assert (
        list(table.find(tailnum="N1", dep_delay=3.0, limit=20))
        == [each for each in ROWS if (each.tailnum, each.dep_delay) == ("N1", 3.0)][:20]
    )


def test_a_walk_does_not_go_on_in_another_table_of_that_name(database: Database) -> None:
    table = filled(database)
    walks = [table.scan(carrier="UA"), table.find(order="tailnum")]
    for walk in walks:
        assert len(list(islice(walk, 3))) == 3
    database.drop_table("flights")
    again = filled(database)
    for walk in walks:
        with pytest.raises(duramen.TableNotFound):
            list(walk)
    assert list(again.scan(carrier="UA")) == ROWS


def test_a_walk_in_a_closed_database_says_so(database: Database) -> None:
    table = filled(database)
    walk = table.scan(carrier="UA")
    assert next(walk) == ROWS[0]
    database.close()
    with pytest.raises(duramen.DatabaseClosed):
        list(walk)
    with pytest.raises(duramen.DatabaseClosed):
        list(table.find(tailnum="N1", limit=1))


def test_a_wrong_range_is_refused_with_the_first_step(database: Database) -> None:
    stored = filled(database).stored
    scans = [stored.scan(prefix=b"a", start=b"b"), stored.scan(limit=-1)]
    for scan in scans:
        with pytest.raises(duramen.InvalidRequest):
            next(scan)
    assert list(stored.scan(limit=0)) == list(stored.scan(start=b"b", end=b"a")) == []
