"""An index that another process of this machine writes, read here.

LMDB's readers need no lock, whichever process they are in: each read sees the last transaction that the writer has
committed, with its applied offset. So one writer, the replica's process, and many reader processes can share the file
and nothing else, and each reader has a core of its own.

    R1  A read sees the index at one applied offset, at least as new as everything that the writer has shown.
    R2  A reader takes no part in who owns the folder: it neither marks it nor syncs it, and where the writer discards
        the folder, it goes on seeing the last committed state. Its owner learns by other means (the freshness page)
        that the replica has another index.
    R3  Between its reads a reader keeps no page of the writer's alive.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Self

import lmdb

from log_tier.model.errors import IndexDamaged
from log_tier.model.identifiers import Offset, PartitionId
from serving_tier.index.lmdb.environment import MAP_BYTES_MAX, open_environment
from serving_tier.index.lmdb.folder import check_length
from serving_tier.index.lmdb.format import APPLIED_OF, STATE, State
from serving_tier.index.lmdb.lmdb_reads import LmdbReads, closed
from serving_tier.names import DATA_FILE

__all__ = ["IndexReader"]


class IndexReader(LmdbReads):
    """The reads of an index. `open()` makes one, `close()` ends it; used by one thread."""

    @classmethod
    def open(cls, path: Path, *, partition: PartitionId, map_bytes: int = MAP_BYTES_MAX) -> Self:
        """Open the index in the folder `path`, open at its writer or at rest. Up to 1 ms, whatever its size.

        Raises `IndexDamaged` where there is none, or another one, `OSError` where the disk refuses a read.
        """
        if not (path / DATA_FILE).exists():
            raise IndexDamaged(f"{path} holds no index", file=str(path))
        check_length(path)
        try:
            env, databases = open_environment(path, map_bytes=map_bytes, reads_only=True)
        except lmdb.Error as error:
            raise IndexDamaged(f"{path} cannot be read: {error}", file=str(path)) from error
        reader = cls(env, databases, path, map_bytes=map_bytes)
        try:
            found = reader.identity()
        except (struct.error, TypeError):
            found = None
        if found != partition:
            reader.close()
            raise IndexDamaged(f"{path} is the index of {found}, not of {partition}", file=str(path))
        return reader

    def _state(self) -> State:
        try:
            return State.unpack(self._begin(self._meta).get(STATE))
        except lmdb.Error as error:
            self._refuse_read(error)

    @property
    def applied(self) -> Offset:
        """The last offset that was folded: what is read after this holds it. 0.7 µs."""
        return self._state().applied

    @property
    def log_time_ms(self) -> int:
        """The largest timestamp that was folded. 0.7 µs."""
        return self._state().log_time_ms

    def stored_at(self, key: bytes) -> tuple[Offset, bytes | None]:
        """The last offset that was folded, and the stored form of one entry at that offset, expired or not. 0.6 µs."""
        try:
            txn = self._begin(self._data)
            return APPLIED_OF(txn.get(STATE, None, self._meta))[0], txn.get(key)
        except lmdb.Error as error:
            self._refuse_read(error)

    def close(self) -> None:
        """Close the file. Idempotent. No read may be running."""
        if self._begin is not closed:
            self._begin = closed
            self._env.close()
