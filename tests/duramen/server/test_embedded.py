"""Opening a data folder: whose it is, who else has it, and what a start finds there."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from kit.deadlines import until

from duramen import aio
from duramen.server.wiring.single_machine import open_local_data
from log_tier.embedded import EmbeddedLog
from log_tier.model.batch import Columns, encode_batch
from log_tier.model.errors import (
    DuramenError,
    FolderInUse,
    FolderReadOnly,
    ForeignFolder,
    InvalidRequest,
    UnknownFormat,
)
from log_tier.model.identifiers import Offset, Partition, PartitionId
from log_tier.model.table_ref import TableRef
from log_tier.rows.table_spec import TableSpec
from router.data.local_data import LocalData
from router.data.requests import ReadPart, ReadResult, WritePart, WriteResult
from serving_tier.node.node import Node

DEADLINE_S = 20
ZERO = Partition(0)


async def put(data_plane: LocalData, table: TableRef, key: bytes, value: bytes) -> Offset:
    batch = encode_batch(Columns([key], [value]))
    (result,) = await data_plane.write([WritePart(PartitionId(table.id, ZERO), batch)], timeout=DEADLINE_S)
    assert isinstance(result, WriteResult)
    return result.base_offset


async def get(data_plane: LocalData, table: TableRef, key: bytes, after: Offset) -> bytes | None:
    (result,) = await data_plane.read([ReadPart(PartitionId(table.id, ZERO), [key], after)], timeout=DEADLINE_S)
    assert isinstance(result, ReadResult), result
    return result.values[0]


@pytest.mark.embedded_log_only
async def test_a_folder_is_made_and_found_again(tmp_path: Path) -> None:
    data = tmp_path / "deep" / "data ü %41"
    data_plane = await open_local_data(data)
    table = await data_plane.create_table(TableSpec("flights", partitions=1), timeout=DEADLINE_S)
    offset = await put(data_plane, table, b"k", b"v")
    await data_plane.close()
    assert sorted(entry.name for entry in data.iterdir()) == ["index", "log"]
    data_plane = await open_local_data(data)
    assert await data_plane.list_tables(timeout=DEADLINE_S) == [table]
    assert await get(data_plane, table, b"k", offset) == b"v"
    await data_plane.close()


async def test_a_program_that_asks_for_snapshots_has_its_retention(tmp_path: Path) -> None:
    """What a table's retention may remove is what a snapshot holds."""
    database = await aio.open(tmp_path / "data", snapshot_every_s=0.01, timeout=DEADLINE_S)
    table = await database.create_table("flights", partitions=1, retention_ms=1)
    await table.put(b"k", b"v")
    await until(lambda: any((tmp_path / "data" / "snapshots").rglob("manifest.json")))
    await database.close()
    for wrong in (-1.0, float("nan"), float("inf")):
        with pytest.raises(InvalidRequest, match="snapshot_every_s"):
            await aio.open(tmp_path / "data", snapshot_every_s=wrong)


@pytest.mark.parametrize("damage", [lambda index: shutil.rmtree(index), lambda index: garble(index)])
async def test_the_index_is_a_cache(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    data_plane = await open_local_data(tmp_path / "data")
    table = await data_plane.create_table(TableSpec("flights", partitions=1), timeout=DEADLINE_S)
    for number in range(50):
        offset = await put(data_plane, table, b"k%d" % (number % 7), b"%d" % number)
    assert await get(data_plane, table, b"k0", offset) == b"49"
    digest = data_plane.node.replica(PartitionId(table.id, ZERO)).index.digest()
    await data_plane.close()
    damage(tmp_path / "data" / "index")
    data_plane = await open_local_data(tmp_path / "data")
    assert await get(data_plane, table, b"k0", offset) == b"49"
    assert data_plane.node.replica(PartitionId(table.id, ZERO)).index.digest() == digest
    await data_plane.close()


def garble(index: Path) -> None:
    for file in index.rglob("*.mdb"):
        file.write_bytes(b"\xa5" * 10_000)


def foreign_file(data: Path) -> None:
    data.write_text("a file")


def foreign_folder(data: Path) -> None:
    data.mkdir()
    for number in range(5):
        (data / f"notes{number}.txt").write_text("mine")


def foreign_log(data: Path) -> None:
    (data / "log").mkdir(parents=True)
    (data / "log" / "notes.txt").write_text("mine")


@pytest.mark.parametrize(
    ("prepare", "message"),
    [
        (foreign_file, "is a file, the data folder must be a folder"),
        (foreign_folder, r"holds notes0\.txt, notes1\.txt, notes2\.txt …, which Duramen did not make: name an empty"),
        (foreign_log, "Duramen did not make it"),
    ],
)
@pytest.mark.embedded_log_only
async def test_files_of_other_programs_are_left_alone(
    tmp_path: Path, prepare: Callable[[Path], None], message: str
) -> None:
    data = tmp_path / "data"
    prepare(data)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(ForeignFolder, match=message):
        await open_local_data(data)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.embedded_log_only
async def test_a_folder_has_one_owner(tmp_path: Path) -> None:
    data_plane = await open_local_data(tmp_path / "data")
    table = await data_plane.create_table(TableSpec("flights", partitions=1), timeout=DEADLINE_S)
    for _ in range(2):
        with pytest.raises(FolderInUse, match=r"process \d+ \(this one.*: use the database that is open"):
            await open_local_data(tmp_path / "data")
    offset = await put(data_plane, table, b"k", b"v")
    assert await get(data_plane, table, b"k", offset) == b"v"
    await data_plane.close()


@pytest.mark.embedded_log_only
async def test_a_format_of_tomorrow(tmp_path: Path) -> None:
    await (await open_local_data(tmp_path / "data")).close()
    marker = next(path for path in (tmp_path / "data" / "log").iterdir() if b'"version"' in safe_bytes(path))
    marker.write_bytes(marker.read_bytes().replace(b'"version": 1', b'"version": 99'))
    assert b"99" in marker.read_bytes()
    with pytest.raises(UnknownFormat):
        await open_local_data(tmp_path / "data")


def safe_bytes(path: Path) -> bytes:
    return path.read_bytes() if path.is_file() else b""


@pytest.mark.parametrize(("where", "fails"), [(Path, Path.iterdir), (os, os.mkdir)], ids=["iterdir", "mkdir"])
async def test_a_folder_that_cannot_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: object, fails: Callable[..., object]
) -> None:
    """As root nothing is forbidden, so the system's refusal is played."""
    (tmp_path / "data").mkdir()

    def refuse(path: str | Path, *args: object, **how: object) -> object:
        if "data" in Path(path).parts:
            raise PermissionError(13, "Permission denied")
        return fails(path, *args, **how)

    monkeypatch.setattr(where, fails.__name__, refuse)
    with pytest.raises(FolderReadOnly, match="Permission denied"):
        await open_local_data(tmp_path / "data")
    monkeypatch.undo()
    await (await open_local_data(tmp_path / "data")).close()


@pytest.mark.embedded_log_only
@pytest.mark.parametrize("where", ["node", "data_plane"])
async def test_a_start_that_fails_lets_go_of_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    class Failed(DuramenError):
        """On purpose."""

    async def fail(*args: object, **how: object) -> None:
        raise Failed("on purpose")

    monkeypatch.setattr(*((Node, "open", fail) if where == "node" else (EmbeddedLog, "topics", fail)))
    with pytest.raises(Failed):
        await open_local_data(tmp_path / "data")
    monkeypatch.undo()
    await (await open_local_data(tmp_path / "data")).close()


async def test_a_restart_never_shows_less_than_before(tmp_path: Path) -> None:
    """A session that has seen nothing waits for what the log held when the database was opened, however it reads."""
    data = tmp_path / "data"
    keys = [b"k%06d" % number for number in range(100_000)]
    async with await aio.open(data) as db:
        flights = await db.create_table("flights", partitions=1)
        await flights.put_many([(key, b"v") for key in keys])
    for way in ("get", "get_many", "scan"):
        shutil.rmtree(data / "index")
        async with await aio.open(data) as db:
            flights = db.table("flights")
            if way == "get":
                assert await flights.get(keys[-1]) == b"v"
            elif way == "get_many":
                assert await flights.get_many(keys[-2:]) == [b"v", b"v"]
            else:
                assert len([key async for key, _ in flights.scan(start=keys[-3])]) == 3
