from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import google_crc32c
import lmdb
import pytest
from kit.index.live_index import LiveIndex, digest_of_folder, flip, stored_file
from kit.log.stored_log import PARTITION, TABLE

from log_tier.model.errors import Damaged, DiskFailed, DuramenError, SnapshotDamaged, UnknownFormat
from log_tier.model.identifiers import Offset, Partition, PartitionId, table_id_from_bytes
from serving_tier.snapshots import SnapshotManifest, SnapshotStore, install_snapshot, recover_folder, take_snapshot
from serving_tier.snapshots.local_disk import Folders
from serving_tier.snapshots.manifest import PIECE_BYTES, SnapshotFile, format_manifest

OTHER = table_id_from_bytes(bytes(16))


class Stored:
    """A snapshot in a folder's store, and an older index in the place where it is to be installed."""

    def __init__(self, live: LiveIndex, store: SnapshotStore, tmp_path: Path, manifest: SnapshotManifest) -> None:
        self.store, self.manifest, self.root = store, manifest, tmp_path / "store"
        self.folder = tmp_path / "replicas" / "3"
        old = LiveIndex(self.folder)
        old.fill(50)
        old.close()
        self.old = digest_of_folder(self.folder)
        self.new = (live.index.applied, live.index.digest())
        assert self.old != self.new

    async def install(self, **how: object) -> SnapshotManifest:
        asked = {"partition": PartitionId(TABLE, PARTITION), **how}
        return await install_snapshot(self.store, self.manifest.path, self.folder, **asked)  # type: ignore[arg-type]

    def file(self, name: str) -> Path:
        return stored_file(self.root, self.manifest, name)

    def check_untouched(self) -> None:
        assert [path.name for path in self.folder.parent.iterdir()] == ["3"], "something was left"
        assert digest_of_folder(self.folder) == self.old

    def say(self, **changes: object) -> None:
        """Write another manifest, with sound checksums, in the snapshot's place: what a liar would."""
        lie = replace(self.manifest, **changes)  # type: ignore[arg-type]
        path = self.root / lie.path
        if lie.path != self.manifest.path:
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copytree(self.root / self.manifest.path, path)
        (path / "manifest.json").write_bytes(format_manifest(lie))
        self.manifest = lie


@pytest.fixture
async def stored(live: LiveIndex, store: SnapshotStore, tmp_path: Path) -> Stored:
    manifest = await take_snapshot(live.reading, store, table_name="flights", work_folder=tmp_path / "work")
    return Stored(live, store, tmp_path, manifest)


async def test_it_replaces_what_was_there(stored: Stored) -> None:
    assert await stored.install() == stored.manifest
    assert digest_of_folder(stored.folder) == stored.new
    assert [path.name for path in stored.folder.parent.iterdir()] == ["3"]


async def test_it_makes_a_folder_that_was_not_there(stored: Stored, tmp_path: Path) -> None:
    stored.folder = tmp_path / "somewhere" / "new"
    await stored.install()
    assert digest_of_folder(stored.folder) == stored.new


async def test_the_snapshot_is_not_changed_by_its_use(stored: Stored, live: LiveIndex) -> None:
    await stored.install()
    index = LiveIndex(stored.folder)
    index.fill(100)
    index.close()
    await stored.store.verify(stored.manifest)  # raises for a byte that changed
    await stored.install()
    assert digest_of_folder(stored.folder) == stored.new


async def test_from_s3(live: LiveIndex, any_store: SnapshotStore, tmp_path: Path) -> None:
    manifest = await take_snapshot(live.reading, any_store, table_name="flights", work_folder=tmp_path / "work")
    await install_snapshot(any_store, manifest.path, tmp_path / "new", partition=PartitionId(TABLE, PARTITION))
    assert digest_of_folder(tmp_path / "new") == (live.index.applied, live.index.digest())


@pytest.mark.parametrize("name", ["data.mdb", "index.json", "manifest.json"])
async def test_a_flipped_byte_is_refused_wherever_it_is(stored: Stored, name: str) -> None:
    file = stored.file(name)
    draw = random.Random(name)
    for _ in range(60):
        position, bits = draw.randrange(file.stat().st_size), draw.randrange(1, 256)
        flip(file, position, bits)
        with pytest.raises((SnapshotDamaged, UnknownFormat), match=name.replace(".", r"\.")):
            await stored.install()
        flip(file, position, bits)
    stored.check_untouched()
    await stored.install()


@pytest.mark.parametrize("name", ["data.mdb", "index.json", "manifest.json"])
async def test_a_missing_or_shortened_file_is_refused(stored: Stored, name: str) -> None:
    file = stored.file(name)
    whole = file.read_bytes()
    for content in (whole[:-1], whole[: len(whole) // 3], b"", None):
        file.unlink()
        if content is not None:
            file.write_bytes(content)
        with pytest.raises(SnapshotDamaged, match=name.replace(".", r"\.")):
            await stored.install()
    stored.check_untouched()


async def test_another_tables_or_partitions_snapshot_is_refused(stored: Stored) -> None:
    with pytest.raises(SnapshotDamaged, match=f"is of {TABLE}/3, not of {OTHER}/3"):
        await stored.install(partition=PartitionId(OTHER, PARTITION))
    with pytest.raises(SnapshotDamaged, match=f"not of {TABLE}/4"):
        await stored.install(partition=PartitionId(TABLE, Partition(4)))
    stored.check_untouched()


@pytest.mark.parametrize(
    ("lie", "why"),
    [
        ({"offset": Offset(7)}, "the applied offset in the manifest is 7, in the index it is"),
        ({"keys": 7}, "the number of keys in the manifest is 7"),
        ({"log_time_ms": 7}, "the log time in the manifest is 7"),
    ],
    ids=["offset", "keys", "log time"],
)
async def test_a_manifest_that_the_index_contradicts_is_refused(
    stored: Stored, lie: dict[str, object], why: str
) -> None:
    stored.say(**lie)
    with pytest.raises(SnapshotDamaged, match=why):
        await stored.install()
    stored.check_untouched()


@pytest.mark.parametrize(
    ("lie", "why"),
    [
        ({"table": OTHER}, f"the partition in the manifest is {OTHER}/3, in the index it is {TABLE}/3"),
        ({"partition": Partition(4)}, f"the partition in the manifest is {TABLE}/4, in the index it is {TABLE}/3"),
    ],
    ids=["table", "partition"],
)
async def test_a_foreign_index_under_a_fitting_manifest_is_refused(
    stored: Stored, lie: dict[str, object], why: str
) -> None:
    stored.say(**lie)
    with pytest.raises(SnapshotDamaged, match=why):
        await stored.install(partition=stored.manifest.partition_id)
    stored.check_untouched()


async def test_an_index_of_a_newer_format_is_refused_by_name(stored: Stored) -> None:
    stored.say(index_version=4)
    with pytest.raises(UnknownFormat, match="holds an index of format version 4, this process reads up to version 3"):
        await stored.install()
    stored.check_untouched()


def listed(data: bytes, name: str) -> SnapshotFile:
    pieces = tuple(google_crc32c.value(data[at : at + PIECE_BYTES]) for at in range(0, len(data), PIECE_BYTES))
    return SnapshotFile(name, len(data), pieces)


def _zeros(data: bytearray) -> None:
    data[3 * 4096 : 4 * 4096] = bytes(4096)


def _cut(data: bytearray) -> None:
    del data[-4096:]


def _swap(data: bytearray) -> None:
    data[2 * 4096 : 3 * 4096], data[3 * 4096 : 4 * 4096] = data[3 * 4096 : 4 * 4096], data[2 * 4096 : 3 * 4096]


def _wild(data: bytearray) -> None:
    data[2 * 4096 + 16 : 2 * 4096 + 18] = b"\xff\xff"


def _garbage(data: bytearray) -> None:
    data[:] = b"garbage!" * 1024


@pytest.mark.parametrize("harm", [_zeros, _cut, _swap, _wild, _garbage])
async def test_a_file_that_lmdb_must_not_open_is_refused_though_its_checksums_hold(
    stored: Stored, harm: Callable[[bytearray], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = bytearray(stored.file("data.mdb").read_bytes())
    harm(data)
    stored.file("data.mdb").write_bytes(data)
    stored.say(files=(listed(bytes(data), "data.mdb"), stored.manifest.files[1]))

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("LMDB was given a file that was not checked")

    with monkeypatch.context() as patched:
        patched.setattr(lmdb, "open", refuse)
        with pytest.raises(SnapshotDamaged, match=r"data\.mdb"):
            await stored.install()
    stored.check_untouched()


# --- interruption


BREAKING = 5


class Breaking:
    """Folders whose n-th operation fails; with `crash`, all later ones do too, as if the process were gone."""

    def __init__(self, at: int, *, crash: bool) -> None:
        self.at, self.crash, self.steps = at, crash, 0
        good = Folders()
        self.folders = Folders(self._step(good.rename), self._step(good.sync), self._step(good.remove))

    def _step(self, work: Callable[..., None]) -> Callable[..., None]:
        def stepped(*paths: Path) -> None:
            self.steps += 1
            if self.steps == self.at or (self.crash and self.steps > self.at):
                raise OSError(BREAKING, f"step {self.steps} fails")
            work(*paths)

        return stepped


async def test_interrupted_at_any_step_the_old_index_or_the_new_one_is_there(stored: Stored, tmp_path: Path) -> None:
    seen = set()
    for crash in (False, True):
        for at in range(1, 30):
            breaking = Breaking(at, crash=crash)
            try:
                await stored.install(folders=breaking.folders)
            except (DiskFailed, OSError) as error:
                failed = error if isinstance(error, OSError) else error.__cause__
                if not isinstance(failed, OSError) or failed.errno != BREAKING:
                    raise
            else:
                assert breaking.steps < at
                break
            recover_folder(stored.folder)
            assert [path.name for path in stored.folder.parent.iterdir()] == ["3"]
            found = digest_of_folder(stored.folder)
            assert found in (stored.old, stored.new)
            seen.add(found)
            shutil.rmtree(stored.folder)
            old = LiveIndex(stored.folder)
            old.fill(50)
            old.close()
        else:
            raise AssertionError("an install has thirty steps?")
        assert digest_of_folder(stored.folder) == stored.new
        shutil.rmtree(stored.folder)
        old = LiveIndex(stored.folder)
        old.fill(50)
        old.close()
    assert seen == {stored.old, stored.new}


async def test_without_a_crash_a_failed_rename_is_taken_back(stored: Stored) -> None:
    calls = 0

    def rename(old: Path, new: Path) -> None:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise OSError(5, "the second rename fails")
        old.rename(new)

    with pytest.raises(DiskFailed, match="the second rename fails"):
        await stored.install(folders=Folders(rename=rename))
    stored.check_untouched()


async def test_the_next_install_clears_what_a_crash_left(stored: Stored) -> None:
    incoming = stored.folder.with_name("3.incoming")
    incoming.mkdir()
    (incoming / "data.mdb").write_bytes(b"half")
    stored.folder.rename(stored.folder.with_name("3.replaced"))
    await stored.install()
    assert [path.name for path in stored.folder.parent.iterdir()] == ["3"]
    assert digest_of_folder(stored.folder) == stored.new


@pytest.mark.parametrize("code", [28, 30, 13], ids=["no room", "read only", "no permission"])
async def test_a_disk_that_refuses_is_named(stored: Stored, code: int) -> None:
    def refuse(old: Path, new: Path) -> None:
        raise OSError(code, "refused")

    with pytest.raises(DuramenError, match="cannot be written: refused") as caught:
        await stored.install(folders=Folders(rename=refuse))
    assert not isinstance(caught.value, SnapshotDamaged)
    assert isinstance(caught.value, Damaged) == (code != 28)
    stored.check_untouched()
