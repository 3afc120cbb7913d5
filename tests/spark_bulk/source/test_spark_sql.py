"""Duramen from SQL, and several queries of one DataFrame: each query is answered for itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kit.client.server_process import ServerProcess
from kit.spark.sparks import SparkTable, failure

from duramen.blocking import Database, Table

pytestmark = pytest.mark.spark


@pytest.fixture
def table(database: Database, table_name: str) -> Table:
    made = database.create_table(table_name, partitions=3)
    made.put_many([(b"%s%02d" % (letter, number), b"%d" % number) for letter in (b"a", b"b") for number in range(20)])
    return made


@pytest.fixture
def frame(spark: Any, server: ServerProcess, table: Table) -> SparkTable:
    return SparkTable(spark, server, table.name)


@pytest.fixture
def place(frame: SparkTable) -> str:
    return f"at '{frame.place['at']}', `table` '{frame.name}'"


@pytest.fixture
def sql(spark: Any, table_name: str) -> Iterator[Any]:
    """Runs a statement; `{t}` in it is a name of this test's own, dropped after it."""
    name = f"sql_{table_name}"
    yield lambda text: spark.sql(text.replace("{t}", name)).collect()
    spark.catalog.dropTempView(name)
    spark.sql(f"DROP TABLE IF EXISTS {name}")


@pytest.mark.parametrize("enabled", ["false", "true"])
def test_each_query_of_a_dataframe_has_its_own_filters(frame: SparkTable, enabled: str) -> None:
    """Spark keeps the reader of a DataFrame's first query, and what was pushed into it, for the next one."""
    frame.spark.conf.set("spark.sql.python.filterPushdown.enabled", enabled)
    try:
        rows = frame.read(keys="utf8")
        one, other = rows.where("key = 'a07'"), rows.where("key LIKE 'b%'")
        assert (one.count(), rows.count(), other.count(), one.count()) == (1, 40, 20, 1)
        assert one.union(other).count() == 21
        assert rows.where("key >= 'a10'").join(other, "key").count() == 20
    finally:
        frame.spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_a_table_of_the_catalog(sql: Any, place: str, table: Table, spark: Any, table_name: str) -> None:
    sql(
        f"CREATE TABLE {{t}} USING duramen OPTIONS ({place}, Keys 'utf8', `values` 'utf8') "
        "LOCATION '/anywhere' COMMENT 'flights' TBLPROPERTIES ('owner.team' = 'ops')"
    )
    assert sql("SELECT count(*) AS n FROM {t}")[0].n == 40
    assert sql("SELECT value FROM {t} WHERE key = 'a07'")[0].value == "7"
    assert sql("SELECT count(*) AS n FROM {t} WITH (prefix = 'b') WHERE value < '2'")[0].n == 12
    table.put(b"a07", b"new")
    assert sql("SELECT value FROM {t} WHERE key = 'a07'")[0].value == "new"
    assert spark.table(f"sql_{table_name}").where("key = 'b00'").count() == 1


def test_the_log_as_a_table_of_the_catalog(sql: Any, place: str, table: Table) -> None:
    sql(f"CREATE TABLE {{t}} USING duramen OPTIONS ({place}, log 'true', keys 'utf8')")
    table.delete(b"a07")
    found = sql("SELECT operation FROM {t} WHERE key = 'a07' ORDER BY offset")
    assert [row.operation for row in found] == ["put", "delete"]


def test_options_of_the_catalogs_table_are_checked_when_it_is_made(sql: Any, place: str) -> None:
    assert "tokem is no option of a read" in failure(
        lambda: sql(f"CREATE TABLE {{t}} USING duramen OPTIONS ({place}, tokem 'x')")
    )
    assert "the option `at` is missing" in failure(lambda: sql("CREATE TABLE {t} USING duramen"))


def test_a_table_with_columns_of_its_own_says_what_to_do(sql: Any, place: str) -> None:
    """Spark asks no data source about a table whose columns are named, and loses its options."""
    sql(f"CREATE TABLE {{t}} (key STRING, value STRING) USING duramen OPTIONS ({place})")
    said = failure(lambda: sql("SELECT * FROM {t}"))
    assert "the option `at` is missing" in said
    assert "CREATE TEMPORARY VIEW" in said


def test_a_temporary_view_is_read_and_written(sql: Any, place: str, table: Table) -> None:
    sql(f"CREATE TEMPORARY VIEW {{t}} (key STRING, value STRING) USING duramen OPTIONS ({place})")
    assert sql("SELECT value FROM {t} WHERE key = 'a07'")[0].value == "7"
    sql("INSERT INTO {t} VALUES ('c1', 'x'), ('c2', 'y')")
    assert table.get_many([b"c1", b"c2"], level="strong") == [b"x", b"y"]
    sql("INSERT INTO {t} SELECT concat('d', key), value FROM {t} WHERE key < 'a05'")
    assert len(list(table.scan(prefix=b"d", level="strong"))) == 5


def test_no_rows_go_to_a_table_that_was_not_named(sql: Any, place: str, spark: Any, table_name: str) -> None:
    """What is carried for reads is no target: rows of that table written without options would land in it again."""
    sql(f"CREATE TABLE {{t}} USING duramen OPTIONS ({place}, keys 'utf8', `values` 'utf8')")
    rows = spark.table(f"sql_{table_name}").select("key", "value")
    said = failure(lambda: rows.write.format("duramen").mode("append").save())
    assert "the option `at` is missing" in said
    assert "CREATE TEMPORARY VIEW" in failure(lambda: sql("INSERT INTO {t} (key, value) VALUES ('c1', 'x')"))
