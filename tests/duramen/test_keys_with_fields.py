"""Keys with fields in tables: scans by ranges of a field, whatever partition a key is in."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import duramen
from duramen.blocking import Database

BEGAN = datetime(2013, 1, 1, 5, tzinfo=UTC)


def test_a_scan_of_a_range_of_a_field_has_its_rows_in_order(db: Database) -> None:
    flights = db.create_table("flights", partitions=4)
    written = [
        (carrier, flight, BEGAN + timedelta(hours=hour))
        for carrier in ("AA", "UA", "UA\0", "US")
        for flight in (-1, 9, 1500, 1599, 1600)
        for hour in (0, 1)
    ]
    flights.put_many((duramen.pack_key(*fields), b"v") for fields in reversed(written))

    def scanned(within: duramen.ScanBounds, *, reverse: bool = False) -> list[tuple[object, ...]]:
        found = flights.scan(start=within.start, end=within.end, reverse=reverse)
        return [duramen.unpack_key(key) for key, _ in found]

    assert scanned(duramen.key_range()) == written
    assert scanned(duramen.key_range("UA")) == [each for each in written if each[0] == "UA"]
    within = duramen.key_range("UA", start=9, end=1600)
    some = [each for each in written if each[0] == "UA" and 9 <= each[1] < 1600]
    assert scanned(within) == some
    assert scanned(within, reverse=True) == some[::-1]
    at_nine = duramen.key_range("UA", 9, start=BEGAN + timedelta(minutes=1))
    assert scanned(at_nine) == [("UA", 9, BEGAN + timedelta(hours=1))]
    assert scanned(duramen.key_range("UA", start=3, end=3)) == []


def test_the_range_of_the_longest_key_is_that_key(db: Database) -> None:
    flights = db.create_table("flights", partitions=2)
    longest = "x" * 509
    flights.put(duramen.pack_key(longest), b"v")
    flights.put(duramen.pack_key("x" * 508), b"v")
    within = duramen.key_range(longest)
    assert [duramen.unpack_key(key) for key, _ in flights.scan(start=within.start, end=within.end)] == [(longest,)]
