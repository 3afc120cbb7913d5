"""The snapshot store: folders of files below a URL, in a file system or an object store (fsspec).

    <root>/<table id>/<partition>/<offset, 20 digits>-<snapshot id>/
        data.mdb, index.json     the index, as it lay in its folder
        manifest.json            written last: with it the snapshot exists (S2)

    /path or file:///path               a folder, perhaps of a network file system; every file and folder is synced
    s3://bucket/prefix                  S3, and what speaks it: `?endpoint_url=http://host:9000`, `?region=…`, or the
                                        environment (AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID, …); needs `duramen[s3]`
    memory://name                       this process's memory, for tests

Calls block in fsspec, so each runs in a thread; files pass in pieces of a MiB and are never whole in memory. A
checksum is computed over what passes, in both directions, and compared with the manifest's.

A put that dies leaves a folder without a manifest. From outside, nobody can see whether the put still runs, and clocks
differ; so it is removed when a newer snapshot of its partition is finished (`remove_unfinished`): from then on nobody
needs it, and a put that was still under way finds at the read-back that its files are gone.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NamedTuple

import google_crc32c

from log_tier.concurrency.threads import Progress, Stop, in_thread
from log_tier.model.errors import InvalidRequest, SnapshotDamaged, SnapshotStoreUnavailable
from log_tier.model.identifiers import Offset, PartitionId, TableId
from log_tier.privacy.masked_url import mask_url
from log_tier.privacy.private_files import FILE_MODE, make_private
from serving_tier.disk import NODE_DISK
from serving_tier.names import MANIFEST_FILE, parse_snapshot_path
from serving_tier.snapshots.contents import FileCheck, pieces_of
from serving_tier.snapshots.local_disk import begin_writing, linked, replace_file, sync_file, sync_folder, write_whole
from serving_tier.snapshots.manifest import (
    MANIFEST_BYTES_MAX,
    SnapshotFile,
    SnapshotManifest,
    format_manifest,
    parse_manifest,
)
from serving_tier.snapshots.store_url import StorePlace, open_place

__all__ = ["SnapshotStore", "StoredSnapshot"]

# Parts of an upload: S3 takes at most 10,000 of them, so this allows files of 160 GB.
_BLOCK_BYTES: Final = 16 << 20


class StoredSnapshot(NamedTuple):
    """A snapshot as the names in the store describe it."""

    partition: PartitionId
    offset: Offset
    id: str
    path: str


class SnapshotStore:
    """Snapshots below one URL: written, listed, verified, fetched and deleted. `SnapshotStore.open(url)`; there is
    nothing to close.

    Everything raises `SnapshotStoreUnavailable` where the store does not answer or refuses.
    """

    def __init__(self, place: StorePlace) -> None:
        self._place = place
        self._local = place.local

    @cached_property
    def _reached(self) -> tuple[Any, str]:
        return self._place.reach()

    @property
    def _fs(self) -> Any:
        return self._reached[0]

    @property
    def _root(self) -> str:
        return self._reached[1]

    @property
    def url(self) -> str:
        """The URL that was given to `open`."""
        return self._place.url

    @classmethod
    def open(cls, url: str | os.PathLike[str], *, storage_options: Mapping[str, Any] | None = None) -> SnapshotStore:
        """A store by its URL; `storage_options` go to fsspec's file system as they are. Asks nobody anything yet.

        Raises `InvalidRequest` for a URL that means nothing here, or whose library is not installed.
        """
        return cls(open_place(url, storage_options))

    async def put(self, folder: Path, manifest: SnapshotManifest, *, progress: Progress | None = None) -> None:
        """Store the files in `folder` and then the manifest. What was stored is removed again where it fails.

        The files must never change afterwards: a store in the same file system links them instead of copying.
        Raises `SnapshotDamaged` where a file is not what the manifest says.
        """
        await in_thread(lambda stop: self._put(folder, manifest, progress, stop))

    def _put(self, folder: Path, manifest: SnapshotManifest, progress: Progress | None, stop: Stop) -> None:
        path = self._at(manifest.path)
        with self._named(manifest.path, missing=None):
            try:
                self._make_folder(path)
                done = 0
                for file in manifest.files:
                    if not (self._local and linked(folder / file.name, f"{path}/{file.name}")):
                        self._write(folder / file.name, file, f"{path}/{file.name}", manifest, done, progress, stop)
                    done += file.size
                stop.check()
                self._write_small(f"{path}/{MANIFEST_FILE}", format_manifest(manifest))
            except BaseException:
                with suppress(*self._place.troubles):
                    self._delete(manifest.path)
                raise

    def _write(
        self,
        source: Path,
        file: SnapshotFile,
        target: str,
        manifest: SnapshotManifest,
        done: int,
        progress: Progress | None,
        stop: Stop,
    ) -> None:
        out = self._fs.open(target, "wb", block_size=_BLOCK_BYTES)
        check = FileCheck(file, str(source), structure=False)
        try:
            with open(source, "rb", buffering=0) as data:
                for piece in pieces_of(data, stop):
                    check.feed(piece)
                    out.write(piece)
                    done += len(piece)
                    if progress is not None:
                        progress("storing", done, manifest.bytes)
            check.finish()
            if self._local:
                os.fchmod(out.fileno(), FILE_MODE)
                out.flush()
                NODE_DISK.get().sync(out)
        except BaseException:
            if not self._local:
                # Closing it would finish the upload of half a file.
                with suppress(*self._place.troubles, AttributeError):
                    out.discard()
                out.closed = True
            else:
                out.close()
            raise
        out.close()

    async def fetch(self, manifest: SnapshotManifest, folder: Path, *, progress: Progress | None = None) -> None:
        """Copy a snapshot's files into `folder`, which must exist, checking every piece of them on the way.

        They are synced. Raises `SnapshotDamaged` naming the file and the place for what is not as the manifest says,
        or not of a structure that LMDB may open.
        """
        await in_thread(lambda stop: self._fetch(manifest, folder, progress, stop))

    def _fetch(self, manifest: SnapshotManifest, folder: Path, progress: Progress | None, stop: Stop) -> None:
        done = 0
        for file in manifest.files:
            with NODE_DISK.get().create(folder / file.name) as out:
                for piece in self._checked(manifest, file, stop):
                    write_whole(out, piece)
                    begin_writing(out.fileno())
                    done += len(piece)
                    if progress is not None:
                        progress("fetching", done, manifest.bytes)
                sync_file(out)

    async def verify(self, manifest: SnapshotManifest, *, progress: Progress | None = None) -> None:
        """Read a stored snapshot's manifest and files, and compare them with `manifest`. Raises as `fetch`.

        A local folder's files are read from the disk, not from what the kernel remembers of writing them.
        """
        await in_thread(lambda stop: self._verify(manifest, progress, stop))

    def _verify(self, manifest: SnapshotManifest, progress: Progress | None, stop: Stop) -> None:
        stored, _ = self._read_summed(manifest.path)
        if stored != manifest:
            raise SnapshotDamaged(f"{self._name(manifest.path)} has the manifest of another snapshot, {stored}")
        done = 0
        for file in manifest.files:
            for piece in self._checked(manifest, file, stop, read_back=True):
                done += len(piece)
                if progress is not None:
                    progress("verifying", done, manifest.bytes)

    def _checked(
        self, manifest: SnapshotManifest, file: SnapshotFile, stop: Stop, *, read_back: bool = False
    ) -> Iterator[bytes]:
        """The pieces of a stored file, each checked."""
        path = f"{manifest.path}/{file.name}"
        name = self._name(path)
        # What is read back was looked at before it was stored.
        check = FileCheck(file, name, structure=not read_back)
        with (
            self._named(path, missing="is missing, and the manifest names it: use another snapshot"),
            self._fs.open(self._at(path), "rb", block_size=_BLOCK_BYTES) as data,
        ):
            if self._local and read_back:
                os.posix_fadvise(data.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            for piece in pieces_of(data, stop):
                check.feed(piece)
                yield piece
        check.finish()

    async def read_manifest(self, path: str) -> SnapshotManifest:
        """The manifest of the snapshot at `path` (`SnapshotManifest.path`).

        Raises `SnapshotDamaged` where there is none, where it is damaged, or where it is another snapshot's;
        `UnknownFormat` for a newer version's.
        """
        return (await self.read_summed(path))[0]

    async def read_summed(self, path: str) -> tuple[SnapshotManifest, int]:
        """`read_manifest`, and the CRC-32C of the manifest's whole text, also of fields that this process ignores."""
        return await in_thread(lambda _: self._read_summed(path))

    def _read_summed(self, path: str) -> tuple[SnapshotManifest, int]:
        file = f"{_check_path(path).path}/{MANIFEST_FILE}"
        with (
            self._named(file, missing="is missing: the snapshot was removed, or never finished; use another one"),
            self._fs.open(self._at(file), "rb", block_size=_BLOCK_BYTES) as stored,
        ):
            data = stored.read(MANIFEST_BYTES_MAX + 1)
        manifest = parse_manifest(data, self._name(file))
        if manifest.path != path:
            raise SnapshotDamaged(
                f"{self._name(file)} is the manifest of {manifest.path}: use another snapshot", file=self._name(file)
            )
        return manifest, google_crc32c.value(data)

    async def snapshots(self, of: TableId | PartitionId | None = None) -> list[StoredSnapshot]:
        """The finished snapshots: of everything, of a table, or of a partition; by path, so by offset at last.

        One listing; what is in the manifests is not looked at.
        """
        return await in_thread(lambda _: self._listed(of)[0])

    async def unfinished(self, of: TableId | PartitionId | None = None) -> list[StoredSnapshot]:
        """The folders without a manifest: leftovers of puts that died, and puts under way. One listing."""
        return await in_thread(lambda _: self._listed(of)[1])

    def _listed(self, of: TableId | PartitionId | None) -> tuple[list[StoredSnapshot], list[StoredSnapshot]]:
        """Finished and unfinished ones."""
        below = "" if of is None else str(of)
        finished: dict[str, bool] = {}
        with self._named(below, missing=None):
            self._fs.invalidate_cache()
            # Folders too: a put that died at once left one that is empty.
            found = self._fs.find(self._at(below), withdirs=True) if self._fs.exists(self._at(below)) else []
            if not found and not self._local:
                self._check_there()
        for name in found:
            path, _, file = name.removeprefix(self._root).strip("/").rpartition("/")
            if parse_snapshot_path(f"{path}/{file}"):
                finished.setdefault(f"{path}/{file}", False)
            elif parse_snapshot_path(path):
                finished[path] = finished.get(path, False) or file == MANIFEST_FILE
        whole = sorted(_check_path(path) for path, done in finished.items() if done)
        return whole, sorted(_check_path(path) for path, done in finished.items() if not done)

    async def delete(self, path: str) -> None:
        """Remove a snapshot: its manifest first. One that is not there is removed already."""
        _check_path(path)

        def work(_: Stop) -> None:
            with self._named(path, missing=None):
                self._delete(path)

        await in_thread(work)

    def _delete(self, path: str) -> None:
        self._check_there()
        with suppress(FileNotFoundError):
            self._fs.rm_file(self._at(f"{path}/{MANIFEST_FILE}"))
            if self._local:
                sync_folder(self._at(path))
        with suppress(FileNotFoundError):
            self._fs.invalidate_cache()
            if self._fs.exists(self._at(path)):
                self._fs.rm(self._at(path), recursive=True)

    async def remove_unfinished(self, partition: PartitionId) -> list[str]:
        """Remove the leftovers of puts that died before a newer snapshot was finished; return the paths."""
        whole, unfinished = await in_thread(lambda _: self._listed(partition))
        dead = [one.path for one in unfinished if whole and one.offset < whole[-1].offset]
        for path in dead:
            await self.delete(path)
        return dead

    async def read_document(self, path: str, *, bytes_max: int | None = None) -> bytes | None:
        """A small file below the root, at most one byte more than `bytes_max` of it; None where there is none."""

        def work(_: Stop) -> bytes | None:
            with self._named(path, missing=None):
                try:
                    with self._fs.open(self._at(path), "rb") as stored:
                        data: bytes = stored.read(-1 if bytes_max is None else bytes_max + 1)
                except FileNotFoundError:
                    if not self._local:
                        self._check_there()
                    return None
                return data

        return await in_thread(work)

    async def write_document(self, path: str, data: bytes) -> None:
        """Write a small file below the root: the old one or the new one is there, whatever happens."""

        def work(_: Stop) -> None:
            with self._named(path, missing=None):
                self._make_folder(os.path.dirname(self._at(path)))
                self._write_small(self._at(path), data)

        await in_thread(work)

    def _write_small(self, path: str, data: bytes) -> None:
        """Write a file whole or not at all. An object appears when its upload is finished; a local file is renamed."""
        if not self._local:
            self._fs.pipe_file(path, data)
            return
        replace_file(path, data, below=self._root)

    def _make_folder(self, path: str) -> None:
        # An object store has no folders. Asked to make one, S3's client would make a missing bucket, perhaps of a wrong
        # name.
        if not self.url.startswith("s3://"):
            if self._local:
                make_private(path)
            else:
                self._fs.makedirs(path, exist_ok=True)

    def _check_there(self) -> None:
        """Raise what the store raises where its root is not there: then nothing that is missing below means anything.

        A folder that is not there yet is a store in which nothing is yet: `snapshots` and `read_document` do not ask.
        """
        if self._local:
            os.stat(self._root)
        elif self.url.startswith("s3://"):
            bucket = self._root.partition("/")[0]
            if not self._fs.exists(bucket):
                raise FileNotFoundError(f"there is no bucket {bucket}")

    def _at(self, path: str) -> str:
        return f"{self._root}/{path}" if path else self._root

    def _name(self, path: str) -> str:
        """What a place is called in a message."""
        return f"{mask_url(self.url).partition('?')[0].rstrip('/')}/{path}"

    def _named(self, path: str, *, missing: str | None = "is missing") -> AbstractContextManager[None]:
        return _named_troubles(self, path, missing)


@contextmanager
def _named_troubles(store: SnapshotStore, path: str, missing: str | None) -> Iterator[None]:
    """Turn the store's errors into ours. What is missing is damage, if the root itself is there."""
    try:
        yield
    except FileNotFoundError as error:
        if missing is not None:
            with _named_troubles(store, path, None):
                store._check_there()
            raise SnapshotDamaged(f"{store._name(path)} {missing}", file=store._name(path)) from error
        raise _unavailable(store, error) from error
    except store._place.troubles as error:
        raise _unavailable(store, error) from error


def _unavailable(store: SnapshotStore, error: Exception) -> SnapshotStoreUnavailable:
    return SnapshotStoreUnavailable(
        f"the snapshot store {mask_url(store.url)} cannot be used: {error or type(error).__name__}: see that it is "
        "there, that it has room, and that this user may read and write it; then try again",
        url=mask_url(store.url),
    )


def _check_path(path: str) -> StoredSnapshot:
    """The snapshot that a path names. Raises `InvalidRequest` for any other path: it must not lead out of the store."""
    found = parse_snapshot_path(path)
    if found is None:
        raise InvalidRequest(f"{path!r} is no snapshot's path: it is <table id>/<partition>/<offset>-<id>")
    return StoredSnapshot(*found, path)
