"""What a folder with a closed copy of an index holds: its files' checksums, and what the index says about itself."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import google_crc32c
import lmdb

from log_tier.concurrency.threads import Stop
from log_tier.model.barrier import LiveVersion
from log_tier.model.errors import IndexDamaged, SnapshotDamaged
from log_tier.model.identifiers import PartitionId
from serving_tier.index.lmdb.environment import Databases, refusal_of_system
from serving_tier.index.lmdb.folder import check_length, folder_trouble
from serving_tier.index.lmdb.format import (
    IDENTITY,
    LIVE,
    STATE,
    VERSION,
    State,
    unpack_identity,
    unpack_live,
    unpack_version,
)
from serving_tier.index.lmdb.identity import check_format
from serving_tier.index.scan import digest_of
from serving_tier.names import DATA_FILE
from serving_tier.snapshots.manifest import PIECE_BYTES, SnapshotFile, SnapshotManifest
from serving_tier.snapshots.page_check import PageCheck

__all__ = ["Contents", "FileCheck", "FileReceipt", "check_contents", "describe_file", "pieces_of", "read_contents"]

_DATABASES_MAX: Final = len(Databases._fields)


class Contents(NamedTuple):
    """The identity, state, number of keys, digest and version that a copied index states about itself."""

    index_version: int
    partition: PartitionId
    state: State
    keys: int
    digest: str
    version: int
    """Which version of the table it is."""
    live: LiveVersion
    """The last barrier that it holds."""


def pieces_of(file: Any, stop: Stop) -> Iterator[bytes]:
    """A file's pieces of `PIECE_BYTES`; after a short read of a stream, the rest of the piece is read."""
    while True:
        stop.check()
        piece = file.read(PIECE_BYTES)
        while 0 < len(piece) < PIECE_BYTES and (more := file.read(PIECE_BYTES - len(piece))):
            piece += more
            stop.check()
        if not piece:
            return
        yield piece


class FileCheck:
    """The check that every received file passes: its pieces in order, then `finish()`. Both raise `SnapshotDamaged`
    where it is not what the manifest says, and, with `structure`, not what LMDB may open.

    `where` names the file, for people. Some 0.3 ms for each MiB, most of it for the structure.
    """

    def __init__(self, file: SnapshotFile, where: str, *, structure: bool = True) -> None:
        self._file, self._where = file, where
        self._position = 0
        self._pages = PageCheck(where) if structure and file.name == DATA_FILE else None

    def feed(self, piece: bytes) -> None:
        """The next `PIECE_BYTES`; the last piece may be shorter."""
        self._file.check_piece(self._position, piece, self._where)
        if self._pages is not None:
            self._pages.feed(piece)
        self._position += len(piece)

    def finish(self) -> None:
        """The file has ended."""
        self._file.check_size(self._position, self._where)
        if self._pages is not None:
            self._pages.finish()


class FileReceipt:
    """What is learned of a file while its pieces pass: size, checksums, and with `structure` whether LMDB may open it.

    `feed` and `finish` raise `SnapshotDamaged` where the structure is not that of a copy. `where` names the file, for
    people.
    """

    def __init__(self, name: str, where: str, *, structure: bool = True) -> None:
        self._name, self._where = name, where
        self._checksums: list[int] = []
        self._pages = PageCheck(where) if structure and name == DATA_FILE else None
        self.size = 0
        """Bytes so far."""

    def feed(self, piece: bytes) -> None:
        """The next `PIECE_BYTES`; the last piece may be shorter. Raises `SnapshotDamaged` for a piece after that."""
        if self.size % PIECE_BYTES or len(piece) > PIECE_BYTES:
            raise SnapshotDamaged(f"{self._where} comes in pieces that are none: use another source", file=self._where)
        self._checksums.append(google_crc32c.value(piece))
        self.size += len(piece)
        if self._pages is not None:
            self._pages.feed(piece)

    def finish(self) -> SnapshotFile:
        """The file has ended; this is what came."""
        if self._pages is not None:
            self._pages.finish()
        return SnapshotFile(self._name, self.size, tuple(self._checksums))


def describe_file(name: str, pieces: Iterable[bytes], where: str, *, structure: bool = True) -> SnapshotFile:
    """Checksums and size of a file from its pieces; with `structure` LMDB's structure is checked on the way.

    Raises `SnapshotDamaged` where that is not the structure of a copy.
    """
    receipt = FileReceipt(name, where, structure=structure)
    for piece in pieces:
        receipt.feed(piece)
    return receipt.finish()


def read_contents(folder: Path, *, digest: bool = False) -> Contents:
    """Open a copy, which must have been checked, and read its identity and state. A ms; with `digest` 1 µs a key.

    Raises `SnapshotDamaged` where those cannot be read, `UnknownFormat` for an index of a newer format, and
    `refusal_of_system`'s error if the system refused.
    """
    try:
        check_length(folder)
        with lmdb.open(str(folder), max_dbs=_DATABASES_MAX, readonly=True, lock=False) as env:
            meta = env.open_db(b"meta", create=False)
            data = env.open_db(b"data", create=False)
            with env.begin() as txn:
                version, partition = unpack_identity(txn.get(IDENTITY, db=meta) or b"")
                check_format(version, folder)
                state = State.unpack(txn.get(STATE, db=meta) or b"")
                keys = int(txn.stat(data)["entries"])
                table_version, live = unpack_version(txn.get(VERSION, db=meta)), unpack_live(txn.get(LIVE, db=meta))
                said = digest_of(txn.cursor(data).iternext(), log_time_ms=state.log_time_ms) if digest else ""
    except IndexDamaged as error:
        raise SnapshotDamaged(f"{error.message}: use another snapshot", file=str(folder)) from error
    except OSError as error:
        raise folder_trouble(error, folder) from error
    except (lmdb.Error, struct.error) as error:
        refusal = refusal_of_system(error, folder) if isinstance(error, lmdb.Error) else None
        if refusal is not None:
            raise refusal from error
        raise SnapshotDamaged(
            f"{folder / DATA_FILE} does not say what it is ({error}): use another snapshot", file=str(folder)
        ) from error
    return Contents(version, partition, state, keys, said, table_version, live)


def check_contents(contents: Contents, manifest: SnapshotManifest, where: str) -> None:
    """Raise `SnapshotDamaged` if an index is not the one that its manifest describes."""
    inside = {
        "index format": contents.index_version,
        "partition": contents.partition,
        "applied offset": contents.state.applied,
        "log time": contents.state.log_time_ms,
        "number of keys": contents.keys,
    }
    outside = {
        "index format": manifest.index_version,
        "partition": manifest.partition_id,
        "applied offset": manifest.offset,
        "log time": manifest.log_time_ms,
        "number of keys": manifest.keys,
    }
    for what, said in outside.items():
        if inside[what] != said:
            raise SnapshotDamaged(
                f"{where}: the {what} in the manifest is {said}, in the index it is {inside[what]}: "
                "use another snapshot",
                file=where,
            )
