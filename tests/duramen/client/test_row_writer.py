"""Streams of rows: each is written once, whoever is interrupted; a row that does not fit is named by its place."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kit.rows.flights import Flight

import duramen
from duramen import aio
from duramen.blocking import Database

FLIGHTS = [Flight("UA", number, None, float(number)) for number in range(100)]
KEY = ("carrier", "flight")


class Interrupted(Exception):
    """The program is stopped."""


def test_a_stream_that_is_run_again_writes_each_row_once(db: Database) -> None:
    flights = db.create_table("flights", row=Flight, key=KEY, partitions=3)

    def stops() -> Iterator[Flight]:
        yield from FLIGHTS[:60]
        raise Interrupted

    with flights.writer("day one") as first:
        first.put_rows(FLIGHTS[:50])
        assert first.flush().records == 50
    with pytest.raises(Interrupted), flights.writer("day one") as again:
        again.put_rows(stops())
    assert (again.written, again.skipped) == (0, 50), "what has not left when it ends is not written"
    with flights.writer("day one") as second:
        second.put_rows(iter(FLIGHTS))
        done = second.flush()
    assert (second.skipped + second.written, second.skipped >= 50) == (100, True)
    assert list(flights.scan(after=done.token)) == FLIGHTS
    assert sum(each.latest + 1 for each in flights.describe().partitions) == 100


def test_a_row_that_does_not_fit_is_named_and_the_stream_goes_on(db: Database) -> None:
    flights = db.create_table("flights", row=Flight, key=KEY, partitions=3)
    bad: Any = Flight("UA", "seven", None, 0.0)  # type: ignore[arg-type]
    with flights.writer("day two") as writer:
        with pytest.raises(duramen.InvalidRow, match=r"^row 2 of the writer: the field flight is 'seven'") as caught:
            writer.put_rows([*FLIGHTS[:2], bad, FLIGHTS[2]])
        assert caught.value.fields["field"] == "flight"
        writer.put(FLIGHTS[3])
        with pytest.raises(duramen.InvalidRow, match=r"^row 4 of the writer"):
            writer.put(bad)
    assert writer.written == 3
    assert list(flights.scan()) == [*FLIGHTS[:2], FLIGHTS[3]]


async def test_with_an_event_loop(tmp_path: Path) -> None:
    async with await aio.open(tmp_path / "data") as db:
        flights = await db.create_table("flights", row=Flight, key=KEY)
        async with flights.writer("day three") as writer:
            await writer.put_rows(FLIGHTS)
            await writer.put(FLIGHTS[0])
        assert (writer.stored.written, writer.stored.skipped) == (101, 0)
        assert [each async for each in flights.scan()] == FLIGHTS


def test_bytes_that_are_no_rows_are_not_counted_as_written(db: Database) -> None:
    flights = db.create_table("flights", row=Flight, key=KEY, partitions=1)
    with pytest.raises(duramen.RowRejected), flights.stored.writer("junk") as writer:
        writer.put_rows([(b"a", b"junk"), (b"b", b"junk")])
    assert writer.written == 0
    assert list(flights.scan()) == []
