"""`spark.read.format("duramen")` shows what a client of the database sees."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from kit.client.command_line import run_here
from kit.client.server_process import ServerProcess
from kit.spark.sparks import SparkTable, failure

import duramen
from duramen.blocking import Database

pytestmark = pytest.mark.spark

FLIGHTS = [(b"%s%04d" % (carrier, number), number) for carrier in (b"AA", b"LH", b"UA") for number in range(400)]


def value_of(number: int) -> bytes:
    return json.dumps({"delay": number % 60, "from": "JFK" if number % 2 else "LGA"}).encode()


@pytest.fixture(scope="module")
def flights(server: ServerProcess) -> tuple[str, str, dict[bytes, bytes]]:
    """A table in four partitions: its name, a token of its middle, and what it held there."""
    with server.connect() as database:
        table = database.create_table("flights", partitions=4)
        table.put_many([(key, value_of(number)) for key, number in FLIGHTS])
        table.delete(FLIGHTS[3][0])
        token = database.token()
        then = dict(table.scan())
        assert len(then) == len(FLIGHTS) - 1
        table.put(b"AA0000", b'{"delay": 1000}')
        table.put(b"ZZ", b"{}", ttl=3600)
        table.update(b"ZZ count", add=3)
        with pytest.raises(duramen.ConditionFailed):
            table.put(b"AA0001", b"no", if_absent=True)
        return table.name, token, then


@pytest.fixture
def table(spark: Any, server: ServerProcess, flights: tuple[str, str, dict[bytes, bytes]]) -> SparkTable:
    return SparkTable(spark, server, flights[0])


def test_the_whole_table_as_a_client_sees_it(table: SparkTable, database: Database) -> None:
    rows = table.read().collect()
    client = database.table(table.name)
    assert {bytes(row.key): bytes(row.value) for row in rows} == dict(client.scan())
    assert len(rows) == len(FLIGHTS) + 1
    for row in rows[::200]:
        entry = client.get_entry(bytes(row.key))
        assert entry is not None
        assert row.version == entry.version
    (expiring,) = [row for row in rows if row.expires_at is not None]
    entry = client.get_entry(b"ZZ")
    assert entry is not None
    assert bytes(expiring.key) == b"ZZ"
    assert expiring.expires_at.astimezone(UTC) == datetime.fromtimestamp(entry.expires_at_ms / 1000, UTC)
    for partition in range(4):
        keys = [bytes(row.key) for row in rows if row.partition == partition]
        assert keys
        assert keys == sorted(keys)


def test_at_a_token_it_is_as_it_was_then(
    table: SparkTable, server: ServerProcess, flights: tuple[str, str, dict[bytes, bytes]]
) -> None:
    """From the log's beginning, and from a snapshot that is older or newer than the token."""
    _, token, then = flights
    run_here("admin", "snapshot", table.name, at=server.target)
    store = (server.data / "snapshots").as_uri()
    for options in ({}, {"snapshots": store}):
        rows = table.read("key", "value", token=token, **options).collect()
        assert {bytes(row.key): bytes(row.value) for row in rows} == then
    now = {bytes(row.key) for row in table.read("key", snapshots=store).collect()}
    assert now == then.keys() | {b"ZZ", b"ZZ count"}


def test_the_newest_snapshot_is_what_was_there_when_it_was_taken(
    spark: Any, server: ServerProcess, database: Database, table_name: str
) -> None:
    made = database.create_table(table_name, partitions=2)
    store = (server.data / "snapshots").as_uri()
    frame = SparkTable(spark, server, table_name)
    assert f"there is no snapshot of {table_name}/0: take one" in failure(
        lambda: frame.read(token="snapshot", snapshots=store).collect()
    )
    made.put_many([(b"k%d" % number, b"old") for number in range(100)])
    next(iter(made.scan(level="strong")))
    assert run_here("admin", "snapshot", table_name, at=server.target).returncode == 0
    made.put_many([(b"k%d" % number, b"new") for number in range(50, 150)])
    rows = frame.read(token="snapshot", snapshots=store, values="utf8").collect()
    assert (len(rows), {row.value for row in rows}) == (100, {"old"})


def test_columns_by_choice(table: SparkTable) -> None:
    typed = table.read(keys="utf8", values="utf8", prefix="UA00")
    assert dict(typed.dtypes)["key"] == "string"
    assert [row.key for row in typed.select("key").orderBy("key").limit(2).collect()] == ["UA0000", "UA0001"]
    chosen = table.read(of="version BIGINT, key STRING")
    assert chosen.columns == ["version", "key"]
    assert chosen.count() == len(FLIGHTS) + 1
    fields = table.read(keys="utf8", values="json", schema="", start="AA", end="AB", SCHEMA="delay INT")
    assert fields.columns == ["key", "delay", "version", "partition", "expires_at"]
    assert fields.selectExpr("max(delay)").collect()[0][0] == 1000
    named = table.read(of="key STRING, `from` STRING", values="json", prefix="LH").where("`from` = 'JFK'")
    assert named.count() == 200


def test_ranges_read_what_they_name(table: SparkTable) -> None:
    assert [bytes(row.key) for row in table.read("key", key="UA0007").collect()] == [b"UA0007"]
    assert table.read(key="UA0007").rdd.getNumPartitions() == 1
    assert table.read(key="UA9999").collect() == []
    assert table.read(prefix="LH").count() == 400
    assert table.read(start="LH0100", end="LH0200").count() == 100


def test_an_empty_table(spark: Any, server: ServerProcess, database: Database, table_name: str) -> None:
    database.create_table(table_name, partitions=3)
    empty = SparkTable(spark, server, table_name)
    assert empty.read().count() == 0
    assert empty.log().count() == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"table": "nowhere"}, "there is no table 'nowhere'; the tables are"),
        ({"tabel": "x"}, "tabel is no option of a read"),
        ({"token": "d1.nonsense"}, "is no whole token"),
        ({"values": "json"}, "JSON values need a schema"),
        ({"of": "key INT"}, "the column `key` is BINARY or STRING, the schema says int32"),
        ({"of": "key STRING, delay INT"}, "there is no column `delay`"),
        ({"at": "127.0.0.1:1"}, "127.0.0.1:1"),
    ],
)
def test_what_cannot_be_read_says_why(table: SparkTable, options: dict[str, str], said: str) -> None:
    table.place = {**table.place, **{name: options[name] for name in options if name in table.place}}
    others = {name: value for name, value in options.items() if name not in table.place}
    assert said in failure(lambda: table.read(**others).collect())


def test_a_field_of_another_type_is_named(table: SparkTable, flights: tuple[str, str, dict[bytes, bytes]]) -> None:
    """At the token: later there is a counter too, no JSON at all, and whichever partition fails first is reported."""
    read = {"of": "key STRING, `from` INT", "values": "json", "token": flights[1]}
    assert "the field `from` under the key b'" in failure(lambda: table.read(**read).collect())


def test_values_that_are_no_text(spark: Any, server: ServerProcess, database: Database, table_name: str) -> None:
    database.create_table(table_name, partitions=1).put(b"bad", b"\xff")
    said = failure(lambda: SparkTable(spark, server, table_name).read(values="utf8").collect())
    assert f"{table_name}/0: the value under the key b'bad' is no UTF-8" in said
