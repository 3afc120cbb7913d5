"""The manifest of a version: one generation of a table's content, a snapshot for each partition. Pure.

    {"format": "duramen-version", "version": 1, "id": …, …, "parts": […], "check": "9a71c0f2"}

`docs/FORMATS.md` specifies every field. The text is exact (`log_tier.model.files.sealed_json`). Each part
carries the CRC-32C of its snapshot's manifest, and that one those of its files: so a version manifest vouches for every
byte below it, and a snapshot that was put in the place of another is noticed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import google_crc32c

from log_tier.model.errors import SnapshotDamaged
from log_tier.model.files.sealed_json import SealedKind
from log_tier.model.identifiers import (
    PARTITIONS_MAX,
    Offset,
    PartitionId,
    TableId,
    partition_id,
    table_id_to_bytes,
)
from log_tier.model.partitioner import Partitioner, check_partitioner
from serving_tier.snapshots.manifest import SnapshotManifest, format_manifest

__all__ = [
    "VERSION_BYTES_MAX",
    "VERSION_FORMAT_VERSION",
    "VersionManifest",
    "VersionPart",
    "format_version",
    "parse_version",
    "part_of",
]

VERSION_FORMAT: Final = "duramen-version"
VERSION_FORMAT_VERSION: Final = 1

# A part is some 250 bytes; a table has at most 1,024 of them.
VERSION_BYTES_MAX: Final = 1 << 20

_KIND: Final = SealedKind(
    VERSION_FORMAT,
    VERSION_FORMAT_VERSION,
    bytes_max=VERSION_BYTES_MAX,
    damage=SnapshotDamaged,
    remedy="build the version again",
    upgrade="stage it with the Duramen that built it, or a newer one",
)


@dataclass(frozen=True, slots=True)
class VersionPart:
    """One partition of a version."""

    path: str
    """Its snapshot's folder below the URL: `SnapshotManifest.path`."""
    offset: Offset
    """The log goes on behind it: the record after this one is the first that is replayed onto the part. At least 0."""
    log_time_ms: int
    """The partition's log time at that offset."""
    keys: int
    bytes: int
    """The sum of its files."""
    check: int
    """The CRC-32C of its snapshot's manifest, the very bytes of that."""


@dataclass(frozen=True, slots=True)
class VersionManifest:
    """The manifest of one version of a table."""

    id: str
    """Random; hex digits."""
    table: TableId
    """The table that it was made for: no other one takes it."""
    table_name: str
    """The name at that time, for people; the id is what counts."""
    partitions: int
    partitioner: Partitioner
    """With `partitions` it says where each key is. Both are the table's: a version of another cut is never served."""
    created_ms: int
    """By the clock of the process that made it: for people, decides nothing."""
    source: str
    """The source of the build, for people."""
    parts: tuple[VersionPart, ...]
    """One part for each partition, in their order."""

    @property
    def keys(self) -> int:
        """Entries in all partitions, expired ones included."""
        return sum(part.keys for part in self.parts)

    @property
    def bytes(self) -> int:
        """The sum of all files."""
        return sum(part.bytes for part in self.parts)

    def __str__(self) -> str:
        return f"version {self.id} of {self.table_name}"


def part_of(manifest: SnapshotManifest) -> VersionPart:
    """What a version says about a snapshot that is one of its parts."""
    return VersionPart(
        path=manifest.path,
        offset=manifest.offset,
        log_time_ms=manifest.log_time_ms,
        keys=manifest.keys,
        bytes=manifest.bytes,
        check=google_crc32c.value(format_manifest(manifest)),
    )


def format_version(manifest: VersionManifest) -> bytes:
    """The manifest's text, ASCII."""
    assert len(manifest.parts) == manifest.partitions, f"{len(manifest.parts)} parts of {manifest.partitions}"
    return _KIND.write(
        {
            "id": manifest.id,
            "table": manifest.table,
            "table_name": manifest.table_name,
            "partitions": manifest.partitions,
            "partitioner": manifest.partitioner,
            "created_ms": manifest.created_ms,
            "source": manifest.source,
            "parts": [
                {
                    "path": part.path,
                    "offset": part.offset,
                    "log_time_ms": part.log_time_ms,
                    "keys": part.keys,
                    "bytes": part.bytes,
                    "check": f"{part.check:08x}",
                }
                for part in manifest.parts
            ],
        }
    )


def parse_version(data: bytes, where: str) -> VersionManifest:
    """Read a manifest. `where`: which file, for people.

    Raises `UnknownFormat` for one of a newer format version, `SnapshotDamaged` for whatever else is not exactly a
    version's manifest.
    """
    return _KIND.read(data, where, _manifest_of, format_version)


def _manifest_of(document: dict[str, Any]) -> VersionManifest:
    """The manifest of a document whose checksum holds. Raises for whatever does not fit."""
    for name in ("partitions", "created_ms"):
        if type(document[name]) is not int:
            raise ValueError(f"{name} is {document[name]!r}")
    for name in ("id", "table", "table_name", "partitioner", "source"):
        if type(document[name]) is not str:
            raise ValueError(f"{name} is {document[name]!r}")
    if not document["id"].isalnum():
        raise ValueError(f"id is {document['id']!r}")
    table, partitions = TableId(document["table"]), document["partitions"]
    table_id_to_bytes(table)
    if not 0 < partitions <= PARTITIONS_MAX or len(document["parts"]) != partitions:
        raise ValueError(f"{len(document['parts'])} parts of {partitions} partitions")
    return VersionManifest(
        id=document["id"],
        table=table,
        table_name=document["table_name"],
        partitions=partitions,
        partitioner=check_partitioner(document["partitioner"]),
        created_ms=document["created_ms"],
        source=document["source"],
        parts=tuple(_part_of(part, partition_id(table, number)) for number, part in enumerate(document["parts"])),
    )


def _part_of(document: dict[str, Any], partition: PartitionId) -> VersionPart:
    for name in ("offset", "log_time_ms", "keys", "bytes"):
        if type(document[name]) is not int or document[name] < 0:
            raise ValueError(f"{name} of {partition} is {document[name]!r}")
    path, offset = document["path"], Offset(document["offset"])
    stem = f"{partition}/{offset:020d}-"
    if type(path) is not str or not path.startswith(stem) or not path.removeprefix(stem).isalnum():
        raise ValueError(f"{partition} at offset {offset} lies at {path!r}")
    return VersionPart(
        path=path,
        offset=offset,
        log_time_ms=document["log_time_ms"],
        keys=document["keys"],
        bytes=document["bytes"],
        check=int(document["check"], 16),
    )
