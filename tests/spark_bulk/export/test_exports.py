"""Exports with a real Spark and a real server: read back they are what the table, and its feed, say."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from log_tier.model.errors import ConditionFailed, InvalidKey, InvalidRequest, InvalidToken, TokenAhead
from log_tier.model.identifiers import NOTHING, Partition
from log_tier.model.tokens import Token
from spark_bulk.export import ExportManifest, ExportPlace, export_changes, export_table
from spark_bulk.export.row_checksum import RowTally

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]


def rows_of(spark: Any, url: Path, export: ExportManifest) -> list[Any]:
    if not export.files:
        return []
    return list(spark.read.parquet(str(url / export.folder)).collect())


def files_below(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def checksums_of(url: Path, export: ExportManifest) -> tuple[int, ...]:
    """The checksum over what each partition's files hold."""
    tallies = [RowTally() for _ in range(export.partitions)]
    for file in export.files:
        stored = pq.ParquetFile(url / export.folder / file.path)
        assert sum(map(len, tallies[file.partition].passing(stored.iter_batches()))) == file.rows
    return tuple(tally.count.checksum for tally in tallies)


def test_a_table_is_exported_as_it_stands_at_a_token(
    spark: Any, server: Any, database: Any, table: Any, tmp_path: Path
) -> None:
    table.put_many([(b"k%04d" % number, b"first") for number in range(1000)])
    table.delete(b"k0007")
    table.put(b"due", b"later", ttl=86_400)
    seen = database.token()
    expected = {key: table.get_entry(key) for key in [b"due", *(b"k%04d" % number for number in range(1000))]}
    table.put_many([(b"k%04d" % number, b"too late") for number in range(1200)])
    export = export_table(spark, at=server.target, table=table.name, url=str(tmp_path), token=seen)
    assert (export.kind, export.number, export.rows) == ("table", 0, 1000)
    ((_, offsets),) = Token.parse(seen).tables.items()
    assert dict(enumerate(export.until)) == offsets
    assert export.checksums == checksums_of(tmp_path, export)
    found = {bytes(row.key): row for row in rows_of(spark, tmp_path, export)}
    assert {key: (bytes(row.value), row.version) for key, row in found.items()} == {
        key: (entry.value, entry.version) for key, entry in expected.items() if entry is not None
    }
    due = expected[b"due"]
    assert round(found[b"due"].expires_at.timestamp() * 1000) == due.expires_at_ms
    assert found[b"k0001"].expires_at is None
    assert {row.partition for row in found.values()} == set(range(8))
    assert files_below(tmp_path / export.folder) - {"_manifest.json"} <= {
        name for file in export.files for name in (file.path, f"{Path(file.path).parent}/.{Path(file.path).name}.crc")
    }


def test_changes_go_on_where_the_last_export_ended(
    spark: Any, server: Any, database: Any, table: Any, tmp_path: Path
) -> None:
    """The table, then its changes: applied to it, they give the table as it is; no change comes twice."""
    table.put_many([(b"k%03d" % number, b"old") for number in range(300)])
    first = export_table(
        spark, at=server.target, table=table.name, url=str(tmp_path), keys="utf8", values="utf8", token=database.token()
    )
    state = {row.key: row.value for row in rows_of(spark, tmp_path, first)}
    assert len(state) == 300
    for step in range(3):
        table.put_many([(b"k%03d" % number, b"step %d" % step) for number in range(step, 400, 7)])
        table.delete(b"k%03d" % (100 + step))
        with pytest.raises(ConditionFailed):
            table.put(b"k001", b"never", if_absent=True)
        export = export_changes(
            spark, at=server.target, table=table.name, url=str(tmp_path), keys="utf8", values="utf8"
        )
        assert (export.kind, export.number) == ("changes", step + 1)
        rows = sorted(rows_of(spark, tmp_path, export), key=lambda row: (row.partition, row.offset))
        for row in rows:
            assert export.after[row.partition] < row.offset <= export.until[row.partition]
            if row.operation == "delete":
                del state[row.key]
            else:
                state[row.key] = row.value
        assert export.rows == len(rows) == len(range(step, 400, 7)) + 1
        assert export.checksums == checksums_of(tmp_path, export)
        before = ExportPlace.open(tmp_path).last()
        assert before == export
    assert {key.encode(): value.encode() for key, value in state.items()} == dict(table.scan())
    # Nothing has happened since, and that is an export too.
    last = export_changes(spark, at=server.target, table=table.name, url=str(tmp_path))
    assert (last.rows, last.files, last.after, last.until) == (0, (), export.until, export.until)


def test_changes_between_two_tokens(spark: Any, server: Any, table: Any, tmp_path: Path) -> None:
    """The first token does not name every partition, and so has seen nothing of the others."""
    done = [table.put(b"{one}%d" % number, b"%d" % number) for number in range(10)]
    elsewhere = table.put(b"{two}", b"x")
    assert elsewhere.partition != done[0].partition
    export = export_changes(
        spark,
        at=server.target,
        table=table.name,
        url=str(tmp_path),
        from_token=done[3].token,
        to_token=done[7].token,
    )
    assert [(row.offset, bytes(row.value)) for row in rows_of(spark, tmp_path, export)] == [
        (number, b"%d" % number) for number in range(4, 8)
    ]
    assert export.after[done[0].partition] == 3
    assert export.until[elsewhere.partition] == NOTHING
    following = export_changes(spark, at=server.target, table=table.name, url=str(tmp_path))
    assert {bytes(row.key) for row in rows_of(spark, tmp_path, following)} == {b"{one}8", b"{one}9", b"{two}"}


def test_an_empty_table_is_exported(spark: Any, server: Any, table: Any, tmp_path: Path) -> None:
    export = export_table(spark, at=server.target, table=table.name, url=str(tmp_path))
    assert (export.rows, export.files, export.until) == (0, (), (NOTHING,) * 8)
    table.put(b"a", b"1")
    changes = export_changes(spark, at=server.target, table=table.name, url=str(tmp_path))
    assert [(bytes(row.key), row.operation) for row in rows_of(spark, tmp_path, changes)] == [(b"a", "put")]


def test_what_cannot_be_exported_leaves_nothing(
    spark: Any, server: Any, database: Any, table: Any, tmp_path: Path
) -> None:
    done = table.put(b"\xff", b"1")
    table.put_many([(b"%d" % number, b"") for number in range(100)])
    how: dict[str, Any] = {"at": server.target, "table": table.name, "url": str(tmp_path / "e")}
    with pytest.raises(InvalidKey, match=r"the key under the key b'\\xff' is no UTF-8"):
        export_table(spark, **how, keys="utf8")
    with pytest.raises(TokenAhead):
        export_table(spark, **how, token=Token.of(done.table_id, done.partition, done.offset + 10_000))
    with pytest.raises(InvalidToken):
        export_changes(spark, **how, from_token="yesterday")
    assert files_below(tmp_path / "e") == set()
    export_table(spark, **how)
    other = database.create_table(f"{table.name}-other", partitions=2)
    with pytest.raises(InvalidRequest, match=f"has export 0 of {table.name} .table., which is table {done.table_id}"):
        export_changes(spark, **{**how, "table": other.name})


def test_an_export_into_an_object_store(spark: Any, server: Any, table: Any, s3_address: str, bucket: str) -> None:
    table.put_many([(b"%d" % number, b"v" * 100) for number in range(1000)])
    url = f"s3://{bucket}/exports?endpoint_url={s3_address}"
    options = {"key": "x", "secret": "x"}
    export = export_table(spark, at=server.target, table=table.name, url=url, storage_options=options)
    place = ExportPlace.open(url, options)
    assert place.last() == export
    found = set(_keys(place, export))
    assert found == {b"%d" % number for number in range(1000)}


def _keys(place: ExportPlace, export: ExportManifest) -> Iterable[bytes]:
    for file in export.files:
        assert file.path.startswith(f"partition={Partition(file.partition)}/")
        with place._fs.open(place._at(f"{export.folder}/{file.path}"), "rb") as stored:
            yield from pq.read_table(stored).column("key").to_pylist()
