"""Where a version lies: a folder, and a server that speaks S3."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import google_crc32c
import pytest
from kit.log.stored_log import TABLE, StoredLog, put
from kit.storage.sealed_documents import sealed_again

from log_tier.model.errors import IndexDamaged, InvalidRequest, SnapshotDamaged, UnknownFormat
from log_tier.model.identifiers import Offset, Partition, PartitionId, table_id_from_bytes
from serving_tier.index.lmdb.lmdb_index import LmdbIndex
from serving_tier.names import version_folder
from serving_tier.replica.applier import Applier
from serving_tier.replica.version_folders import ReplicaFolder, open_versions, promote
from serving_tier.snapshots import take_snapshot
from serving_tier.snapshots.manifest import SnapshotManifest, format_manifest
from serving_tier.versions import VersionManifest, VersionStore
from serving_tier.versions.manifest import VersionPart, format_version, part_of

PARTITIONS = 2
OTHER = table_id_from_bytes(b"another table ..")


async def taken(store: VersionStore, partition: int, folder: Path, *, records: int = 300) -> SnapshotManifest:
    """A snapshot of a partition in the store."""
    index = LmdbIndex.open(folder / f"index-{partition}", partition=PartitionId(TABLE, Partition(partition)))
    index.apply(StoredLog().append(*(put(b"%d/%04d" % (partition, number), b"v" * 99) for number in range(records))))

    @contextmanager
    def reading() -> Iterator[LmdbIndex]:
        yield index

    try:
        return await take_snapshot(reading, store.snapshots, table_name="flights", work_folder=folder / "work")
    finally:
        index.close()


async def version_in(store: VersionStore, folder: Path) -> VersionManifest:
    """A whole version in the store."""
    parts = [part_of(await taken(store, number, folder)) for number in range(PARTITIONS)]
    version = VersionManifest(
        id="51c0ffee",
        table=TABLE,
        table_name="flights",
        partitions=PARTITIONS,
        partitioner="slot",
        created_ms=1,
        source="a test",
        parts=tuple(parts),
    )
    await store.put(version)
    return version


def with_part(version: VersionManifest, partition: int, part: VersionPart) -> VersionManifest:
    return replace(version, parts=(*version.parts[:partition], part, *version.parts[partition + 1 :]))


async def test_a_version_is_put_found_fetched_and_verified(any_place: VersionStore, tmp_path: Path) -> None:
    assert await any_place.find() is None
    with pytest.raises(InvalidRequest, match=r"version\.json is missing: the build of that version has not finished"):
        await any_place.get()
    version = await version_in(any_place, tmp_path)
    assert await any_place.get() == await VersionStore.open(any_place.url).find() == version
    await any_place.verify(version)
    for number, part in enumerate(version.parts):
        phases: dict[str, int] = {}
        manifest = await any_place.fetch(
            version,
            Partition(number),
            tmp_path / f"fetched-{number}",
            progress=lambda phase, done, whole, phases=phases: phases.update({phase: done}),  # type: ignore[misc]
        )
        assert (manifest.path, manifest.keys, phases) == (part.path, 300, {"fetching": part.bytes})
        index = LmdbIndex.open(tmp_path / f"fetched-{number}", partition=PartitionId(TABLE, Partition(number)))
        assert index.applied == part.offset == 299
        assert index.get_value(b"%d/0042" % number) == b"v" * 99
        index.close()
    # The place of a version holds snapshots and nothing that their store would stumble over.
    assert [one.path for one in await any_place.snapshots.snapshots()] == [part.path for part in version.parts]


async def test_a_place_takes_one_version(any_place: VersionStore, tmp_path: Path) -> None:
    version = await version_in(any_place, tmp_path)
    await any_place.put(version)
    with pytest.raises(InvalidRequest, match="has version 51c0ffee of flights already, and a version never changes"):
        await any_place.put(replace(version, id="0dd"))
    assert await any_place.get() == version


async def test_a_snapshot_in_the_place_of_another_is_refused(any_place: VersionStore, tmp_path: Path) -> None:
    """It is sound, and of that partition, and not the one that was built."""
    version = await version_in(any_place, tmp_path)
    path = version.parts[1].path
    manifest = await any_place.snapshots.read_manifest(path)
    await any_place.snapshots.write_document(f"{path}/manifest.json", format_manifest(replace(manifest, created_ms=7)))
    target = tmp_path / "fetched"
    with pytest.raises(SnapshotDamaged, match=rf"{manifest.id}: the manifest has the checksum [0-9a-f]{{8}}, version"):
        await any_place.fetch(version, Partition(1), target)
    with pytest.raises(SnapshotDamaged, match="build the version again"):
        await any_place.verify(version)
    assert not target.exists()
    await any_place.fetch(version, Partition(0), target)


async def test_fields_that_a_newer_version_added_are_ignored(any_place: VersionStore, tmp_path: Path) -> None:
    """In the manifests of both, and the version's checksum of a part is that of its whole text."""
    version = await version_in(any_place, tmp_path)
    document = json.loads(format_version(version))
    for number, part in enumerate(version.parts):
        path = f"{part.path}/manifest.json"
        newer = sealed_again({**json.loads(await any_place.snapshots.read_document(path) or b""), "added": [1]})
        await any_place.snapshots.write_document(path, newer)
        document["parts"][number] |= {"check": f"{google_crc32c.value(newer):08x}", "added": 1}
    await any_place.snapshots.write_document("version.json", sealed_again({**document, "added": {}}))
    found = await any_place.get()
    assert replace(found, parts=version.parts) == version
    await any_place.verify(found)
    await any_place.fetch(found, Partition(1), tmp_path / "fetched")


async def test_a_file_that_changed_is_refused_and_leaves_what_was_there(
    any_place: VersionStore, tmp_path: Path
) -> None:
    version = await version_in(any_place, tmp_path)
    target = tmp_path / "fetched"
    await any_place.fetch(version, Partition(0), target)
    before = (target / "data.mdb").read_bytes()
    file = f"{version.parts[0].path}/data.mdb"
    data = bytearray(await any_place.snapshots.read_document(file) or b"")
    data[20_000] ^= 1
    await any_place.snapshots.write_document(file, bytes(data))
    with pytest.raises(SnapshotDamaged, match=r"data\.mdb: bytes 0 to \d+ have the checksum"):
        await any_place.fetch(version, Partition(0), target)
    with pytest.raises(SnapshotDamaged, match=r"data\.mdb: bytes 0 to \d+ have the checksum"):
        await any_place.verify(version)
    assert (target / "data.mdb").read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith("fetched")) == ["fetched"]


async def test_a_part_of_another_table_or_partition_is_refused(tmp_path: Path) -> None:
    store = VersionStore.open(tmp_path / "version")
    version = await version_in(store, tmp_path)
    swapped = with_part(version, 0, version.parts[1])
    with pytest.raises(SnapshotDamaged, match=r"/1, not of .*/0"):
        await store.fetch(swapped, Partition(0), tmp_path / "fetched")
    with pytest.raises(SnapshotDamaged, match=f"not of {OTHER}/0"):
        await store.fetch(replace(version, table=OTHER), Partition(0), tmp_path / "fetched")


async def test_a_damaged_or_newer_manifest_is_named(any_place: VersionStore, tmp_path: Path) -> None:
    await version_in(any_place, tmp_path)
    text = await any_place.snapshots.read_document("version.json") or b""
    await any_place.snapshots.write_document("version.json", text[:-5])
    with pytest.raises(SnapshotDamaged, match=r"version\.json cannot be read"):
        await any_place.get()
    await any_place.snapshots.write_document("version.json", b"")
    with pytest.raises(SnapshotDamaged, match=r"version\.json cannot be read"):
        await any_place.get()
    await any_place.snapshots.write_document("version.json", text.replace(b'"version": 1', b'"version": 9'))
    with pytest.raises(UnknownFormat, match=r"version\.json has format version 9"):
        await any_place.get()


async def test_a_part_that_was_removed_is_named(any_place: VersionStore, tmp_path: Path) -> None:
    version = await version_in(any_place, tmp_path)
    await any_place.snapshots.delete(version.parts[0].path)
    with pytest.raises(SnapshotDamaged, match=r"manifest\.json is missing"):
        await any_place.fetch(version, Partition(0), tmp_path / "fetched")
    assert version.parts[0].offset == Offset(299)


async def test_what_was_fetched_is_not_taken_for_the_live_version(any_place: VersionStore, tmp_path: Path) -> None:
    """A node ended when it had a version and nobody had opened it; then the live index was lost."""
    version = await version_in(any_place, tmp_path)
    live = ReplicaFolder(tmp_path / "0", PartitionId(TABLE, Partition(0)))
    await any_place.fetch(version, Partition(0), version_folder(live.path, 2), number=2)
    assert promote(live.path)
    applier = Applier()
    applier.start()
    try:
        index = await applier.run(live.open)
        assert (index.version, index.count()) == (2, 300)
        with pytest.raises(IndexDamaged, match="holds version 2 of its table, and version 1 is live"):
            await open_versions(index, live, applier)
    finally:
        await applier.stop()
