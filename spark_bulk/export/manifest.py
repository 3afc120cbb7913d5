"""The manifest of an export: what it holds, from where to where, and its files. Pure.

    {"format": "duramen-export", "version": 1, "kind": "changes", …, "files": […], "check": "9a71c0f2"}

`docs/FORMATS.md` specifies every field. The text is exact (`log_tier.model.files.sealed_json`). The files are Parquet,
which has checksums of its own by choice; their sizes and rows are listed here. `checksums` says of each partition which
rows were written, in whatever order and files (`row_checksum.py`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

from log_tier.model.errors import Damaged
from log_tier.model.files.sealed_json import SealedKind
from log_tier.model.identifiers import NOTHING, PARTITIONS_MAX, Offset, Partition, TableId, table_id_to_bytes
from log_tier.model.tokens import Token

__all__ = [
    "EXPORT_BYTES_MAX",
    "EXPORT_FORMAT_VERSION",
    "ExportFile",
    "ExportKind",
    "ExportManifest",
    "format_export",
    "parse_export",
]

EXPORT_FORMAT: Final = "duramen-export"
EXPORT_FORMAT_VERSION: Final = 1

# A file is some 200 bytes, and there is at most one for each of 1,024 partitions.
EXPORT_BYTES_MAX: Final = 1 << 20

ExportKind = Literal["table", "changes"]

_KINDS: Final = get_args(ExportKind)

_CHECKSUM: Final = re.compile(r"[0-9a-f]{16}", re.ASCII)

_KIND: Final = SealedKind(
    EXPORT_FORMAT,
    EXPORT_FORMAT_VERSION,
    bytes_max=EXPORT_BYTES_MAX,
    damage=Damaged,
    remedy="export to another place, or remove this export",
    upgrade="go on with the Duramen that wrote it, or a newer one",
)


@dataclass(frozen=True, slots=True)
class ExportFile:
    """One Parquet file."""

    path: str
    """Below the export's folder."""
    partition: Partition
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class ExportManifest:
    """The manifest of one export."""

    id: str
    """Random; hex digits."""
    number: int
    """Exports at one place are numbered from 0."""
    kind: ExportKind
    """The content of a table, or the changes of a range of its log."""
    table: TableId
    table_name: str
    """The name at that time, for people."""
    partitions: int
    after: tuple[Offset, ...]
    """By partition: changes begin behind this offset; of a table's content, `NOTHING`."""
    until: tuple[Offset, ...]
    """By partition: the last offset whose effect, or which itself, is in the export."""
    created_ms: int
    """By the clock of the process that made it: for people, decides nothing."""
    columns: str
    """The files' columns, as Spark's DDL."""
    files: tuple[ExportFile, ...]
    """Partitions without rows have none."""
    checksums: tuple[int, ...] | None = None
    """By partition: the checksum over its rows; None in one that was written by a version that made none."""

    @property
    def rows(self) -> int:
        """Rows of all files."""
        return sum(file.rows for file in self.files)

    @property
    def bytes(self) -> int:
        """The sum of all files."""
        return sum(file.bytes for file in self.files)

    @property
    def folder(self) -> str:
        """The export's folder below the place. Sorted by name is sorted by number."""
        return f"{self.number:06d}-{self.id}"

    @property
    def token(self) -> str:
        """What it goes up to: the next one begins behind it."""
        return str(Token({self.table: {Partition(each): offset for each, offset in enumerate(self.until)}}))

    def __str__(self) -> str:
        return f"export {self.number} of {self.table_name} ({self.kind})"


def format_export(manifest: ExportManifest) -> bytes:
    """The manifest's text, ASCII."""
    assert len(manifest.after) == len(manifest.until) == manifest.partitions, f"{manifest} has other partitions"
    checksums = {} if manifest.checksums is None else {"checksums": [f"{each:016x}" for each in manifest.checksums]}
    return _KIND.write(
        {
            "id": manifest.id,
            "number": manifest.number,
            "kind": manifest.kind,
            "table": manifest.table,
            "table_name": manifest.table_name,
            "partitions": manifest.partitions,
            "token": manifest.token,
            "after": list(manifest.after),
            "until": list(manifest.until),
            "created_ms": manifest.created_ms,
            "columns": manifest.columns,
            "rows": manifest.rows,
            "files": [
                {"path": file.path, "partition": file.partition, "rows": file.rows, "bytes": file.bytes}
                for file in manifest.files
            ],
            **checksums,
        }
    )


def parse_export(data: bytes, where: str) -> ExportManifest:
    """Read a manifest. `where`: which file, for people.

    Raises `UnknownFormat` for one of a newer version, `Damaged` for whatever else is not exactly a manifest.
    """
    return _KIND.read(data, where, _manifest_of, format_export)


def _manifest_of(document: dict[str, Any]) -> ExportManifest:
    for name in ("number", "partitions", "created_ms"):
        if type(document[name]) is not int or document[name] < 0:
            raise ValueError(f"{name} is {document[name]!r}")
    for name in ("id", "kind", "table", "table_name", "columns"):
        if type(document[name]) is not str:
            raise ValueError(f"{name} is {document[name]!r}")
    if not document["id"].isalnum() or document["kind"] not in _KINDS:
        raise ValueError(f"id is {document['id']!r}, kind {document['kind']!r}")
    table_id_to_bytes(TableId(document["table"]))
    partitions = document["partitions"]
    after, until = tuple(document["after"]), tuple(document["until"])
    if not 0 < partitions <= PARTITIONS_MAX or len(after) != partitions or len(until) != partitions:
        raise ValueError(f"{partitions} partitions, {len(after)} and {len(until)} offsets")
    if any(type(offset) is not int or offset < NOTHING for offset in (*after, *until)):
        raise ValueError("an offset is none")
    return ExportManifest(
        id=document["id"],
        number=document["number"],
        kind=document["kind"],
        table=TableId(document["table"]),
        table_name=document["table_name"],
        partitions=partitions,
        after=after,
        until=until,
        created_ms=document["created_ms"],
        columns=document["columns"],
        files=tuple(_file_of(file, partitions) for file in document["files"]),
        checksums=_checksums_of(document.get("checksums"), partitions),
    )


def _checksums_of(listed: Any, partitions: int) -> tuple[int, ...] | None:
    if listed is None:
        return None
    if type(listed) is not list or len(listed) != partitions:
        raise ValueError(f"the checksums of {partitions} partitions are {listed!r}")
    if any(type(each) is not str or not _CHECKSUM.fullmatch(each) for each in listed):
        raise ValueError(f"a checksum of {listed!r} is none")
    return tuple(int(each, 16) for each in listed)


def _file_of(document: dict[str, Any], partitions: int) -> ExportFile:
    path, partition, rows, size = (document[name] for name in ("path", "partition", "rows", "bytes"))
    if any(type(number) is not int or number < 0 for number in (partition, rows, size)) or partition >= partitions:
        raise ValueError(f"file {path!r} of partition {partition!r} has {rows!r} rows, {size!r} bytes")
    stem = f"partition={partition}/"
    if type(path) is not str or not path.startswith(stem) or not path.removeprefix(stem).replace(".", "").isalnum():
        raise ValueError(f"a file of partition {partition} is called {path!r}")
    return ExportFile(path, Partition(partition), rows, size)
