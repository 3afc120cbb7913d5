"""Taking a snapshot of a live index: copy, check, store, read back.

    copy       LMDB writes a compact copy into a pipe, without the interpreter's lock; the index is held open for that
    describe   what comes out of the pipe is checksummed before it meets a disk, its structure is looked at, and it is
               written into a folder of our own; then it is opened and names its applied offset (S1)
    store      files, then the manifest; a store on the same file system gets the files by a link
    verify     everything is read back from the store and compared (S3)

A copy at one transaction: applies and reads go on meanwhile. Cancelled or failed at any point, it leaves nothing here
and nothing in the store.
"""

from __future__ import annotations

import fcntl
import logging
import os
import secrets
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, asynccontextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import Final

from log_tier.concurrency.clocks import SYSTEM_CLOCK
from log_tier.concurrency.threads import Progress, Stop, in_thread
from log_tier.model.errors import DuramenError, Overloaded, SnapshotDamaged
from serving_tier.disk import NODE_DISK
from serving_tier.folders import clear_away, discard
from serving_tier.index.lmdb.folder import claim_folder, release_folder
from serving_tier.index.lmdb.lmdb_index import LmdbIndex
from serving_tier.names import DATA_FILE, MARKER_FILE, copy_folder
from serving_tier.snapshots.contents import Contents, describe_file, pieces_of, read_contents
from serving_tier.snapshots.local_disk import begin_writing, local_troubles, sync_file, write_whole
from serving_tier.snapshots.manifest import PIECE_BYTES, SnapshotFile, SnapshotManifest
from serving_tier.snapshots.snapshot_store import SnapshotStore

__all__ = ["Reading", "copied_index", "new_snapshot_id", "take_snapshot"]

logger = logging.getLogger(__name__)

Reading = Callable[[], AbstractContextManager[LmdbIndex]]
"""Holds an index open: `Replica.reading`."""

# Random bits in a snapshot's id: they distinguish the attempts at one offset.
_ID_BYTES: Final = 8


async def take_snapshot(
    reading: Reading,
    store: SnapshotStore,
    *,
    table_name: str,
    work_folder: Path,
    digest: bool = False,
    progress: Progress | None = None,
    clock_ms: Callable[[], int] = SYSTEM_CLOCK.wall_ms,
    described: Callable[[Contents], None] = lambda _: None,
) -> SnapshotManifest:
    """Take a snapshot and store it; return its manifest when it was read back and found good. `described` is called
    with what the copy says about itself, before the copy is stored.

    `work_folder` gets a copy of the index for a while; on the store's file system that copy becomes the snapshot.
    Leftovers of puts that died are removed from the store on the way.

    Raises `SnapshotStoreUnavailable`, `SnapshotDamaged` (the index, or what the store gave back, is not sound),
    `DiskFull`, and why the replica was closed.
    """
    async with copied_index(
        reading,
        table_name=table_name,
        work_folder=work_folder,
        digest=digest,
        progress=progress,
        clock_ms=clock_ms,
        described=described,
    ) as (folder, manifest):
        await store.put(folder, manifest, progress=progress)
    try:
        await store.verify(manifest, progress=progress)
    except BaseException:
        with suppress(DuramenError):
            await store.delete(manifest.path)
        raise
    try:
        removed = await store.remove_unfinished(manifest.partition_id)
    except DuramenError as error:
        logger.warning("leftovers next to %s stay for now: %s", manifest, error)
    else:
        if removed:
            logger.info("removed what unfinished snapshots had left: %s", ", ".join(removed))
    return manifest


def new_snapshot_id() -> str:
    """Hex digits that no other snapshot has."""
    return secrets.token_hex(_ID_BYTES)


@asynccontextmanager
async def copied_index(
    reading: Reading,
    *,
    table_name: str,
    work_folder: Path,
    digest: bool = False,
    progress: Progress | None = None,
    snapshot_id: str = "",
    clock_ms: Callable[[], int] = SYSTEM_CLOCK.wall_ms,
    described: Callable[[Contents], None] = lambda _: None,
    sent: bool = False,
) -> AsyncIterator[tuple[Path, SnapshotManifest]]:
    """A checked copy of a live index in a folder of its own, and its manifest; the folder is removed at the end.

    `sent`: it is only sent on, while it is made, and removed: it need not be written to the disk at all, and the
    structure is looked at by who gets it. `snapshot_id`: hex digits that no other snapshot has; drawn here where they
    are not given. `described`: as `take_snapshot`.

    The index may stop being the live version between `reading` and the copy's transaction. Such a copy serves nobody:
    it is made again, of the index that is live by then. One that was sent cannot be: `Overloaded` is raised, and who
    asks again gets it.
    """
    snapshot_id = snapshot_id or new_snapshot_id()
    folder = copy_folder(work_folder, snapshot_id)
    try:
        while True:
            with reading() as index:
                files = await in_thread(lambda stop, index=index: _copy(index, folder, progress, sent, stop))  # type: ignore[misc]
            contents = await in_thread(lambda _: read_contents(folder, digest=digest))
            if contents.version == contents.live.version:
                break
            if sent:
                raise Overloaded(f"another version of {table_name} went live while this one was copied: ask again")
            await in_thread(lambda _: discard(folder))
        described(contents)
        manifest = SnapshotManifest(
            id=snapshot_id,
            table=contents.partition.table,
            table_name=table_name,
            partition=contents.partition.partition,
            offset=contents.state.applied,
            log_time_ms=contents.state.log_time_ms,
            keys=contents.keys,
            index_version=contents.index_version,
            created_ms=clock_ms(),
            files=files,
            digest=contents.digest,
        )
        yield folder, manifest
    finally:
        await in_thread(lambda _: clear_away(folder))


def _copy(
    index: LmdbIndex, folder: Path, progress: Progress | None, sent: bool, stop: Stop
) -> tuple[SnapshotFile, ...]:
    """Make `folder` a closed index folder with a copy of `index`; return its files.

    LMDB writes into a pipe, in another thread, without the interpreter's lock.
    """
    with local_troubles(folder):
        return _copied(index, folder, progress, sent, stop)


def _copied(
    index: LmdbIndex, folder: Path, progress: Progress | None, sent: bool, stop: Stop
) -> tuple[SnapshotFile, ...]:
    disk = NODE_DISK.get()
    disk.make_folder(folder, exist_ok=False)
    partition = index.identity()
    claim_folder(folder, partition=partition)
    source, sink = os.pipe()

    def write() -> None:
        try:
            index.copy_to(sink)
        finally:
            os.close(sink)

    with ThreadPoolExecutor(1, "duramen-copy") as lmdb_side:
        try:
            with suppress(PermissionError):  # of a user who has many pipes: a small one only takes more turns
                fcntl.fcntl(sink, fcntl.F_SETPIPE_SZ, PIECE_BYTES)
            writing = lmdb_side.submit(write)
        except BaseException:
            os.close(source)
            os.close(sink)  # no thread has it
            raise
        try:
            # Left with an error this closes the pipe, and that ends LMDB's side.
            with open(source, "rb", buffering=0) as pipe, disk.create(folder / DATA_FILE) as out:
                passing = _written(pieces_of(pipe, stop), out, progress, synced=not sent)
                data = describe_file(DATA_FILE, passing, f"the copy of {partition}", structure=not sent)
                if not sent:
                    sync_file(out)
        except SnapshotDamaged:
            # What LMDB itself said about the index comes first: the file is short because of it.
            writing.result()
            raise
        writing.result()
    release_folder(folder)
    with open(folder / MARKER_FILE, "rb", buffering=0) as marker:
        return data, describe_file(MARKER_FILE, pieces_of(marker, stop), MARKER_FILE)


def _written(pieces: Iterator[bytes], out: FileIO, progress: Progress | None, *, synced: bool) -> Iterator[bytes]:
    """Write each piece to `out` and pass it on."""
    done = 0
    for piece in pieces:
        write_whole(out, piece)
        if synced:
            begin_writing(out.fileno())
        yield piece
        done += len(piece)
        if progress is not None:
            progress("copying", done, 0)
