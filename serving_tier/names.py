"""Every name of a folder or a file on the serving side's disk: built here, parsed here, and spelled nowhere else.

    DATA/                           a serving node's data folder, or that of `duramen up`
      node.json, node.lock          who the node is; held by its process
      index/TABLE/PARTITION/        a replica's index: data.mdb, lock.mdb, index.json
      index/TABLE/3/text-7/         its text index 7, if the table has one
      index/TABLE/3.v2/             version 2 of it
      index/TABLE/3.rebuild/        one that is rebuilt to replace it; 3.old/ is the one whose place it took
      index/TABLE/3.damaged-1/      one that `duramen log repair` moved away
      index/TABLE/3.incoming/       one that is being received or made; 3.replaced/ is the one whose place it takes
      copies/                       copies that others fetch from here
      snapshots/                    the snapshot store, where none is named:
        TABLE/PARTITION/OFFSET-ID/  a snapshot: the files of an index, and manifest.json
      snapshot-work/copy-ID/        the copy that becomes a snapshot
      point-in-time/JOB-TASK/       the past that a restore reads
      nodes/NAME/, output/          `duramen up --nodes`: the data folders of its nodes, what its processes printed

A version of a table lies where it was built: a snapshot store with a version.json at its top. The log's names are the
log's (`log_tier.embedded.storage.names`). Pure.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple, Protocol, Self, TypeVar

from log_tier.model.identifiers import Offset, PartitionId, TableId, partition_id

__all__ = [
    "COPIES_FOLDER",
    "DATA_FILE",
    "INDEX_FILES",
    "INDEX_FOLDER",
    "MANIFEST_FILE",
    "MARKER_FILE",
    "NODES_FOLDER",
    "NODE_FILE",
    "NODE_FOLDERS",
    "NODE_LOCK",
    "OUTPUT_FOLDER",
    "POINT_IN_TIME_FOLDER",
    "SNAPSHOTS_FOLDER",
    "SNAPSHOT_WORK_FOLDER",
    "UP_FOLDERS",
    "VERSION_FILE",
    "SnapshotPath",
    "copy_folder",
    "damaged_folder",
    "incoming_folder",
    "index_partition",
    "is_version_of",
    "new_file",
    "old_folder",
    "parse_snapshot_path",
    "past_folder",
    "purpose",
    "rebuild_folder",
    "replaced_folder",
    "snapshot_path",
    "text_folder",
    "text_number",
    "version_folder",
]


class Path(Protocol):
    """The part of `pathlib`'s paths that this module uses."""

    @property
    def name(self) -> str:
        """The last part of the path."""
        ...

    def with_name(self, name: str) -> Self:
        """The path of another name in the same folder."""
        ...

    def __truediv__(self, name: str) -> Self:
        """The path of that name below this one."""
        ...


P = TypeVar("P", bound=Path)

# --- a data folder

NODE_FILE: Final = "node.json"
NODE_LOCK: Final = "node.lock"

INDEX_FOLDER: Final = "index"
COPIES_FOLDER: Final = "copies"
SNAPSHOTS_FOLDER: Final = "snapshots"
SNAPSHOT_WORK_FOLDER: Final = "snapshot-work"
POINT_IN_TIME_FOLDER: Final = "point-in-time"
NODE_FOLDERS: Final = (INDEX_FOLDER, COPIES_FOLDER, SNAPSHOTS_FOLDER, SNAPSHOT_WORK_FOLDER, POINT_IN_TIME_FOLDER)
"""What a node makes below its data folder."""

NODES_FOLDER: Final = "nodes"
OUTPUT_FOLDER: Final = "output"
UP_FOLDERS: Final = (NODES_FOLDER, OUTPUT_FOLDER)
"""What `duramen up --nodes` makes in addition."""


def copy_folder(work: P, snapshot_id: str) -> P:
    """The folder of the copy that becomes a snapshot."""
    return work / f"copy-{snapshot_id}"


def past_folder(index: P, job: int, task: int) -> P:
    """The folder into which a task restores the past, at the node whose indexes lie below `index`."""
    return index.with_name(POINT_IN_TIME_FOLDER) / f"{job}-{task}"


# --- an index's folder, and those next to it

DATA_FILE: Final = "data.mdb"
MARKER_FILE: Final = "index.json"
INDEX_FILES: Final = (DATA_FILE, MARKER_FILE)
"""What a copy of an index consists of. LMDB adds a lock.mdb, which is of this machine only."""

_VERSION: Final = re.compile(r"(.+)\.v([1-9][0-9]*)")


def new_file(file: P) -> P:
    """The path at which a small file is written before it takes the place of `file`."""
    return file.with_name(f"{file.name}.new")


def version_folder(folder: P, number: int) -> P:
    """The folder of a later version of the replica in `folder`."""
    return folder.with_name(f"{folder.name}.v{number}")


def is_version_of(name: str, folder_name: str) -> bool:
    """Whether `name` is the folder of a later version next to a replica's folder."""
    found = _VERSION.fullmatch(name)
    return found is not None and found[1] == folder_name


def index_partition(name: str) -> int | None:
    """The partition whose index, or a version of it, a folder in a table's is named after; None for any other name."""
    version = _VERSION.fullmatch(name)
    number = name if version is None else version[1]
    return int(number) if number.isdecimal() else None


def damaged_folder(folder: P, number: int) -> P:
    """The folder to which a damaged index is moved, the `number`th of its partition."""
    return folder.with_name(f"{folder.name}.damaged-{number}")


def rebuild_folder(folder: P) -> P:
    """The folder of an index that is rebuilt to take the place of the one in `folder`."""
    return folder.with_name(f"{folder.name}.rebuild")


def old_folder(folder: P) -> P:
    """The folder of the index that a rebuild replaced, until the new index is open."""
    return folder.with_name(f"{folder.name}.old")


def incoming_folder(folder: P) -> P:
    """The folder in which an index's files are received or made; a rename to `folder` completes the index."""
    return folder.with_name(f"{folder.name}.incoming")


def replaced_folder(folder: P) -> P:
    """The folder of the old index while another takes its place in `folder`."""
    return folder.with_name(f"{folder.name}.replaced")


_TEXT: Final = re.compile(r"text-([1-9][0-9]*)")


def text_folder(folder: P, number: int) -> P:
    """The folder of a text index of the replica in `folder`: it goes where that one goes, and with it."""
    return folder / f"text-{number}"


def text_number(name: str) -> int | None:
    """The number of the text index whose folder has this name; None for any other name."""
    found = _TEXT.fullmatch(name)
    return None if found is None else int(found[1])


_STAGES: Final = ("rebuild", "old", "incoming", "replaced")


def purpose(path: str) -> str:
    """What a path below a data folder is for, in a word: `index`, `version`, `incoming`, `snapshot-work` and so on."""
    first, *below = path.split("/")
    if first != INDEX_FOLDER or len(below) < 2:
        return first
    stage = below[1].rpartition(".")[2]
    if stage in _STAGES:
        return stage
    return INDEX_FOLDER if _VERSION.fullmatch(below[1]) is None else "version"


# --- a snapshot store

MANIFEST_FILE: Final = "manifest.json"
VERSION_FILE: Final = "version.json"

_SNAPSHOT: Final = re.compile(r"([A-Za-z0-9_-]{22})/(\d{1,4})/(-?\d{19,20})-([0-9A-Za-z]+)")


class SnapshotPath(NamedTuple):
    """What a snapshot's place in its store says."""

    partition: PartitionId
    offset: Offset
    id: str


def snapshot_path(partition: PartitionId, offset: Offset, snapshot_id: str) -> str:
    """A snapshot's folder below its store's root. Sorted by name is sorted by offset."""
    return f"{partition}/{offset:020d}-{snapshot_id}"


def parse_snapshot_path(path: str) -> SnapshotPath | None:
    """Partition, offset and id of a snapshot's folder below its store's root; None for any other path."""
    match = _SNAPSHOT.fullmatch(path)
    if match is None:
        return None
    return SnapshotPath(partition_id(TableId(match[1]), int(match[2])), Offset(int(match[3])), match[4])
