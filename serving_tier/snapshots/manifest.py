"""The manifest of a snapshot: what it holds, to which offset, and the checksums of its files. Pure.

    {"format": "duramen-snapshot", "version": 1, "id": …, …, "files": […], "check": "9a71c0f2"}

`docs/FORMATS.md` specifies every field, with an example. The text is exact (`log_tier.model.files.sealed_json`).

**The checksum of files** is CRC-32C over pieces of 1 MiB. Measured on 200 MB in one process: CRC-32C 11 GB/s, SHA-256
1.8 GB/s, BLAKE2b 1.2 GB/s, `cp` and a sync of the same file 0.7 to 2.6 GB/s: it is the one whose cost disappears behind
the disk's. A CRC of 32 bits is enough against accidents because a piece is short: in 1 MiB (2^23 bits) CRC-32C finds
every error of up to 3 bits and every burst of up to 32, and lets one of 2^32 others pass; a flipped byte is always
found. And with pieces a refusal names the place. It is no protection against somebody who *wants* to change a snapshot:
who may write to the store is trusted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import google_crc32c

from log_tier.model.errors import SnapshotDamaged
from log_tier.model.files.sealed_json import SealedKind
from log_tier.model.identifiers import (
    NOTHING,
    PARTITIONS_MAX,
    Offset,
    Partition,
    PartitionId,
    TableId,
    partition_id,
    table_id_to_bytes,
)
from serving_tier.names import INDEX_FILES, snapshot_path

__all__ = [
    "MANIFEST_BYTES_MAX",
    "PIECE_BYTES",
    "SNAPSHOT_FORMAT_VERSION",
    "SnapshotFile",
    "SnapshotManifest",
    "format_manifest",
    "parse_manifest",
]

SNAPSHOT_FORMAT: Final = "duramen-snapshot"
SNAPSHOT_FORMAT_VERSION: Final = 1

# Long enough that a read or write of one is efficient, short enough for the CRC; and a quarter of gRPC's limit for a
# message, so that a peer's copy travels in pieces too.
PIECE_BYTES: Final = 1 << 20

# An index of 60 GiB, the most that a partition can have, needs 61,440 pieces of 8 digits: 480 KiB.
MANIFEST_BYTES_MAX: Final = 1 << 20

_KIND: Final = SealedKind(
    SNAPSHOT_FORMAT,
    SNAPSHOT_FORMAT_VERSION,
    bytes_max=MANIFEST_BYTES_MAX,
    damage=SnapshotDamaged,
    remedy="use another snapshot",
    upgrade="install it with the Duramen that took it, or a newer one",
)


@dataclass(frozen=True, slots=True)
class SnapshotFile:
    """One file of a snapshot."""

    name: str
    size: int
    """Bytes."""
    pieces: tuple[int, ...]
    """The CRC-32C of each `PIECE_BYTES` of it, in order; the last piece is shorter."""

    def check_piece(self, position: int, piece: bytes, where: str) -> None:
        """Raise `SnapshotDamaged` where the piece at a multiple of `PIECE_BYTES` is not what it was. `where`: which
        file, for people. 0.1 ms for a whole piece.
        """
        if position + len(piece) > self.size:
            raise SnapshotDamaged(
                f"{where} has {position + len(piece)} bytes or more, the manifest says {self.size}: "
                "use another snapshot",
                file=where,
            )
        self._check_checksum(position, len(piece), google_crc32c.value(piece), where)

    def check_received(self, received: SnapshotFile, where: str) -> None:
        """Raise `SnapshotDamaged` where what came of the file is not what it was."""
        self.check_size(received.size, where)
        for number, found in enumerate(received.pieces):
            position = number * PIECE_BYTES
            self._check_checksum(position, min(PIECE_BYTES, self.size - position), found, where)

    def _check_checksum(self, position: int, length: int, found: int, where: str) -> None:
        said = self.pieces[position // PIECE_BYTES]
        if found != said:
            raise SnapshotDamaged(
                f"{where}: bytes {position} to {position + length - 1} have the checksum {found:08x}, the manifest "
                f"says {said:08x}: use another snapshot",
                file=where,
                position=position,
            )

    def check_size(self, size: int, where: str) -> None:
        """Raise `SnapshotDamaged` where the file is shorter or longer than it was."""
        if size != self.size:
            raise SnapshotDamaged(
                f"{where} has {size} bytes, the manifest says {self.size}: use another snapshot", file=where
            )


@dataclass(frozen=True, slots=True)
class SnapshotManifest:
    """The manifest of one snapshot."""

    id: str
    """Random; hex digits."""
    table: TableId
    table_name: str
    """The name at that time, for people; the id is what counts."""
    partition: Partition
    offset: Offset
    """The last offset that it holds; `NOTHING` for an index into which nothing was folded."""
    log_time_ms: int
    """The partition's log time at that offset."""
    keys: int
    """Entries, expired ones that were not yet removed included."""
    index_version: int
    """The index's format version."""
    created_ms: int
    """By the clock of the node that took it: for people, decides nothing."""
    files: tuple[SnapshotFile, ...]
    digest: str = ""
    """`Index.digest()` of the content, where it was asked for."""

    @property
    def bytes(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)

    @property
    def partition_id(self) -> PartitionId:
        """The partition whose index the snapshot holds."""
        return partition_id(self.table, self.partition)

    @property
    def path(self) -> str:
        """The snapshot's folder below the store's root. Sorted by name is sorted by offset."""
        return snapshot_path(self.partition_id, self.offset, self.id)

    def __str__(self) -> str:
        return f"snapshot {self.id} of {self.table_name}/{self.partition} at {self.offset}"


def format_manifest(manifest: SnapshotManifest) -> bytes:
    """The manifest's text, ASCII."""
    return _KIND.write(
        {
            "id": manifest.id,
            "table": manifest.table,
            "table_name": manifest.table_name,
            "partition": manifest.partition,
            "offset": manifest.offset,
            "log_time_ms": manifest.log_time_ms,
            "keys": manifest.keys,
            "index_version": manifest.index_version,
            "created_ms": manifest.created_ms,
            "digest": manifest.digest,
            "piece_bytes": PIECE_BYTES,
            "files": [
                {"name": file.name, "bytes": file.size, "crc32c": "".join(f"{piece:08x}" for piece in file.pieces)}
                for file in manifest.files
            ],
        }
    )


def parse_manifest(data: bytes, where: str) -> SnapshotManifest:
    """Read a manifest. `where`: which file, for people.

    Raises `UnknownFormat` for one of a newer version, `SnapshotDamaged` for whatever else is not exactly a manifest.
    """
    return _KIND.read(data, where, _manifest_of, format_manifest)


def _manifest_of(document: dict[str, Any]) -> SnapshotManifest:
    """The manifest of a document whose checksum holds. Raises for whatever does not fit."""
    for name in ("partition", "offset", "log_time_ms", "keys", "index_version", "created_ms", "piece_bytes"):
        if type(document[name]) is not int:
            raise ValueError(f"{name} is {document[name]!r}")
    for name in ("id", "table", "table_name", "digest"):
        if type(document[name]) is not str:
            raise ValueError(f"{name} is {document[name]!r}")
    if not document["id"].isalnum():
        raise ValueError(f"id is {document['id']!r}")
    if document["offset"] < NOTHING or not 0 <= document["partition"] < PARTITIONS_MAX:
        raise ValueError(f"partition {document['partition']}, offset {document['offset']}")
    table_id_to_bytes(TableId(document["table"]))
    files = tuple(map(_file_of, document["files"]))
    if document["piece_bytes"] != PIECE_BYTES or tuple(file.name for file in files) != INDEX_FILES:
        raise ValueError(f"pieces of {document['piece_bytes']} bytes, files {[file.name for file in files]}")
    return SnapshotManifest(
        id=document["id"],
        table=TableId(document["table"]),
        table_name=document["table_name"],
        partition=Partition(document["partition"]),
        offset=Offset(document["offset"]),
        log_time_ms=document["log_time_ms"],
        keys=document["keys"],
        index_version=document["index_version"],
        created_ms=document["created_ms"],
        digest=document["digest"],
        files=files,
    )


def _file_of(document: dict[str, Any]) -> SnapshotFile:
    name, size, digits = document["name"], document["bytes"], document["crc32c"]
    pieces = tuple(int(digits[at : at + 8], 16) for at in range(0, len(digits), 8))
    if type(size) is not int or len(digits) % 8 or len(pieces) != -(-size // PIECE_BYTES):
        raise ValueError(f"file {name!r} of {size!r} bytes has {len(digits)} digits of checksums")
    return SnapshotFile(name, size, pieces)
