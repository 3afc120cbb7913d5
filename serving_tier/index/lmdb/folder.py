"""The files next to an LMDB file: whose index it is, and whether it can be trusted.

    index.json    the marker: format, version, table, partition, boot id, clean
    data.mdb      LMDB's file; lock.mdb its table of readers

An index is a cache of the log and is written without syncs. While the machine runs, a killed process loses nothing:
what it wrote is in the kernel's page cache. When the machine dies, LMDB's pages reach the disk in any order, and the
file may look whole without being so. Therefore the marker carries the kernel's **boot id**: an index that was not
closed cleanly is trusted only in the boot that wrote it (I10).

    claim    → the marker says: unclean, this boot        before the first write
    rest     → the same, with a summary of the index      when its file is closed, to be opened again when it is needed
    release  → the marker says: clean, with a summary     after everything was synced

A marker with a summary (`serving_tier.index.lmdb.summary`) is believed without a look into the file, so that a node of
thousands of replicas opens without opening their files. Markers of earlier versions have none.

The check of the two meta pages before LMDB maps the file costs one read and catches what would crash the process at
once: another kind of file, another version, a file that was cut. It does not walk the file; `verify_index` does. A
summary is believed after the same check, or after less: it names the file by its inode, size and times, and one that is
still the same is checked when it is opened.

LMDB's files have no checksums: a byte that changes inside a value keeps the structure whole. So a clean close leaves
the **checksum** of the whole file in the summary. A file that is no longer the one that the summary names (it was
copied, restored, or written by something else) is read whole and compared before it is believed. One that is still the
same is not read; `check_content` compares it all the same, for `duramen log verify`. There is no checksum of a file
that was not closed cleanly, nor of one above `CHECKSUM_BYTES_MAX`. Of the former the pages in use are walked before it
is opened, 3 µs each: LMDB ends the process at some damaged pages, and would do so again at every start.

**Other versions.** Fields of a marker that this version does not know are ignored. They are not kept when the marker is
written again: what they said of the file need not hold any more, and a newer version takes a missing field as unknown.
An index of a newer format is `UnknownFormat`: the folder stays as it is for the version that can read it.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from functools import cache
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any, Final, NamedTuple

import google_crc32c
from lmdb.verify import VerifyError, verify

from log_tier.concurrency.disk_errors import disk_refusal
from log_tier.model.errors import DuramenError, IndexDamaged
from log_tier.model.files.sealed_json import SealedKind
from log_tier.model.identifiers import PartitionId
from serving_tier.disk import NODE_DISK
from serving_tier.index.lmdb.format import INDEX_FORMAT_VERSION, NEWER_INDEX, READABLE_VERSIONS
from serving_tier.index.lmdb.pages import METAS_BYTES_MAX, DamagedPage, NoMetaPage, check_trees, newest_meta
from serving_tier.index.lmdb.summary import IndexSummary
from serving_tier.names import DATA_FILE, MARKER_FILE, new_file

__all__ = [
    "CHECKSUM_BYTES_MAX",
    "BootId",
    "check_content",
    "check_folder",
    "check_length",
    "claim_folder",
    "data_checksum",
    "folder_trouble",
    "read_boot_id",
    "release_folder",
    "rest_folder",
    "summary_of_folder",
    "sync_data",
    "verify_index",
]

BootId = Callable[[], str]
"""The seam to the kernel: an id that is different after each boot of the machine."""

CHECKSUM_BYTES_MAX: Final = 256 << 20
"""Of a larger file a clean close takes no checksum. So much is read in 0.1 s from memory: a node with a hundred indexes
of that size still stops in ten seconds."""

_PIECE_BYTES: Final = 1 << 20

_FORMAT: Final = "duramen index"

# A marker has some 450 bytes. Of a longer file only so much is read: it is something else.
_MARKER_BYTES_MAX: Final = 4096

# A file where a folder has to be, or the other way round: something else took the index's place.
_MISPLACED: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ELOOP})


_KIND: Final = SealedKind(
    _FORMAT,
    INDEX_FORMAT_VERSION,
    bytes_max=_MARKER_BYTES_MAX,
    damage=IndexDamaged,
    remedy="discard the folder and fold the log again",
    upgrade=NEWER_INDEX,
    is_cache=True,
)


class _Marker(NamedTuple):
    """The fields of `index.json`."""

    format: str
    version: int
    table: str
    partition: int
    boot_id: str
    clean: bool
    summary: dict[str, Any] | None = None


_FIELDS: Final = frozenset(_Marker._fields)

# A text without it has no check. One that has it as a value only is no marker: none of the fields can be that.
_CHECK: Final = b'"check"'


@cache
def read_boot_id() -> str:
    """The random id that the kernel drew when it started."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def claim_folder(path: Path, *, partition: PartitionId, boot_id: BootId = read_boot_id) -> None:
    """Make the folder of an index, or check the one that is there; then mark it as in use by this boot.

    Two syncs where the marker said that it is clean; else a crash of the machine takes the folder back to a state that
    is discarded, with this marker or without it. Raises `IndexDamaged` where what is there cannot be trusted: discard
    the folder and fold the log again. Raises `UnknownFormat` for an index of a newer format: keep the folder.
    """
    boot = boot_id()
    NODE_DISK.get().make_folder(path)
    was_clean = False
    first_marker = new_file(path / MARKER_FILE)  # alone where the folder was made and its disk was full
    if any(each != first_marker for each in path.iterdir()):
        marker = check_folder(path, partition=partition, boot_id=lambda: boot)
        was_clean = marker.clean
    marker = _Marker(_FORMAT, INDEX_FORMAT_VERSION, partition.table, partition.partition, boot, clean=False)
    _write_marker(path, marker, durable=was_clean)


def check_folder(path: Path, *, partition: PartitionId, boot_id: BootId = read_boot_id) -> _Marker:
    """The marker of a folder whose file can be opened. Raises `IndexDamaged`, and `UnknownFormat` for a newer index."""
    marker = _read_marker(path)
    _check_marker(marker, path, partition=partition, boot=boot_id())
    _check_data(path)
    if marker.summary is None or _named_file(marker.summary) != _identity(path):
        _compare_content(path, marker.summary or {})
        if not marker.clean:
            _check_pages(path)
    return marker


def _check_pages(path: Path) -> None:
    """Walk the pages in use, for a file whose process was killed. It may be damaged, and have killed the process."""
    try:
        with open(path / DATA_FILE, "rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as data:
            check_trees(data)
    except (NoMetaPage, DamagedPage) as error:
        raise IndexDamaged(f"{path / DATA_FILE} {error}: discard it and fold the log again", file=str(path)) from error


def check_content(path: Path) -> None:
    """Read the whole data file and compare it with the checksum of its last clean close, if there is one. Raises
    `IndexDamaged`.
    """
    summary = _read_marker(path).summary
    if summary is not None:
        _compare_content(path, summary)


def data_checksum(path: Path) -> str:
    """The CRC-32C of a data file, in hex. Reads all of it, some 3 GiB/s from memory. Raises `OSError`."""
    found = 0
    with open(path / DATA_FILE, "rb", buffering=0) as file:
        while piece := file.read(_PIECE_BYTES):
            found = google_crc32c.extend(found, piece)
    return f"{found:08x}"


def _compare_content(path: Path, summary: dict[str, Any]) -> None:
    said = summary.get("checksum")
    if said is not None and (found := data_checksum(path)) != said:
        raise IndexDamaged(
            f"{path / DATA_FILE} has the checksum {found}, its marker says {said}: something else wrote it, or the "
            "disk lost it: discard it and fold the log again",
            file=str(path),
        )


def summary_of_folder(path: Path, *, partition: PartitionId, boot: str) -> tuple[IndexSummary | None, bool]:
    """What a folder's marker says about its file, and whether that is clean. One read; a file that is not the one
    that the marker means, or was changed since, is read whole as well.

    No summary where the file has to be looked at: it was in use when its process ended, or an earlier version closed
    it. Raises `IndexDamaged` for a folder that cannot be trusted, `UnknownFormat` for an index of a newer format, and
    `FileNotFoundError` where there is none.
    """
    try:
        marker = _read_marker(path)
    except (IndexDamaged, NotADirectoryError):
        if path.is_dir():
            raise
        raise FileNotFoundError(str(path)) from None
    _check_marker(marker, path, partition=partition, boot=boot)
    if marker.summary is None:
        return None, marker.clean
    if _named_file(marker.summary) != _identity(path):
        _check_data(path)
        _compare_content(path, marker.summary)
    try:
        return IndexSummary.from_json(marker.summary), marker.clean
    except (KeyError, TypeError, ValueError) as error:
        raise IndexDamaged(
            f"{path / MARKER_FILE} cannot be read ({error!r}): discard the folder", file=str(path)
        ) from error


def rest_folder(path: Path, summary: IndexSummary) -> None:
    """Write down what the file holds, for the time in which it is closed. No sync."""
    _write_marker(path, _read_marker(path)._replace(summary=_document(path, summary)), durable=False)


def release_folder(path: Path, summary: IndexSummary | None = None) -> None:
    """Say that the index was synced and closed: it can be trusted after a reboot too. Two syncs of small files; the
    data file is read for its checksum. Raises `OSError`.
    """
    document = None if summary is None else _document(path, summary)
    if document is not None and os.stat(path / DATA_FILE).st_size <= CHECKSUM_BYTES_MAX:
        document["checksum"] = data_checksum(path)
    _write_marker(path, _read_marker(path)._replace(clean=True, summary=document), durable=True)


def folder_trouble(error: OSError, folder: Path) -> DuramenError:
    """The typed error for an index's folder that cannot be opened. Only a known fault of the folder is damage: a disk
    that fails once would otherwise cost a fold of the whole log.
    """
    if error.errno in _MISPLACED:
        return IndexDamaged(
            f"the index {folder} cannot be opened: {error}: discard it and fold the log again", file=str(folder)
        )
    return disk_refusal(
        error,
        f"the index {folder} cannot be opened",
        path=folder,
        effect="the log has everything that was acknowledged, and the index is opened again. If the disk goes on "
        "refusing, stop the process, remove that folder and start again: it is folded from the log",
        room="make room, and it is opened again",
    )


def sync_data(path: Path) -> None:
    """Bring a file that is closed to stable storage. One sync."""
    NODE_DISK.get().sync_file(path / DATA_FILE)


def verify_index(path: Path) -> None:
    """Walk the whole LMDB file without opening it as one. Raises `IndexDamaged` naming what is wrong.

    For files that another process or machine made. Some 10 µs a key: `lmdb.verify` is a walker in pure Python.
    """
    try:
        problems = verify(str(path / DATA_FILE))  # type: ignore[no-untyped-call]
    except OSError as error:
        raise folder_trouble(error, path) from error
    except VerifyError as error:
        raise IndexDamaged(f"{path / DATA_FILE}: {error}: discard it and fold the log again", file=str(path)) from error
    if problems:
        raise IndexDamaged(
            f"{path / DATA_FILE} has {len(problems)} faults, the first: {problems[0]}: discard it and fold the log "
            "again",
            file=str(path),
        )


def _read_marker(path: Path) -> _Marker:
    """The marker, without the fields that a newer version added. Raises `UnknownFormat` for one of a newer format."""
    file = f"{path}/{MARKER_FILE}"  # a `Path` costs as much as the read
    try:
        data, _ = _beginning(file, _MARKER_BYTES_MAX)
        if _CHECK in data:
            fields = {name: value for name, value in _KIND.parse(data, file).items() if name in _FIELDS}
        else:  # earlier versions wrote none, and no field that is not known here
            fields = json.loads(data.decode())
        marker = _Marker(**fields)
    except FileNotFoundError as error:
        raise IndexDamaged(f"{path} holds files and no {MARKER_FILE}: discard it", file=file) from error
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise IndexDamaged(f"{file} cannot be read ({error}): discard the folder", file=file) from error
    if marker.format != _FORMAT or marker.version not in READABLE_VERSIONS:
        raise IndexDamaged(
            f"{file} tells of {marker.format!r} version {marker.version}, this process has {_FORMAT!r} version "
            f"{INDEX_FORMAT_VERSION}: discard the folder and fold the log again",
            file=file,
        )
    return marker


def _check_marker(marker: _Marker, path: Path, *, partition: PartitionId, boot: str) -> None:
    if (marker.table, marker.partition) != partition:
        raise IndexDamaged(
            f"{path} is the index of {marker.table}/{marker.partition}, not of {partition}: discard it", file=str(path)
        )
    if not marker.clean and marker.boot_id != boot:
        raise IndexDamaged(
            f"{path} was in use when the machine stopped (boot {marker.boot_id}, now {boot}), so what reached the "
            "disk is unknown: discard it and fold the log again",
            file=str(path),
            boot=marker.boot_id,
        )


def _write_marker(path: Path, marker: _Marker, *, durable: bool) -> None:
    """Replace the marker so that a crash leaves the old one or the new one; `durable`: with two syncs."""
    fields = marker._asdict()
    del fields["format"], fields["version"]
    if fields["summary"] is None:
        del fields["summary"]
    new = new_file(path / MARKER_FILE)
    disk, data = NODE_DISK.get(), memoryview(_KIND.write(fields))
    with disk.create(new) as file:
        while data:
            data = data[disk.write(file, data) :]
        if durable:
            disk.sync(file)
    disk.rename(new, path / MARKER_FILE)
    if durable:
        disk.sync_folder(path)


def _document(path: Path, summary: IndexSummary) -> dict[str, Any]:
    """A summary as a marker carries it, of a file that was just closed."""
    return {**summary.to_json(), "file": _identity(path)}


def _named_file(document: object) -> object:
    """The file that a summary is of; an object of its own where none is named."""
    named = document.get("file") if isinstance(document, dict) else None
    return object() if named is None else named


def _identity(path: Path) -> list[int] | None:
    """Inode, size and times of the data file: equal if it was not replaced, written or resized. None without a file."""
    try:
        stat = os.stat(f"{path}/{DATA_FILE}")
    except OSError:
        return None  # what is wrong is found where it is opened
    return [stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns]


def _check_data(path: Path) -> None:
    """Check the two meta pages as LMDB would, before LMDB maps the file."""
    end, size = _ends_of_data(path)
    if end > size:
        # Either the file was cut short, or the last pages were freed by the transaction that had taken them and so were
        # never written. The first would crash this process at a read, so it is worth the walk that distinguishes them.
        verify_index(path)


def check_length(path: Path) -> None:
    """Check that LMDB's file has all of its pages: a read behind its end kills the process. Two reads, never a walk.

    Raises `IndexDamaged`, also for the rare whole file that ends before pages which were taken and freed again in one
    transaction: `check_folder` distinguishes them. Raises `OSError` where the file cannot be read.
    """
    end, size = _ends_of_data(path)
    if end > size:
        raise IndexDamaged(f"{path / DATA_FILE} has {size} bytes, its pages end at {end}", file=str(path))


def _ends_of_data(path: Path) -> tuple[int, int]:
    """Where the pages of LMDB's file end according to its newest meta page, and how many bytes it has."""
    file = f"{path}/{DATA_FILE}"
    try:
        metas, size = _beginning(file, METAS_BYTES_MAX)
        meta = newest_meta(metas)
    except FileNotFoundError as error:
        raise IndexDamaged(f"{file} is missing: discard the folder", file=file) from error
    except NoMetaPage as error:
        raise IndexDamaged(f"{file} {error}; discard it", file=file) from error
    return (meta.last_page + 1) * meta.page_bytes, size


def _beginning(file: str, bytes_max: int) -> tuple[bytes, int]:
    """The first bytes of a file, and its size. A third of the calls of a buffered file: a start reads thousands."""
    opened = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.pread(opened, bytes_max, 0), os.fstat(opened).st_size
    finally:
        os.close(opened)
