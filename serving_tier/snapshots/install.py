"""Putting a snapshot in the place of an index folder: receive, check, rename.

    folder.incoming   receives the files; every piece passes a `FileCheck`: its checksum, the structure of its pages
                      → synced → opened: table, partition, format, applied offset, keys
    folder            → folder.replaced, if it is there
    folder.incoming   → folder; the folder above is synced; folder.replaced is removed

Nothing is opened before it was checked (S4), and only the two renames touch what was there (S5): what fails before
leaves it as it was, what fails between them is taken back, and after a crash between them `recover_folder` does that.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from log_tier.concurrency.threads import Progress, Stop, in_thread
from log_tier.model.errors import SnapshotDamaged, UnknownFormat
from log_tier.model.identifiers import PartitionId
from log_tier.model.log import Log
from serving_tier.disk import NODE_DISK
from serving_tier.index.divergence import check_history
from serving_tier.index.lmdb.environment import say_version
from serving_tier.index.lmdb.folder import claim_folder, release_folder
from serving_tier.index.lmdb.format import INDEX_FORMAT_VERSION, READABLE_VERSIONS
from serving_tier.names import incoming_folder, replaced_folder
from serving_tier.snapshots.contents import check_contents, read_contents
from serving_tier.snapshots.local_disk import Folders, local_troubles
from serving_tier.snapshots.manifest import SnapshotManifest
from serving_tier.snapshots.snapshot_store import SnapshotStore

__all__ = ["check_copy", "check_identity", "install_snapshot", "receiving", "recover_folder"]


async def install_snapshot(
    store: SnapshotStore,
    path: str,
    folder: Path,
    *,
    partition: PartitionId,
    progress: Progress | None = None,
    folders: Folders = Folders(),  # noqa: B008  (immutable)
) -> SnapshotManifest:
    """Fetch the snapshot at `path` of the store and make it the index folder `folder`; return its manifest.

    `folder` must not be open in any process. Raises `SnapshotDamaged` for one that is not sound or not of this
    partition, `UnknownFormat`, `SnapshotStoreUnavailable`, `DiskFull`; what was in `folder` is then what it was.
    """
    manifest = await store.read_manifest(path)
    check_identity(manifest, partition=partition)
    async with receiving(folder, lambda: manifest, folders=folders) as incoming:
        await store.fetch(manifest, incoming, progress=progress)
    return manifest


def check_identity(manifest: SnapshotManifest, *, partition: PartitionId) -> None:
    """Raise `SnapshotDamaged` for another partition's snapshot, `UnknownFormat` for an index of a newer format."""
    if manifest.partition_id != partition:
        raise SnapshotDamaged(
            f"snapshot {manifest.id} is of {manifest.partition_id}, not of {partition}: use another snapshot",
            file=manifest.path,
        )
    if manifest.index_version not in READABLE_VERSIONS:
        raise UnknownFormat(
            f"snapshot {manifest.id} holds an index of format version {manifest.index_version}, this process reads "
            f"up to version {INDEX_FORMAT_VERSION}: use another snapshot, or the Duramen that took it",
            file=manifest.path,
        )


async def check_copy(log: Log, folder: Path, *, partition: PartitionId, name: str) -> None:
    """Raise `IndexDiverged` where the copy in `folder`, which was checked, is of another history than the log: a
    snapshot outlives a log that is put back from an older copy. One read of one batch.

    Raises what keeps the log from being read now.
    """
    state = (await in_thread(lambda _: read_contents(folder))).state
    await check_history(log, partition, applied=state.applied, last=state.last, name=name)


@asynccontextmanager
async def receiving(
    folder: Path,
    manifest: Callable[[], SnapshotManifest | None],
    *,
    number: int | None = None,
    folders: Folders = Folders(),  # noqa: B008  (immutable)
) -> AsyncIterator[Path]:
    """An empty folder to put a snapshot's files into; at the end it is opened, compared, and becomes `folder`.

    `manifest`: asked for at the end; of a copy that is being sent it comes last.

    `number`: the version of its table that the index says it is from then on; None: what it says already.

    The code that fills it passes every file through a `FileCheck` and syncs it: nothing reads the files again. Left
    with an error it is removed, and `folder` is what it was.
    """
    incoming = incoming_folder(folder)

    def begin(_: Stop) -> None:
        with local_troubles(folder):
            recover_folder(folder, folders=folders)
            NODE_DISK.get().make_folder(incoming, exist_ok=False)

    def finish(_: Stop) -> None:
        with local_troubles(folder):
            expected = manifest()
            assert expected is not None, f"{incoming} was filled without a manifest"
            _check(incoming, expected, number)
            _put_in_place(incoming, folder, folders)

    await in_thread(begin)
    try:
        with local_troubles(folder):
            yield incoming
        await in_thread(finish)
    finally:
        await in_thread(lambda _: folders.remove(incoming))


def _check(incoming: Path, manifest: SnapshotManifest, number: int | None) -> None:
    """What the index itself says; its files were checked, so it can be opened."""
    check_contents(read_contents(incoming), manifest, str(incoming))
    # The marker says the same as the manifest, or it is refused here; then it is written anew and synced.
    claim_folder(incoming, partition=manifest.partition_id)
    if number is not None:
        say_version(incoming, number)
    release_folder(incoming)


def _put_in_place(incoming: Path, folder: Path, folders: Folders) -> None:
    replaced = replaced_folder(folder)
    folders.remove(replaced)
    there = folder.exists()
    if there:
        folders.rename(folder, replaced)
    try:
        folders.rename(incoming, folder)
    except BaseException:
        if there:
            folders.rename(replaced, folder)
        raise
    folders.sync(folder.parent)
    folders.remove(replaced)


def recover_folder(folder: Path, *, folders: Folders = Folders()) -> None:  # noqa: B008  (immutable)
    """Undo or finish an install of `folder` that a crash interrupted. Nothing may use the folder meanwhile."""
    replaced = replaced_folder(folder)
    if replaced.exists() and not folder.exists():
        folders.rename(replaced, folder)
        folders.sync(folder.parent)
    folders.remove(replaced)
    folders.remove(incoming_folder(folder))
