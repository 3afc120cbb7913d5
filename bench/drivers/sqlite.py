"""SQLite as an embedded key-value store: one table, WAL, synchronous=FULL."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path

__all__ = ["Sqlite"]


class Sqlite:
    """`SELECT value FROM pairs WHERE key = ?`, each statement its own read transaction; statements are cached.

    The table is WITHOUT ROWID (one tree instead of two) and the whole file is memory-mapped.
    """

    def __init__(self) -> None:
        self.version = f"SQLite {sqlite3.sqlite_version}"
        self.note = "WAL, synchronous=FULL, WITHOUT ROWID, mmap"

    def open(self, folder: Path) -> None:
        # Autocommit: no transaction is opened behind our back.
        self._connection = sqlite3.connect(folder / "pairs.sqlite", isolation_level=None)
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "mmap_size=4294967296", "cache_size=-65536"):
            self._connection.execute(f"PRAGMA {pragma}")
        self._connection.execute("CREATE TABLE IF NOT EXISTS pairs (key BLOB PRIMARY KEY, value BLOB) WITHOUT ROWID")
        self._execute = self._connection.execute

    def load(self, pairs: Sequence[tuple[bytes, bytes]]) -> None:
        self._connection.execute("BEGIN")
        self._connection.executemany("INSERT OR REPLACE INTO pairs VALUES (?, ?)", pairs)
        self._connection.execute("COMMIT")
        # Into the file itself: readers then need not look into the log first.
        self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def get(self, key: bytes) -> bytes | None:
        row = self._execute("SELECT value FROM pairs WHERE key = ?", (key,)).fetchone()
        return None if row is None else row[0]

    def close(self) -> None:
        self._connection.close()
