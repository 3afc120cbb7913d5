"""RocksDB through rocksdict, bytes to bytes."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rocksdict import BlockBasedOptions, Cache, Options, Rdict, WriteBatch, WriteOptions

__all__ = ["Rocksdict"]


class Rocksdict:
    """Raw mode (no type bytes), a block cache that holds everything, bloom filters, compacted after loading."""

    def __init__(self) -> None:
        self.version = f"rocksdict {version('rocksdict')}"
        self.note = "raw mode, bloom filters, 512 MiB block cache, compacted after loading"
        self._store: Any = None

    def open(self, folder: Path) -> None:
        blocks = BlockBasedOptions()
        blocks.set_block_cache(Cache(512 << 20))
        blocks.set_bloom_filter(10, False)
        options = Options(raw_mode=True)
        options.create_if_missing(True)
        options.set_block_based_table_factory(blocks)
        self._store = Rdict(str(folder / "rocks"), options)

    def load(self, pairs: Sequence[tuple[bytes, bytes]]) -> None:
        synced = WriteOptions()
        synced.sync = True
        batch = WriteBatch(raw_mode=True)
        for key, value in pairs:
            batch.put(key, value)
        self._store.write(batch, synced)
        self._store.flush()
        self._store.compact_range(None, None)

    def get(self, key: bytes) -> bytes | None:
        value: bytes | None = self._store.get(key)
        return value

    def close(self) -> None:
        if self._store is not None:
            self._store.close()
