"""Where exports lie: one folder for each, below a URL.

    <url>/000007-<id>/partition=3/<attempt>.parquet     what Spark, and every other reader, takes for a partitioned set
    <url>/000007-<id>/_manifest.json                    written last: with it the export exists
    <url>/000007-<id>/_writing                          there until the export ends, well or not

A name that begins with `_` is no data to readers of Parquet. URLs are those of a snapshot store. Files that no manifest
names, of an attempt that died, are removed when the export ends; an export that failed is removed whole. Spark may
still be running tasks of a job that it has called failed, or a second attempt of one that is done: an export ends by
removing its mark `_writing`, then the rest, and who has written a file looks for the mark behind that. So either the
one who ends the export finds the file, or the one who wrote it finds no mark, and removes it.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from log_tier.model.errors import Damaged, DuramenError, SnapshotStoreUnavailable
from log_tier.model.identifiers import Partition
from log_tier.privacy.masked_url import mask_url
from serving_tier.snapshots.local_disk import replace_file
from serving_tier.snapshots.store_url import StorePlace, open_place
from spark_bulk.export.manifest import EXPORT_BYTES_MAX, ExportFile, ExportManifest, format_export, parse_export

__all__ = ["MANIFEST_FILE", "ExportPlace"]

MANIFEST_FILE: Final = "_manifest.json"
_MARK: Final = "_writing"

_FOLDER: Final = re.compile(r"(\d{6,})-([0-9A-Za-z]+)")

_REMOVALS: Final = 100

# A row group: large enough for a good compression and few footers, small enough to be held in memory.
_GROUP_ROWS: Final = 128 * 1024
_GROUP_BYTES: Final = 32 << 20


class ExportPlace:
    """The exports below one URL, each in a folder of its own. Everything blocks, and raises `SnapshotStoreUnavailable`
    where the store does not answer.
    """

    def __init__(self, place: StorePlace) -> None:
        self._place = place
        self._fs, self._root, self._local = place.fs, place.root, place.local

    @classmethod
    def open(cls, url: str | os.PathLike[str], storage_options: Mapping[str, Any] | None = None) -> ExportPlace:
        """The place of exports by its URL. Asks nobody anything yet. Raises `InvalidRequest`, as `SnapshotStore`."""
        return cls(open_place(url, storage_options))

    @property
    def url(self) -> str:
        """As it was given."""
        return self._place.url

    def last(self) -> ExportManifest | None:
        """The newest export; None where there is none. A listing, and a read. Raises `Damaged`, `UnknownFormat`."""
        return next(self.exports(), None)

    def exports(self) -> Iterator[ExportManifest]:
        """All exports, the newest first. A listing, and a read of each. Raises `Damaged`, `UnknownFormat`."""
        with self._named():
            self._fs.invalidate_cache()
            listed = self._fs.ls(self._root, detail=False) if self._fs.exists(self._root) else []
        folders = [name for name in (path.rstrip("/").rpartition("/")[2] for path in listed) if _FOLDER.fullmatch(name)]
        for folder in sorted(folders, key=lambda name: (int(name.partition("-")[0]), name), reverse=True):
            path = f"{folder}/{MANIFEST_FILE}"
            with self._named():
                try:
                    with self._fs.open(self._at(path), "rb") as stored:
                        data = stored.read(EXPORT_BYTES_MAX + 1)
                except FileNotFoundError:
                    continue  # one that died, or is under way
            manifest = parse_export(data, self._name(path))
            if manifest.folder != folder:
                raise Damaged(f"{self._name(path)} is the manifest of {manifest.folder}: remove this export")
            yield manifest

    def read_rows(self, manifest: ExportManifest, file: ExportFile) -> Iterator[pa.RecordBatch]:
        """The rows of a file. Memory: a row group. Raises `Damaged` where it is missing, or is not what it was."""
        path = f"{manifest.folder}/{file.path}"
        with self._named():
            try:
                with self._fs.open(self._at(path), "rb") as stored:
                    yield from pq.ParquetFile(stored).iter_batches()
            except FileNotFoundError as error:
                raise Damaged(f"{self._name(path)} is missing: export again") from error
            except (pa.ArrowException, OSError, UnicodeDecodeError) as error:  # the last: of a column's name
                if isinstance(error, OSError) and error.errno is not None:
                    raise  # the store's; those of a file that is damaged have no number
                raise Damaged(f"{self._name(path)} is damaged ({error}): export again") from error

    def begin(self, folder: str) -> None:
        """Let files be written in the folder of a new export, until it is committed or removed."""
        path = self._at(f"{folder}/{_MARK}")
        with self._named():
            if self._local:
                self._fs.makedirs(os.path.dirname(path), exist_ok=True)
            self._fs.pipe_file(path, b"")

    def write_rows(
        self,
        path: str,
        partition: Partition,
        batches: Iterable[pa.RecordBatch],
        *,
        group_rows: int = _GROUP_ROWS,
        group_bytes: int = _GROUP_BYTES,
    ) -> ExportFile | None:
        """Write rows as a Parquet file, synced; None where there are none, and no file then.

        `path`: folder of the export, folder of the partition, name. Memory: a row group, whatever the rows; one ends
        with the batch that brings it to `group_rows` or `group_bytes`. Raises `SnapshotStoreUnavailable`, and leaves
        nothing, where the export was not begun or has ended.
        """
        folder, _, below = path.partition("/")
        groups = _grouped(batches, group_rows, group_bytes)
        first = next(groups, None)
        if first is None:
            return None
        with self._named(), self._begun(folder, path):
            if self._local:
                self._fs.makedirs(os.path.dirname(self._at(path)), exist_ok=True)
            rows = 0
            with self._fs.open(self._at(path), "wb") as out:
                with pq.ParquetWriter(out, first.schema, compression="zstd") as writer:
                    for group in _with(first, groups):
                        writer.write_table(group, row_group_size=len(group))
                        rows += len(group)
                if self._local:
                    out.flush()
                    os.fsync(out.fileno())
            size = int(self._fs.size(self._at(path)))
            with self._fs.open(self._at(path), "rb") as stored:
                said = pq.ParquetFile(stored).metadata.num_rows
        assert said == rows, f"{path}: {rows} rows were written, its footer says {said}"
        return ExportFile(below, partition, rows, size)

    def commit(self, manifest: ExportManifest) -> None:
        """Make the export exist; then remove what it does not name in its folder."""
        text = format_export(manifest)
        path = self._at(f"{manifest.folder}/{MANIFEST_FILE}")
        with self._named():
            if self._local:
                self._fs.makedirs(os.path.dirname(path), exist_ok=True)
                replace_file(path, text, below=self._root)
            else:
                self._fs.pipe_file(path, text)
            self._drop_mark(manifest.folder)
            named = {f"{manifest.folder}/{file.path}" for file in manifest.files} | {
                f"{manifest.folder}/{MANIFEST_FILE}"
            }
            self._fs.invalidate_cache()
            for found in self._fs.find(self._at(manifest.folder)):
                if found.removeprefix(self._root).strip("/") not in named:
                    with suppress(FileNotFoundError):
                        self._fs.rm_file(found)

    def remove(self, folder: str) -> None:
        """Remove an export that failed. One that is not there is removed already."""
        with self._named():
            self._drop_mark(folder)
            for left in reversed(range(_REMOVALS)):
                self._fs.invalidate_cache()
                if not self._fs.exists(self._at(folder)):
                    break
                try:
                    self._fs.rm(self._at(folder), recursive=True)
                except FileNotFoundError:
                    continue  # a writer has removed its own
                except OSError as error:
                    # A writer that does not know yet that the export has ended put a file into a folder as it went.
                    if error.errno != errno.ENOTEMPTY or not left:
                        raise

    def _drop_mark(self, folder: str) -> None:
        with suppress(FileNotFoundError):
            self._fs.rm_file(self._at(f"{folder}/{_MARK}"))

    @contextmanager
    def _begun(self, folder: str, path: str) -> Iterator[None]:
        """Write `path` while its export is under way; where it has ended meanwhile, nothing is left of the file."""
        self._check_mark(folder)
        try:
            yield
        finally:
            try:
                self._check_mark(folder)
            except SnapshotStoreUnavailable:
                with suppress(FileNotFoundError):
                    self._fs.rm_file(self._at(path))
                raise

    def _check_mark(self, folder: str) -> None:
        self._fs.invalidate_cache()
        if not self._fs.exists(self._at(f"{folder}/{_MARK}")):
            raise SnapshotStoreUnavailable(
                f"the export {self._name(folder)} is not under way: it was committed, or failed and was removed; "
                "nothing is written there: export again",
                url=mask_url(self.url),
            )

    def _at(self, path: str) -> str:
        return f"{self._root}/{path}"

    def _name(self, path: str) -> str:
        return f"{mask_url(self.url).partition('?')[0].rstrip('/')}/{path}"

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Turn the store's errors into ours."""
        try:
            yield
        except DuramenError:
            # Some of ours are kinds of `OSError`, by way of `TimeoutError`; they say what they are.
            raise
        except self._place.troubles as error:
            raise SnapshotStoreUnavailable(
                f"the place of exports {mask_url(self.url)} cannot be used: {error or type(error).__name__}: see that "
                "it is there, that it has room, and that this user may read and write it; then try again",
                url=mask_url(self.url),
            ) from error


def _grouped(batches: Iterable[pa.RecordBatch], group_rows: int, group_bytes: int) -> Iterator[pa.Table]:
    """Batches put together to row groups."""
    gathered: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        gathered.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= group_rows or size >= group_bytes:
            yield pa.Table.from_batches(gathered)
            gathered, rows, size = [], 0, 0
    if gathered:
        yield pa.Table.from_batches(gathered)


def _with(first: pa.Table, rest: Iterator[pa.Table]) -> Iterator[pa.Table]:
    yield first
    yield from rest
