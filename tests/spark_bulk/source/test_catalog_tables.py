"""What a table of Spark's catalog carries in its schema is what its OPTIONS said."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from log_tier.model.errors import InvalidRequest
from spark_bulk.source.model.catalog_tables import carried_options, catalog_options, with_options

names = st.text(st.characters(codec="ascii", categories=["Ll"]), min_size=1, max_size=4)


@given(st.dictionaries(names, st.text(max_size=8), min_size=1))
def test_options_come_back_as_they_were(options: dict[str, str]) -> None:
    ddl = with_options("key BINARY, value BINARY", options)
    before, comment, after = ddl.split("'")  # no quote inside
    assert (before, after) == ("key BINARY COMMENT ", ", value BINARY")
    assert "\\" not in comment
    assert comment.isascii()
    assert carried_options(["another comment", comment]) == options


def test_what_is_readable_stays_so() -> None:
    options = {"table": "flights", "at": "db1:7070,db2:7070", "snapshots": "s3://x/y"}
    assert with_options("key BINARY", options) == (
        "key BINARY COMMENT 'duramen:at=db1:7070,db2:7070&snapshots=s3://x/y&table=flights'"
    )


def test_options_of_a_table_are_distinguished_from_what_spark_adds() -> None:
    given_by_spark = {
        "option.AT": "db1:7070",
        "AT": "db1:7070",
        "option.table": "flights",
        "table": "flights",
        "provider": "duramen",
        "owner": "root",
        "path": "file:/x",
        "location": "file:/x",
        "owner.team": "ops",
    }
    assert catalog_options(given_by_spark) == {"at": "db1:7070", "table": "flights"}
    assert catalog_options({"at": "db1:7070", "table": "flights"}) is None
    assert catalog_options({"provider": "duramen", "owner": "root"}) == {}


def test_a_schema_without_them() -> None:
    assert carried_options([]) == {}
    assert carried_options(["", "the flight's number"]) == {}


def test_a_secret_among_the_options_of_create_table_is_refused() -> None:
    options = {"at": "db1:7070", "snapshots": "s3://b/p?endpoint_url=http://me:QXZQ@h:9000"}
    with pytest.raises(InvalidRequest, match="`snapshots` of CREATE TABLE holds a secret") as caught:
        with_options("key BINARY, value BINARY", options)
    assert "QXZQ" not in caught.value.message
