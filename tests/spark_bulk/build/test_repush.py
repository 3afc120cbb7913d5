"""A table's own content as a new version: the same, through a function, for other partitions; while writes go on."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from kit.deadlines import patience_s
from kit.spark.building import content_of, values_of

from log_tier.model.errors import InvalidRequest, InvalidToken, InvalidValue
from log_tier.model.identifiers import NOTHING, Partition
from log_tier.model.record import Operation
from log_tier.model.tokens import Token
from serving_tier.fold.entry import LiveEntry
from spark_bulk.build.version_build import Built, build_index
from spark_bulk.repush import repush

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]


def fill(table: Any, count: int = 2000) -> dict[bytes, LiveEntry]:
    """Rows with a history: overwritten, deleted, expiring; what is left of them, as a node serves it."""
    table.put_many([(b"k%04d" % number, b"first") for number in range(count)])
    table.put_many([(b"k%04d" % number, b"second %d" % number) for number in range(0, count, 2)])
    for number in range(0, count, 100):
        table.delete(b"k%04d" % number)
    table.put(b"due", b"later", ttl=86_400)
    return {
        key: LiveEntry(found.value, found.version, found.expires_at_ms)
        for key, found in ((key, table.get_entry(key)) for key in [b"due", *(b"k%04d" % n for n in range(count))])
        if found is not None
    }


def test_a_table_becomes_a_version_of_itself(spark: Any, server: Any, table: Any, tmp_path: Path) -> None:
    """Values, versions and expiries are those that the nodes serve."""
    rows = fill(table)
    built: list[Built] = []
    version = repush(spark, at=server.target, table=table.name, url=str(tmp_path / "v"), report=built.append)
    assert content_of(version, tmp_path / "v", tmp_path) == rows
    assert version.source == f"repush of {table.name}"
    assert built == [Built(version, len(rows), 0)]


def test_an_empty_table_too(spark: Any, server: Any, table: Any, tmp_path: Path) -> None:
    version = repush(spark, at=server.target, table=table.name, url=str(tmp_path / "v"))
    assert content_of(version, tmp_path / "v", tmp_path) == {}
    assert [part.offset for part in version.parts] == [0] * 8


def test_the_state_at_a_token_is_exact(spark: Any, server: Any, database: Any, table: Any, tmp_path: Path) -> None:
    rows = fill(table, 500)
    seen = Token.parse(database.token())
    ((table_id, offsets),) = seen.tables.items()
    table.put_many([(b"k%04d" % number, b"too late") for number in range(600)])
    version = repush(
        spark, at=server.target, table=table.name, url=str(tmp_path / "v"), token=str(Token({table_id: offsets}))
    )
    assert [part.offset for part in version.parts] == [offsets[Partition(number)] for number in range(8)]
    assert content_of(version, tmp_path / "v", tmp_path) == rows
    with pytest.raises(InvalidToken, match="says nothing of"):
        repush(
            spark,
            at=server.target,
            table=table.name,
            url=str(tmp_path / "w"),
            token=Token.of(table_id, Partition(0), offsets[Partition(0)]),
        )


@contextmanager
def writing(server: Any, name: str) -> Iterator[None]:
    """Somebody who writes all the time."""
    stop = threading.Event()
    failed: list[BaseException] = []

    def write() -> None:
        try:
            with server.connect() as database:
                number = 0
                while not stop.is_set():
                    database.table(name).put_many([(b"w%06d" % (number + each), b"%d" % number) for each in range(50)])
                    number += 50
        except BaseException as error:
            failed.append(error)
            raise

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        stop.set()
        writer.join(patience_s(60))
    assert not failed
    assert not writer.is_alive()


@pytest.mark.parametrize("changing", [False, True], ids=["as it is", "through a function"])
def test_what_is_taken_while_writes_go_on_is_a_state_of_the_log(
    spark: Any, server: Any, database: Any, table: Any, tmp_path: Path, changing: bool
) -> None:
    """Each partition is the log's content up to its very base, and what was written later is not in it."""
    fill(table, 500)
    function = (lambda key, value: (key, value)) if changing else None
    with writing(server, table.name):
        version = repush(spark, at=server.target, table=table.name, url=str(tmp_path / "v"), function=function)
    found = content_of(version, tmp_path / "v", tmp_path)
    state: list[dict[bytes, bytes]] = [{} for _ in version.parts]
    behind = {Partition(number): part.offset for number, part in enumerate(version.parts)}
    # One more write to every partition: the watch is over when it has shown them all.
    after = dict(table.put_many([(b"{%d}end" % number, b"") for number in range(300)]).offsets)
    assert set(after) == set(behind)
    for change in table.watch(after=str(Token({version.table: dict.fromkeys(behind, NOTHING)}))):
        if change.offset <= behind[change.partition]:
            if change.operation is Operation.DELETE:
                del state[change.partition][change.key]
            else:
                state[change.partition][change.key] = change.value or b""
        if after.get(change.partition) == change.offset:
            del after[change.partition]
        if not after:
            break
    assert values_of(found) == {key: value for part in state for key, value in part.items()}


def test_a_function_changes_drops_and_renames(spark: Any, server: Any, table: Any, tmp_path: Path) -> None:
    """A row that gets another key is in another partition then; its expiry stays, its version is the base's."""
    rows = fill(table, 600)

    def change(key: bytes, value: bytes) -> tuple[bytes, bytes] | None:
        return None if value == b"first" else (b"new-" + key, value.upper())

    version = repush(spark, at=server.target, table=table.name, url=str(tmp_path / "v"), function=change)
    found = content_of(version, tmp_path / "v", tmp_path)
    assert values_of(found) == {
        b"new-" + key: entry.value.upper() for key, entry in rows.items() if entry.value != b"first"
    }
    assert found[b"new-due"].expires_at_ms == rows[b"due"].expires_at_ms > 0
    assert {entry.version for entry in found.values()} <= {part.offset for part in version.parts}
    assert version.source == f"repush of {table.name} through a function"


def test_a_function_that_makes_something_else_is_refused(spark: Any, server: Any, table: Any, tmp_path: Path) -> None:
    table.put(b"a", b"1")
    table.put(b"b", b"2")
    how: dict[str, Any] = {"at": server.target, "table": table.name}

    def wrong(key: bytes, value: bytes) -> Any:
        return "text" if key == b"a" else None

    with pytest.raises(InvalidValue, match=r"the function made 'text' of the key b'a'"):
        repush(spark, **how, url=str(tmp_path / "v"), function=wrong)
    with pytest.raises(InvalidRequest, match="has b'one' more than once"):
        repush(spark, **how, url=str(tmp_path / "v"), function=lambda key, value: (b"one", value))
    assert [path for path in (tmp_path / "v").rglob("*") if path.is_file()] == []


def test_into_a_table_of_other_partitions(spark: Any, server: Any, database: Any, table: Any, tmp_path: Path) -> None:
    rows = fill(table, 700)
    other = database.create_table(f"{table.name}-into", partitions=3)
    done = other.put(b"live", b"1")
    version = repush(spark, at=server.target, table=table.name, into=other.name, url=str(tmp_path / "v"))
    found = content_of(version, tmp_path / "v", tmp_path)
    assert values_of(found) == {key: entry.value for key, entry in rows.items()}
    assert (version.table_name, version.partitions) == (other.name, 3)
    assert version.parts[done.partition].offset == done.offset
    assert {entry.version for entry in found.values()} == {0}


def test_a_version_that_was_built_is_repushed_when_it_is_there(
    spark: Any, server: Any, table: Any, tmp_path: Path
) -> None:
    """The state of a partition is taken from a snapshot store as well, where one is named."""
    frame = spark.range(100).selectExpr("CAST(id AS string) AS k", "'v' AS v")
    build_index(frame, at=server.target, table=table.name, key="k", value="v", url=str(tmp_path / "built"))
    rows = fill(table, 100)
    version = repush(
        spark, at=server.target, table=table.name, url=str(tmp_path / "v"), snapshots=str(tmp_path / "built")
    )
    assert content_of(version, tmp_path / "v", tmp_path) == rows
