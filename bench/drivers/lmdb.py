"""A floor: LMDB itself, with nothing around it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import lmdb

from bench.data import chunks

__all__ = ["MAP_BYTES", "Lmdb"]

MAP_BYTES: Final = 16 << 30
"""Address space, not disk: more than the largest workload (10 M records) needs."""


class Lmdb:
    """`with env.begin() as txn: txn.get(key)`: what an embedded get costs at least, in Python."""

    def __init__(self) -> None:
        self.version = f"py-lmdb {lmdb.__version__}, LMDB {'.'.join(map(str, lmdb.version()))}"
        self.note = "one read transaction per get"

    def open(self, folder: Path) -> None:
        self._environment = lmdb.open(str(folder / "lmdb"), map_size=MAP_BYTES, sync=False, metasync=False)

    def load(self, pairs: Sequence[tuple[bytes, bytes]]) -> None:
        for chunk in chunks(list(pairs), 10_000):
            with self._environment.begin(write=True) as transaction:
                transaction.cursor().putmulti(chunk)
        self._environment.sync(True)

    def get(self, key: bytes) -> bytes | None:
        with self._environment.begin() as transaction:
            value: bytes | None = transaction.get(key)
            return value

    def close(self) -> None:
        self._environment.close()
