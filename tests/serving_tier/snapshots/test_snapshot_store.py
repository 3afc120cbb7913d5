"""The contract of a snapshot store, for a folder and for a server that speaks S3."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest
from kit.held_port import HeldPort
from kit.index.live_index import LiveIndex, files_below, flip, stored_file
from kit.log.stored_log import PARTITION, TABLE

from log_tier.model.errors import InvalidRequest, SnapshotDamaged, SnapshotStoreUnavailable, UnknownFormat
from log_tier.model.identifiers import Offset, Partition, PartitionId, table_id_from_bytes
from serving_tier.snapshots import SnapshotManifest, SnapshotStore, take_snapshot
from serving_tier.snapshots.manifest import format_manifest
from serving_tier.snapshots.take import copied_index


async def taken(live: LiveIndex, store: SnapshotStore, tmp_path: Path) -> SnapshotManifest:
    return await take_snapshot(live.reading, store, table_name="flights", work_folder=tmp_path / "work")


async def test_what_was_put_is_listed_fetched_and_deleted(
    live: LiveIndex, any_store: SnapshotStore, tmp_path: Path
) -> None:
    assert await any_store.snapshots() == []
    first = await taken(live, any_store, tmp_path)
    live.fill(500)
    second = await taken(live, any_store, tmp_path)
    assert first.offset < second.offset == live.index.applied
    for listed in (
        await any_store.snapshots(),
        await any_store.snapshots(TABLE),
        await any_store.snapshots(PartitionId(TABLE, PARTITION)),
    ):
        assert [(one.partition, one.offset, one.id, one.path) for one in listed] == [
            ((TABLE, PARTITION), manifest.offset, manifest.id, manifest.path) for manifest in (first, second)
        ]
    assert await any_store.snapshots(PartitionId(TABLE, Partition(4))) == []
    assert await any_store.snapshots(table_id_from_bytes(bytes(16))) == []

    assert await any_store.read_manifest(first.path) == first
    (tmp_path / "fetched").mkdir()
    await any_store.fetch(first, tmp_path / "fetched")
    assert {path.name: path.stat().st_size for path in (tmp_path / "fetched").iterdir()} == {
        file.name: file.size for file in first.files
    }
    await any_store.verify(second)

    await any_store.delete(first.path)
    await any_store.delete(first.path)
    assert [one.id for one in await any_store.snapshots()] == [second.id]
    with pytest.raises(SnapshotDamaged, match=r"manifest\.json is missing: the snapshot was removed"):
        await any_store.read_manifest(first.path)
    await any_store.delete(second.path)
    assert await any_store.snapshots() == []


async def test_a_file_that_is_missing_is_named(live: LiveIndex, any_store: SnapshotStore, tmp_path: Path) -> None:
    manifest = await taken(live, any_store, tmp_path)
    any_store._fs.rm_file(any_store._at(f"{manifest.path}/index.json"))
    with pytest.raises(SnapshotDamaged, match=rf"{manifest.id}/index\.json is missing, and the manifest names it"):
        await any_store.verify(manifest)


async def test_a_put_that_fails_leaves_nothing(live: LiveIndex, any_store: SnapshotStore, tmp_path: Path) -> None:
    async with copied_index(live.reading, table_name="flights", work_folder=tmp_path) as (folder, manifest):
        (folder / "index.json").unlink()
        with pytest.raises(SnapshotStoreUnavailable, match=r"index\.json"):
            await any_store.put(folder, manifest)
    assert await any_store.snapshots() == []
    assert any_store._fs.find(any_store._root) == []


async def test_what_a_dead_put_left_is_removed_when_a_newer_snapshot_is_finished(
    live: LiveIndex, any_store: SnapshotStore, tmp_path: Path
) -> None:
    dead = await taken(live, any_store, tmp_path)
    any_store._fs.rm_file(any_store._at(f"{dead.path}/manifest.json"))
    assert await any_store.snapshots() == []
    assert await any_store.remove_unfinished(PartitionId(TABLE, PARTITION)) == [], "somebody may still be at work on it"
    live.fill(10)
    newer = await taken(live, any_store, tmp_path)
    assert [one.path for one in await any_store.snapshots()] == [newer.path]
    assert {
        name.rpartition("/")[0].removeprefix(any_store._root + "/") for name in any_store._fs.find(any_store._root)
    } == {newer.path}


async def test_an_unfinished_put_beyond_the_newest_snapshot_is_left_alone(
    live: LiveIndex, any_store: SnapshotStore, tmp_path: Path
) -> None:
    await taken(live, any_store, tmp_path)
    live.fill(10)
    under_way = await taken(live, any_store, tmp_path)
    any_store._fs.rm_file(any_store._at(f"{under_way.path}/manifest.json"))
    assert await any_store.remove_unfinished(PartitionId(TABLE, PARTITION)) == []
    assert len(any_store._fs.find(any_store._at(under_way.path))) == 2


async def test_a_manifest_in_another_snapshots_place_is_refused(
    live: LiveIndex, any_store: SnapshotStore, tmp_path: Path
) -> None:
    manifest = await taken(live, any_store, tmp_path)
    other = replace(manifest, offset=Offset(manifest.offset + 1))
    any_store._fs.pipe_file(any_store._at(f"{manifest.path}/manifest.json"), format_manifest(other))
    with pytest.raises(SnapshotDamaged, match=f"is the manifest of {other.path}"):
        await any_store.read_manifest(manifest.path)


async def test_a_newer_format_is_refused_by_name(live: LiveIndex, any_store: SnapshotStore, tmp_path: Path) -> None:
    manifest = await taken(live, any_store, tmp_path)
    document = {**json.loads(format_manifest(manifest)), "version": 9}
    any_store._fs.pipe_file(any_store._at(f"{manifest.path}/manifest.json"), json.dumps(document).encode())
    with pytest.raises(UnknownFormat, match=r"manifest\.json has format version 9, this process reads version 1"):
        await any_store.read_manifest(manifest.path)


async def test_documents_come_back_and_are_replaced(any_store: SnapshotStore) -> None:
    assert await any_store.read_document("about/cluster.json") is None
    for document in (b"one", b"the second one"):
        await any_store.write_document("about/cluster.json", document)
        assert await any_store.read_document("about/cluster.json") == document
    assert await any_store.read_document("about/cluster.json", bytes_max=3) == b"the "


@pytest.mark.parametrize(
    "path", ["", "x", "../../etc", "AAECAwQFBgcICQoLDA0ODw/3/../..", "/AAECAwQFBgcICQoLDA0ODw/3/x"]
)
async def test_a_path_that_leads_out_is_refused(store: SnapshotStore, path: str) -> None:
    for call in (store.read_manifest, store.delete):
        with pytest.raises(InvalidRequest, match="no snapshot's path"):
            await call(path)


async def test_a_flipped_byte_anywhere_is_found_and_its_place_named(
    live: LiveIndex, store: SnapshotStore, tmp_path: Path
) -> None:
    manifest = await taken(live, store, tmp_path)
    data = stored_file(tmp_path / "store", manifest, "data.mdb")
    for position in range(0, manifest.files[0].size, 9973):
        flip(data, position, 1 << position % 8)
        with pytest.raises(SnapshotDamaged, match=rf"{manifest.id}/data\.mdb: bytes 0 to .* have the checksum"):
            await store.verify(manifest)
        flip(data, position, 1 << position % 8)
    await store.verify(manifest)


async def test_a_file_that_was_cut_or_grew_is_refused(live: LiveIndex, store: SnapshotStore, tmp_path: Path) -> None:
    manifest = await taken(live, store, tmp_path)
    data = stored_file(tmp_path / "store", manifest, "data.mdb")
    whole = data.read_bytes()
    for content in (b"", whole[:-1], whole[: len(whole) // 2], whole + b"\0"):
        data.write_bytes(content)
        with pytest.raises(SnapshotDamaged, match=r"data\.mdb.*the manifest says"):
            await store.verify(manifest)


def test_a_local_store_on_the_same_file_system_links(tmp_path: Path, live: LiveIndex) -> None:
    store = SnapshotStore.open(f"file://{tmp_path / 'store'}")

    async def put() -> None:
        async with copied_index(live.reading, table_name="flights", work_folder=tmp_path) as (folder, manifest):
            await store.put(folder, manifest)
            stored = stored_file(tmp_path / "store", manifest, "data.mdb")
            assert stored.stat().st_ino == (folder / "data.mdb").stat().st_ino
        await store.verify(manifest)

    asyncio.run(put())


async def test_a_store_on_another_file_system_gets_a_copy(
    live: LiveIndex, store: SnapshotStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(source: object, target: object) -> None:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", refuse)
    seen: list[tuple[str, int, int]] = []
    manifest = await take_snapshot(
        live.reading,
        store,
        table_name="flights",
        work_folder=tmp_path / "work",
        progress=lambda *what: seen.append(what),
    )
    assert ("storing", manifest.bytes, manifest.bytes) in seen
    assert ("verifying", manifest.bytes, manifest.bytes) in seen
    await store.verify(manifest)


async def test_a_file_that_changes_while_it_is_stored_is_refused(
    live: LiveIndex, store: SnapshotStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("serving_tier.snapshots.snapshot_store.linked", lambda source, target: False)
    async with copied_index(live.reading, table_name="flights", work_folder=tmp_path) as (folder, manifest):
        flip(folder / "data.mdb", 5000)
        with pytest.raises(SnapshotDamaged, match=r"data\.mdb: bytes 0 to"):
            await store.put(folder, manifest)
    assert files_below(tmp_path / "store") == []


# --- stores that do not answer


@pytest.fixture
def unused_port() -> Iterator[int]:
    with HeldPort() as held:
        yield held.number


STORE_CALLS: Final[dict[str, Callable[[SnapshotStore, SnapshotManifest], Awaitable[object]]]] = {
    "snapshots": lambda store, manifest: store.snapshots(),
    "read_manifest": lambda store, manifest: store.read_manifest(manifest.path),
    "verify": lambda store, manifest: store.verify(manifest),
    "delete": lambda store, manifest: store.delete(manifest.path),
    "write_document": lambda store, manifest: store.write_document("x.json", b""),
    "read_document": lambda store, manifest: store.read_document("x.json"),
}


@pytest.mark.parametrize("kind", ["nobody listens", "no bucket"])
async def test_a_store_that_cannot_be_used_says_so(
    live: LiveIndex, tmp_path: Path, kind: str, unused_port: int, request: pytest.FixtureRequest
) -> None:
    """All calls at once: each tries several times."""
    good = SnapshotStore.open(tmp_path / "store")
    manifest = await taken(live, good, tmp_path)
    if kind == "nobody listens":
        request.getfixturevalue("monkeypatch").setenv("AWS_ACCESS_KEY_ID", "x")
        request.getfixturevalue("monkeypatch").setenv("AWS_SECRET_ACCESS_KEY", "x")
        store = SnapshotStore.open(f"s3://bucket/x?endpoint_url=http://127.0.0.1:{unused_port}")
    else:
        address, _ = request.getfixturevalue("s3_address"), request.getfixturevalue("bucket")
        store = SnapshotStore.open(f"s3://nobodys/x?endpoint_url={address}")
    results = await asyncio.gather(*(call(store, manifest) for call in STORE_CALLS.values()), return_exceptions=True)
    for name, error in zip(STORE_CALLS, results, strict=True):
        assert isinstance(error, SnapshotStoreUnavailable), f"{name}: {error!r}"
        assert re.search(r"cannot be used: .* then try again", error.message), f"{name}: {error}"
        assert error.fields["url"] == store.url


async def test_a_root_that_went_away_is_no_damage(live: LiveIndex, store: SnapshotStore, tmp_path: Path) -> None:
    manifest = await taken(live, store, tmp_path)
    (tmp_path / "store").rename(tmp_path / "elsewhere")
    for call in (lambda: store.read_manifest(manifest.path), lambda: store.verify(manifest)):
        with pytest.raises(SnapshotStoreUnavailable, match="see that it is there"):
            await call()


async def test_a_folder_that_may_not_be_used_says_so(live: LiveIndex, store: SnapshotStore, tmp_path: Path) -> None:
    """The disk's refusals, as another user would meet them."""
    manifest = await taken(live, store, tmp_path)
    script = f"""
import asyncio, os
import fsspec.implementations.local  # while this process is one that may read where Python is installed
from serving_tier.snapshots import SnapshotStore
from log_tier.model.errors import SnapshotStoreUnavailable
if os.getuid() == 0:
    os.setgid(65534); os.setuid(65534)
async def main():
    store = SnapshotStore.open({str(tmp_path / "store")!r})
    path = {manifest.path!r}
    for call in (store.read_manifest(path), store.write_document("x.json", b"1"), store.delete(path)):
        try:
            await call
        except SnapshotStoreUnavailable as error:
            assert "Permission denied" in error.message, error
            print("refused")
asyncio.run(main())
"""
    root = Path(__file__).parents[3]
    os.chmod(tmp_path / "store", 0)
    try:
        done = subprocess.run([sys.executable, "-c", script], cwd=root, capture_output=True, text=True, check=False)
    finally:
        os.chmod(tmp_path / "store", 0o755)
    assert done.stdout.split() == ["refused"] * 3, done.stderr


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("nonsense://x", "is no snapshot store"),
        ("s3://bucket?colour=red", "colour is no setting"),
        ("/folder?endpoint_url=x", "only s3:// takes settings"),
    ],
)
def test_a_url_that_means_nothing_is_refused(url: str, why: str) -> None:
    with pytest.raises(InvalidRequest, match=why):
        SnapshotStore.open(url)


async def test_storage_options_reach_the_file_system(
    bucket: str, s3_address: str, live: LiveIndex, tmp_path: Path
) -> None:
    store = SnapshotStore.open(f"s3://{bucket}/deep/prefix", storage_options={"endpoint_url": s3_address})
    manifest = await taken(live, store, tmp_path)
    assert await store.read_manifest(manifest.path) == manifest


async def test_the_memory_store_is_one_too(live: LiveIndex, tmp_path: Path) -> None:
    store = SnapshotStore.open(f"memory://{tmp_path.name}")
    manifest = await taken(live, store, tmp_path)
    await store.verify(manifest)
    await store.delete(manifest.path)
    assert await store.snapshots() == []
