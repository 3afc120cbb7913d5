"""An export that is not what the table held is found, and what cannot be compared is said. Written without Spark."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pyarrow.parquet as pq
import pytest
from kit.client.command_line import run_here

from log_tier.model.identifiers import NOTHING, Offset, Partition
from spark_bulk.export.audit import audit_exports
from spark_bulk.export.comparison import PartAudit
from spark_bulk.export.export_place import ExportPlace
from spark_bulk.export.export_tasks import ExportOutcome, ExportTarget, export_content, export_feed
from spark_bulk.export.manifest import ExportManifest
from spark_bulk.runtime.waiting import wait_for
from spark_bulk.source.log.feed import FeedPart
from spark_bulk.source.model.cluster_login import ClusterLogin
from spark_bulk.source.model.table_place import TablePlace, all_bounds, find_table
from spark_bulk.source.table import index_copies
from spark_bulk.source.table.index_copies import WantedCopy, batches_until

Kind = Literal["table", "changes"]


def exported(server: Any, table: Any, url: Path, *, kind: Kind = "table", missed: int = 0) -> ExportManifest:
    """What a job of Spark's writes, by its own tasks. `missed`: so many of the last offsets are not in the files."""
    place = wait_for(find_table(ClusterLogin.of(server.target), table.name, timeout_s=30))
    latest = [bounds.latest for bounds in wait_for(all_bounds(place, timeout_s=30))]
    exports = ExportPlace.open(url)
    last = exports.last()
    number = 0 if last is None else last.number + 1
    after = (NOTHING,) * len(latest) if last is None or kind == "table" else last.until
    target = ExportTarget(str(url), f"{number:06d}-{secrets.token_hex(4)}")
    exports.begin(target.folder)
    outcomes = [
        _written(place, target, kind, Partition(each), after[each], Offset(max(end - missed, NOTHING)))
        for each, end in enumerate(latest)
    ]
    manifest = ExportManifest(
        id=target.folder.partition("-")[2],
        number=number,
        kind=kind,
        table=place.topic.id,
        table_name=place.topic.name,
        partitions=len(latest),
        after=after,
        until=tuple(latest),
        created_ms=1,
        columns=target.table_columns,
        files=tuple(outcome.file for outcome in outcomes if outcome.file is not None),
        checksums=tuple(outcome.checksum for outcome in outcomes),
    )
    exports.commit(manifest)
    return manifest


def _written(
    place: TablePlace, target: ExportTarget, kind: Kind, partition: Partition, after: Offset, until: Offset
) -> ExportOutcome:
    if kind == "table":
        return export_content(target, WantedCopy(place.only(partition), partition, until, exact=True))
    first = Offset(after + 1)
    return export_feed(target, FeedPart(place.only(partition), partition, first, until, False, 60.0))


def audited(server: Any, table: Any, url: Path) -> list[PartAudit]:
    return list(audit_exports(ClusterLogin.of(server.target), table.name, str(url), timeout_s=30))


def fill(table: Any) -> None:
    table.put_many([(b"k%04d" % number, b"v%d" % number) for number in range(400)])
    table.put(b"due", b"later", ttl=86_400)
    table.delete(b"k0003")


@pytest.mark.parametrize("later", [False, True], ids=["at once", "after more writes"])
def test_an_export_is_what_the_table_held(server: Any, table: Any, tmp_path: Path, later: bool) -> None:
    fill(table)
    exported(server, table, tmp_path)
    fill(table)
    exported(server, table, tmp_path, kind="changes")
    if later:
        fill(table)
    changes, content = (audited(server, table, tmp_path)[part] for part in (slice(0, 8), slice(8, 16)))
    assert {each.export.kind for each in changes} == {"changes"}
    assert [each.verdict for each in changes] == ["equal"] * 8
    assert [each.verdict for each in content] == ["equal"] * 8
    assert sum(each.held.rows for each in content if each.held) == 400
    assert all(each.held == each.files == each.said for each in [*changes, *content])


@pytest.mark.parametrize("kind", ["table", "changes"])
def test_an_export_that_misses_the_last_offset_is_found(server: Any, table: Any, tmp_path: Path, kind: Kind) -> None:
    fill(table)
    last = table.put(b"k0001", b"the last one")
    exported(server, table, tmp_path, kind=kind, missed=1)
    part = audited(server, table, tmp_path)[last.partition]
    assert (part.verdict, b"k0001" in part.keys) == ("different", True)
    assert f"the table had up to offset {last.offset}" in part.reason
    assert part.files == part.said != part.held


def test_a_replay_that_ends_too_early_is_found(
    server: Any, table: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The export folds the log; the audit takes a replica's copy, and so does not make the same mistake."""
    fill(table)
    last = table.put(b"k0001", b"the last one")
    assert table.get(b"k0001", level="strong") == b"the last one"

    def too_few(data: bytes, until: Offset, place: Any = None) -> Iterator[bytes]:
        return batches_until(data, Offset(until - 1), place)

    monkeypatch.setattr(index_copies, "batches_until", too_few)
    exported(server, table, tmp_path)
    part = audited(server, table, tmp_path)[last.partition]
    assert (part.verdict, b"k0001" in part.keys) == ("different", True)


def test_an_export_of_what_the_log_does_not_have_is_found(server: Any, table: Any, tmp_path: Path) -> None:
    fill(table)
    export = exported(server, table, tmp_path)
    beyond = tuple(Offset(offset + 1) for offset in export.until)
    ExportPlace.open(tmp_path).commit(replace(export, until=beyond))
    for part in audited(server, table, tmp_path):
        assert part.verdict == "different"
        assert f"ends at {part.until - 1}, before what was exported" in part.reason


def drop_a_row(path: Path) -> None:
    rows = pq.read_table(path)
    pq.write_table(rows.slice(1), path)


def change_a_byte(path: Path) -> None:
    data = bytearray(path.read_bytes())
    for at in range(4, len(data) - 4, 3):
        data[at] ^= 0xFF
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (drop_a_row, "the files hold"),
        (lambda path: path.rename(path.with_suffix(".away")), "is missing"),
        (change_a_byte, "is damaged"),
    ],
)
def test_a_file_that_was_harmed_since_is_found(
    server: Any, table: Any, tmp_path: Path, harm: Callable[[Path], object], said: str
) -> None:
    fill(table)
    export = exported(server, table, tmp_path)
    harm(tmp_path / export.folder / export.files[0].path)
    verdicts = {each.partition: each for each in audited(server, table, tmp_path)}
    found = verdicts.pop(export.files[0].partition)
    assert found.verdict == "different"
    assert said in found.reason
    assert {each.verdict for each in verdicts.values()} == {"equal"}
    done = run_here("audit", "data", table.name, "--export", str(tmp_path), at=server.target)
    assert done.returncode == 1, done.stdout + done.stderr
    assert f"{table.name}/{found.partition} {export.folder} up to offset {found.until} exported" in done.stdout


def test_the_result_stays_with_the_servers_until_it_is_forgotten(server: Any, table: Any, tmp_path: Path) -> None:
    def noted() -> dict[int, tuple[int, str, str]]:
        shown = run_here("admin", "partitions", table.name, "--json", at=server.target).stdout.splitlines()
        return {
            row["partition"]: (each["rows"], each["verdict"], each["reason"])
            for row in map(json.loads, shown)
            for each in row["audits"]
        }

    def asked(*more: str) -> tuple[int, str]:
        done = run_here("audit", "data", table.name, "--export", str(tmp_path), *more, at=server.target)
        return done.returncode, done.stderr

    fill(table)
    export = exported(server, table, tmp_path)
    assert asked("--no-note") == (0, "")
    assert noted() == {}
    assert asked() == (0, "")
    rows = {file.partition: file.rows for file in export.files}
    assert noted() == {partition: (rows[Partition(partition)], "equal", "") for partition in range(8)}
    shown = run_here("audit", "data", f"{table.name}/2", at=server.target).stdout
    assert f"{table.name}/2 exported {rows[Partition(2)]} up to offset {export.until[2]}, checked 20" in shown
    assert f"(file://{tmp_path})" in shown
    drop_a_row(tmp_path / export.folder / export.files[0].path)
    assert asked()[0] == 1
    bad = export.files[0].partition
    assert {partition for partition, (_, verdict, _) in noted().items() if verdict == "different"} == {bad}
    assert f"{export.folder}: the files hold" in noted()[bad][2]
    assert run_here("audit", "data", table.name, at=server.target).returncode == 1
    assert asked("--forget") == (0, "")
    assert noted() == {}
    assert run_here("audit", "data", table.name, "--forget", at=server.target).returncode == 2


def test_an_export_of_an_earlier_version_is_compared_by_its_files(server: Any, table: Any, tmp_path: Path) -> None:
    fill(table)
    export = exported(server, table, tmp_path)
    ExportPlace.open(tmp_path).commit(replace(export, checksums=None))
    assert {each.verdict for each in audited(server, table, tmp_path)} == {"equal"}
    drop_a_row(tmp_path / export.folder / export.files[0].path)
    assert audited(server, table, tmp_path)[export.files[0].partition].verdict == "different"


def test_what_cannot_be_had_any_more_is_said(server: Any, database: Any, table: Any, tmp_path: Path) -> None:
    """A table of the same name is another one: its files are compared with their manifest alone."""
    fill(table)
    exported(server, table, tmp_path)
    name = table.name
    database.drop_table(name)
    database.create_table(name, partitions=8)
    done = run_here("audit", "data", f"{name}/2", "--export", str(tmp_path), "--json", at=server.target)
    assert done.returncode == 0, done.stderr
    line = json.loads(done.stdout)
    assert (line["partition"], line["verdict"], line["held"]) == (2, "not compared", None)
    assert line["exported"] == line["files"]
    assert "not compared with the table: it is of table" in line["reason"]
    assert "files and manifest are equal in rows and checksum" in line["reason"]


def test_where_there_is_no_export(server: Any, table: Any, tmp_path: Path) -> None:
    done = run_here("audit", "data", table.name, "--export", str(tmp_path), at=server.target)
    assert done.returncode == 2
    assert "there is no export at" in done.stderr
