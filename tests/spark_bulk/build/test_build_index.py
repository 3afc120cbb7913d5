"""Builds with a real Spark and a real server: what is built is what was read, in the place where the router looks."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kit.deadlines import patience_s
from kit.spark.building import content_of, values_of

from log_tier.model.errors import (
    InvalidKey,
    InvalidRequest,
    InvalidToken,
    InvalidValue,
    SnapshotStoreUnavailable,
    TableNotFound,
)
from log_tier.model.identifiers import Partition
from log_tier.model.record import VALUE_BYTES_MAX
from log_tier.model.tokens import Token
from serving_tier.versions import VersionStore
from spark_bulk.build.version_build import Built, build_index
from spark_bulk.runtime.waiting import wait_for
from spark_bulk.spark_session import java_problem

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]

PARTITIONS = 8


def test_a_data_frame_becomes_a_version(spark: Any, server: Any, table: Any, tmp_path: Path) -> None:
    """Every key in its partition, which joins the log where it ended when the build began."""
    done = table.put(b"live", b"1")
    rows = {b"k%05d" % number: b"value %d" % number for number in range(20_000)}
    frame = spark.createDataFrame([(key.decode(), value) for key, value in rows.items()], "tail string, about binary")
    built: list[Built] = []
    version = build_index(
        frame.repartition(3),
        at=server.target,
        table=table.name,
        key="tail",
        value="about",
        url=str(tmp_path / "version"),
        report=built.append,
    )
    found = content_of(version, tmp_path / "version", tmp_path)
    assert values_of(found) == rows
    assert (version.table_name, version.partitions, version.partitioner) == (table.name, PARTITIONS, "slot")
    assert version.source == "a data frame of tail, about"
    assert (built[0].version, built[0].rows, built[0].dropped) == (version, 20_000, 0)
    # One record each: the live one, and the no-ops of the partitions that had none.
    assert {part.offset for part in version.parts} == {0}
    assert version.parts[done.partition].offset == done.offset
    assert {entry.version for entry in found.values()} == {0}
    assert table.get(b"live") == b"1"


def test_a_token_says_where_the_log_goes_on(spark: Any, server: Any, database: Any, table: Any, tmp_path: Path) -> None:
    for number in range(100):
        table.put(b"%d" % number, b"")
    ((table_id, seen),) = Token.parse(database.token()).tables.items()
    assert sorted(seen) == list(range(PARTITIONS))
    text = str(Token({table_id: seen}))
    for number in range(100):
        table.put(b"%d" % number, b"later")
    frame = spark.createDataFrame([(b"a", b"1")], "k binary, v binary")
    how: dict[str, Any] = {"at": server.target, "table": table.name, "key": "k", "value": "v"}
    version = build_index(frame, **how, url=str(tmp_path / "v"), token=text)
    assert [part.offset for part in version.parts] == [seen[Partition(each)] for each in range(PARTITIONS)]
    with pytest.raises(InvalidToken, match="says nothing of 7 partitions"):
        build_index(frame, **how, url=str(tmp_path / "w"), token=Token.of(table_id, Partition(0), seen[Partition(0)]))


def test_an_empty_data_set_is_an_empty_version(spark: Any, server: Any, table: Any, tmp_path: Path) -> None:
    frame = spark.createDataFrame([], "k string, v string")
    version = build_index(frame, at=server.target, table=table.name, key="k", value="v", url=str(tmp_path / "v"))
    assert content_of(version, tmp_path / "v", tmp_path) == {}
    assert [part.offset for part in version.parts] == [0] * PARTITIONS


def test_one_giant_partition(spark: Any, server: Any, table: Any, tmp_path: Path) -> None:
    """A tag sends every key to one partition; the others are empty."""
    frame = spark.range(50_000).selectExpr("concat('{one}', id) AS k", "repeat('v', 50) AS v")
    version = build_index(frame, at=server.target, table=table.name, key="k", value="v", url=str(tmp_path / "v"))
    assert sorted(part.keys for part in version.parts) == [0] * 7 + [50_000]
    assert set(content_of(version, tmp_path / "v", tmp_path)) == {b"{one}%d" % number for number in range(50_000)}


def test_values_from_columns_are_json(spark: Any, server: Any, table: Any, tmp_path: Path) -> None:
    frame = spark.createDataFrame(
        [("UA1", 7, None, ("EWR", 2.5)), ("B6", None, "x\u00e9", None)],
        "flight string, `delay.min` int, tail string, origin struct<code: string, miles: double>",
    )
    for number, (value, expected) in enumerate(
        [
            (None, {b"UA1": {"delay.min": 7, "origin": {"code": "EWR", "miles": 2.5}}, b"B6": {"tail": "x\u00e9"}}),
            (["delay.min", "tail"], {b"UA1": {"delay.min": 7}, b"B6": {"tail": "x\u00e9"}}),
        ]
    ):
        url = tmp_path / str(number)
        version = build_index(
            frame,
            at=server.target,
            table=table.name,
            key="flight",
            value=value,
            url=str(url),
        )
        found = values_of(content_of(version, url, tmp_path))
        assert {key: json.loads(text) for key, text in found.items()} == expected
    structs = frame.filter("origin IS NOT NULL")
    version = build_index(
        structs, at=server.target, table=table.name, key="flight", value="origin", url=str(tmp_path / "struct")
    )
    assert values_of(content_of(version, tmp_path / "struct", tmp_path)) == {b"UA1": b'{"code":"EWR","miles":2.5}'}


def test_of_duplicates_the_last_is_kept(spark: Any, server: Any, table: Any, tmp_path: Path) -> None:
    """The last by the column; null is before everything; equal ones by their values, so that it is always the same."""
    rows = [(b"a", b"1", 1), (b"a", b"2", 3), (b"a", b"3", 2), (b"b", b"1", None), (b"b", b"0", -5)]
    rows += [(b"c", b"x", 7), (b"c", b"y", 7)] + [(b"%d" % number, b"", 0) for number in range(500)]
    built: list[Built] = []
    for number in range(2):
        frame = spark.createDataFrame(rows[::-1] if number else rows, "k binary, v binary, t int").repartition(4)
        version = build_index(
            frame,
            at=server.target,
            table=table.name,
            key="k",
            value="v",
            url=str(tmp_path / str(number)),
            duplicates="last",
            order_by="t",
            report=built.append,
        )
        found = values_of(content_of(version, tmp_path / str(number), tmp_path))
        assert (found[b"a"], found[b"b"], found[b"c"]) == (b"2", b"0", b"y")
        assert len(found) == 503
    assert [(each.rows, each.dropped) for each in built] == [(507, 4)] * 2


def test_rows_expire_by_the_logs_clock(spark: Any, server: Any, table: Any, tmp_path: Path) -> None:
    frame = spark.sql("SELECT * FROM VALUES ('a', timestamp_millis(4102444800123)), ('b', NULL) AS t(k, due)")
    version = build_index(
        frame, at=server.target, table=table.name, key="k", value="k", expires_at="due", url=str(tmp_path / "v")
    )
    found = content_of(version, tmp_path / "v", tmp_path)
    assert {key: entry.expires_at_ms for key, entry in found.items()} == {b"a": 4102444800123, b"b": 0}


BAD_ROWS = [
    ("null key", "SELECT * FROM VALUES ('a','1'), (NULL,'who') AS t(k,v)", InvalidKey, "column k is null in 1 .*'who'"),
    ("empty key", "SELECT * FROM VALUES ('a','1'), ('','2') AS t(k,v)", InvalidKey, "column k has b'' with 0 bytes"),
    ("long key", "SELECT repeat('k', 512) AS k, '1' AS v", InvalidKey, "column k has b'k+'… with 512 bytes"),
    ("null value", "SELECT 'a' AS k, CAST(NULL AS string) AS v", InvalidValue, "column v is null for the key b'a'"),
    (
        "long value",
        f"SELECT 'a' AS k, repeat('v', {VALUE_BYTES_MAX + 1}) AS v",
        InvalidValue,
        "v has 4194305 byt",
    ),
    ("duplicates", "SELECT * FROM VALUES ('a','1'), ('a','1') AS t(k,v)", InvalidRequest, "k has b'a' more than once"),
]


@pytest.mark.parametrize(("query", "error", "message"), [row[1:] for row in BAD_ROWS], ids=[row[0] for row in BAD_ROWS])
def test_bad_rows_are_refused_with_their_column_and_leave_nothing(
    spark: Any, server: Any, table: Any, tmp_path: Path, query: str, error: type[InvalidRequest], message: str
) -> None:
    """Together with good ones, most of whose partitions are stored by then."""
    good = spark.range(1000).selectExpr("CAST(id AS string) AS k", "'v' AS v")
    with pytest.raises(error, match=rf"partition \d of {table.name}: .*{message}") as caught:
        build_index(
            good.union(spark.sql(query)),
            at=server.target,
            table=table.name,
            key="k",
            value="v",
            url=str(tmp_path / "version"),
        )
    assert type(caught.value) is error
    assert [path for path in (tmp_path / "version").rglob("*") if path.is_file()] == []


@pytest.mark.parametrize(
    ("how", "error", "message"),
    [
        ({"key": "no"}, InvalidRequest, "the data has no column 'no' for the key; its columns are: k, v, n, b"),
        ({"key": "n"}, InvalidKey, "the key column n is of type bigint: cast it to binary or string"),
        ({"key": "k", "value": "n"}, InvalidValue, "the value column n is of type bigint: .*value=.'n'."),
        ({"key": "k", "value": ["b"]}, InvalidValue, "the column b is binary, which JSON cannot hold"),
        ({"key": "k", "value": []}, InvalidValue, "there is no column that could be the value"),
        (
            {"key": "k", "value": "v", "expires_at": "n"},
            InvalidRequest,
            "expiry column n is of type bigint",
        ),
        ({"key": "k", "value": "v", "duplicates": "last"}, InvalidRequest, "name both, or none of them"),
        ({"key": "k", "value": "v", "order_by": "n"}, InvalidRequest, "name both, or none of them"),
        ({"key": "k", "value": "v", "duplicates": "first"}, InvalidRequest, "is one of error, last, not 'first'"),
        ({"key": "k", "value": "v", "url": "s3://x?y=z"}, InvalidRequest, "y is no setting"),
        ({"key": "k", "value": "v", "table": "none"}, TableNotFound, "there is no table 'none'"),
    ],
    ids=itertools.count(),
)
def test_a_build_that_cannot_be_is_refused_before_it_begins(
    spark: Any, server: Any, table: Any, tmp_path: Path, how: dict[str, Any], error: type[Exception], message: str
) -> None:
    frame = spark.sql("SELECT 'a' AS k, 'v' AS v, 7L AS n, CAST('x' AS binary) AS b")
    with pytest.raises(error, match=message):
        build_index(frame, **{"at": server.target, "table": table.name, "url": str(tmp_path / "v"), **how})
    assert not (tmp_path / "v").exists()


def test_a_place_that_has_a_version_takes_no_other(spark: Any, server: Any, table: Any, tmp_path: Path) -> None:
    frame = spark.sql("SELECT 'a' AS k, 'v' AS v")
    how: dict[str, Any] = {
        "at": server.target,
        "table": table.name,
        "key": "k",
        "value": "v",
        "url": str(tmp_path / "v"),
    }
    version = build_index(frame, **how)
    with pytest.raises(InvalidRequest, match=f"has version {version.id} of .* already"):
        build_index(frame, **how)
    assert values_of(content_of(version, tmp_path / "v", tmp_path)) == {b"a": b"v"}


def test_a_task_that_is_killed_is_run_again_and_its_leftovers_go(
    spark: Any, server: Any, table: Any, tmp_path: Path
) -> None:
    """The worker dies in the middle of its rows, one time; a snapshot of this build that nobody counts lies there."""
    died = str(tmp_path / "died")

    def deadly(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            yield batch
            if not os.path.exists(died):
                with open(died, "w"):
                    pass
                os.kill(os.getpid(), signal.SIGKILL)

    rows = spark.range(40_000).selectExpr("CAST(id AS string) AS k", "repeat('v', 20) AS v")
    frame = rows.mapInArrow(deadly, "k string, v string")
    version = build_index(frame, at=server.target, table=table.name, key="k", value="v", url=str(tmp_path / "v"))
    assert os.path.exists(died)
    assert values_of(content_of(version, tmp_path / "v", tmp_path)) == {
        b"%d" % number: b"v" * 20 for number in range(40_000)
    }


def test_a_writer_that_is_killed_leaves_no_attempt_behind(
    spark: Any, server: Any, table: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed after its snapshot was stored and before Spark heard of it: the second attempt counts."""
    from spark_bulk.build import version_build
    from spark_bulk.build.partition_build import BuildPlan, partition_builder

    died = str(tmp_path / "died")

    def deadly_builder(plan: BuildPlan) -> Any:
        build = partition_builder(plan)

        def run(batches: Iterator[Any]) -> Iterator[Any]:
            for outcome in build(batches):
                if not os.path.exists(died):
                    with open(died, "w"):
                        pass
                    os.kill(os.getpid(), signal.SIGKILL)
                yield outcome

        return run

    monkeypatch.setattr(version_build, "partition_builder", deadly_builder)
    frame = spark.range(5000).selectExpr("CAST(id AS string) AS k", "'v' AS v")
    version = build_index(frame, at=server.target, table=table.name, key="k", value="v", url=str(tmp_path / "v"))
    assert os.path.exists(died)
    assert set(content_of(version, tmp_path / "v", tmp_path)) == {b"%d" % number for number in range(5000)}


def test_an_executor_that_is_killed_while_it_writes(server: Any, table: Any, tmp_path: Path) -> None:
    """Executors that are processes of their own: kill -9, a new one, the same content."""
    reason = java_problem()
    if reason:
        pytest.skip(reason)
    rows, url = 40_000, str(tmp_path / "v")
    program = Path(__file__).with_name("killed_builder.py")
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [sys.executable, str(program), server.target, table.name, str(rows), url, str(tmp_path)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=patience_s(180),
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    version = wait_for(VersionStore.open(url).get())
    assert values_of(content_of(version, url, tmp_path)) == {b"%d" % number: b"v" * 20 for number in range(rows)}


def test_a_failure_of_ours_in_a_task_is_that_failure_here(spark: Any, server: Any, table: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    frame = spark.sql("SELECT 'a' AS k, 'v' AS v")
    with pytest.raises(SnapshotStoreUnavailable, match="cannot be used"):
        build_index(frame, at=server.target, table=table.name, key="k", value="v", url=str(tmp_path / "file" / "v"))


def test_a_build_into_an_object_store(
    spark: Any, server: Any, table: Any, tmp_path: Path, s3_address: str, bucket: str
) -> None:
    url = f"s3://{bucket}/versions/1?endpoint_url={s3_address}"
    frame = spark.range(3000).selectExpr("CAST(id AS string) AS k", "repeat('v', 100) AS v")
    options = {"key": "x", "secret": "x"}
    version = build_index(
        frame, at=server.target, table=table.name, key="k", value="v", url=url, storage_options=options
    )
    assert set(content_of(version, url, tmp_path)) == {b"%d" % number for number in range(3000)}
    with pytest.raises(InvalidKey):
        build_index(
            spark.sql("SELECT '' AS k, 'v' AS v"),
            at=server.target,
            table=table.name,
            key="k",
            value="v",
            url=url.replace("/1?", "/2?"),
            storage_options=options,
        )
    store = VersionStore.open(url.replace("/1?", "/2?"))
    assert wait_for(store.find()) is None
    assert wait_for(store.snapshots.snapshots()) == []
