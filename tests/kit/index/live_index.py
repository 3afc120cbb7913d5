"""A live index with its log, for tests of snapshots: it can be filled, and asked what it should hold."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kit.log.stored_log import PARTITION, TABLE, StoredLog, put
from log_tier.model.identifiers import Offset, Partition, PartitionId, TableId
from serving_tier.index.lmdb.lmdb_index import LmdbIndex
from serving_tier.index.memory_index import MemoryIndex
from serving_tier.snapshots import SnapshotManifest


class LiveIndex:
    """`reading` is what `Replica.reading` is."""

    def __init__(self, folder: Path, *, table: TableId = TABLE, partition: Partition = PARTITION) -> None:
        self.folder = folder
        self.log = StoredLog()
        self.index = LmdbIndex.open(folder, partition=PartitionId(table, partition))
        self.readers = 0
        self._random = random.Random(7)

    def fill(self, records: int, *, a_batch: int = 500, value_bytes: int = 100) -> None:
        """Apply that many puts of random keys; some values are longer than a page."""
        for begin in range(0, records, a_batch):
            batch = [
                put(b"key-%06d" % self._random.randrange(10**6), self._random.randbytes(value_bytes))
                for _ in range(min(a_batch, records - begin))
            ]
            batch.append(put(b"large-%d" % self._random.randrange(20), self._random.randbytes(9000)))
            self.index.apply(self.log.append(*batch))

    @contextmanager
    def reading(self) -> Iterator[LmdbIndex]:
        self.readers += 1
        try:
            yield self.index
        finally:
            self.readers -= 1

    def digest_at(self, offset: Offset) -> str:
        """What a fresh fold of the log up to `offset`, the end of a batch, comes to."""
        model = MemoryIndex()
        for batch in self.log.batches:
            if model.applied >= offset:
                break
            model.apply(batch)
        assert model.applied == offset, f"{offset} is no end of a batch"
        return model.digest()

    def close(self) -> None:
        self.index.close()


def digest_of_folder(folder: Path, *, table: TableId = TABLE, partition: Partition = PARTITION) -> tuple[Offset, str]:
    """Open an index folder as a replica does, and return its applied offset and its content."""
    index = LmdbIndex.open(folder, partition=PartitionId(table, partition))
    try:
        return index.applied, index.digest()
    finally:
        index.close()


def stored_file(root: Path, manifest: SnapshotManifest, name: str) -> Path:
    """A file of a snapshot in a folder's store."""
    return root / manifest.path / name


def flip(path: Path, position: int, bits: int = 0x01) -> None:
    """Flip bits of one byte, in a file of its own (a store may share it with somebody)."""
    data = bytearray(path.read_bytes())
    data[position] ^= bits
    path.unlink()
    path.write_bytes(data)


def files_below(root: Path) -> list[str]:
    """Names of all files."""
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())
