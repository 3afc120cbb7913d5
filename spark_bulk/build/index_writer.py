"""Sorted rows in, one index out: the writer of a bulk build. It knows nothing of Spark.

    open      a folder of its own, an LMDB environment in it
    write     chunk after chunk, keys rising: LMDB puts each row behind the last one, without a search
    finish    the row `state`: from here on it is an index, and not before
    store_index   a compact copy with checksums, as of any live index, into a snapshot store; read back and compared

What comes out is an index at the offset `offset`, as if its rows had been put by the record there: a replica opens it
and folds the log from `offset` + 1 on. Nothing is known of the writes before, so outcomes are known from there on too.

Memory stays flat: transactions are committed after `transaction_bytes`, whatever the chunks are, and in append order
LMDB touches only the rightmost page of each level. The order is checked by LMDB for nothing: with `append` it compares
each key with the last one, and leaves out what is not larger; a count that falls short is looked into.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import repeat
from operator import add
from pathlib import Path
from shutil import rmtree
from struct import pack, unpack
from typing import Any, Final, NamedTuple, Self, TypeAlias

import lmdb
import pyarrow as pa
import pyarrow.compute as pc

from log_tier.concurrency.threads import Progress, in_thread
from log_tier.model.errors import InvalidKey, InvalidRequest, InvalidValue
from log_tier.model.identifiers import FIRST, Offset, PartitionId
from log_tier.model.record import KEY_BYTES_MAX, VALUE_BYTES_MAX
from serving_tier.fold.entry import NEVER, stored_entry
from serving_tier.index.lmdb.environment import MAP_BYTES_MAX, Databases, named_troubles, open_environment
from serving_tier.index.lmdb.folder import claim_folder
from serving_tier.index.lmdb.format import IDENTITY, START, STATE, State, pack_identity, pack_start
from serving_tier.index.lmdb.lmdb_index import LmdbIndex
from serving_tier.index.number_keys import number_key
from serving_tier.names import DATA_FILE
from serving_tier.snapshots.manifest import SnapshotManifest
from serving_tier.snapshots.snapshot_store import SnapshotStore
from serving_tier.snapshots.take import copied_index
from spark_bulk.build.mapped_memory import release_mapping

__all__ = ["Base", "IndexWriter", "RowColumn", "store_index"]

RowColumn: TypeAlias = pa.Array | Sequence[bytes]
"""Keys or values, one for each row: an Arrow array of bytes, or a list."""

# What one transaction holds in memory before it is written. Measured, 1 M rows of 120 B: 6.1 M rows/s with 1 MiB,
# 5.7 with 4, 5.4 with 16: what was just written should still be in the processor's cache.
_TRANSACTION_BYTES: Final = 1 << 20

# How much of the file may be written, or copied, before what this process has mapped of it is given back.
_MAPPED_BYTES: Final = 64 << 20

# Of a key, in messages.
_SHOWN_BYTES: Final = 40


class Base(NamedTuple):
    """An index's position in its partition's log."""

    offset: Offset
    """The last offset that it counts as folded, and the version of its rows. At least 0."""
    log_time_ms: int
    """The partition's log time at that offset."""
    start: Offset = FIRST
    """The first offset of the table; not 0 in a table over a topic of others."""


class IndexWriter:
    """Writes sorted rows into a new LMDB index. `with IndexWriter.open(…) as writer`, `write` …, `finish`."""

    def __init__(
        self, env: Any, databases: Databases, folder: Path, base: Base, *, map_bytes: int, transaction_bytes: int
    ) -> None:
        self._env, self._databases, self._folder, self._map_bytes = env, databases, folder, map_bytes
        self._base, self._transaction_bytes = base, transaction_bytes
        self._header = pack("<Q", base.offset)
        self._data = (folder / DATA_FILE).resolve()
        self._txn: Any = None
        self._pending = self._mapped = 0
        self._last = b""
        self.keys = 0
        """Rows so far."""

    @classmethod
    @contextmanager
    def open(
        cls,
        folder: Path,
        *,
        partition: PartitionId,
        base: Base,
        map_bytes: int = MAP_BYTES_MAX,
        transaction_bytes: int = _TRANSACTION_BYTES,
    ) -> Iterator[Self]:
        """A writer into the new folder `folder`. Left without `finish` it leaves what no index is.

        Raises `DiskFull`, there as in `write` and `finish`.
        """
        assert base.offset >= 0, f"an index of rows has at least offset 0, not {base.offset}"
        assert not folder.exists(), f"{folder} is there"
        claim_folder(folder, partition=partition)
        env, databases = open_environment(folder, map_bytes=map_bytes)
        writer = cls(env, databases, folder, base, map_bytes=map_bytes, transaction_bytes=transaction_bytes)
        try:
            with writer._writing() as txn:
                txn.put(IDENTITY, pack_identity(partition), db=databases.meta)
                if base.start > FIRST:
                    txn.put(START, pack_start(base.start), db=databases.meta)
            # With an identity and no state it is no index, and no new folder either.
            writer._commit()
            yield writer
        finally:
            if writer._txn is not None:
                writer._txn.abort()
            env.close()

    def write(
        self,
        keys: RowColumn,
        values: RowColumn,
        *,
        versions: Sequence[int] | None = None,
        expires_at_ms: Sequence[int] | None = None,
    ) -> None:
        """Append rows; every key is larger than the one before it, as bytes, also across calls.

        `versions`: those of the rows, at most the base's offset, which it is where they are not given.
        `expires_at_ms`: by log time; 0 for never. About 0.16 µs a row.

        Raises `InvalidKey`, `InvalidValue`, or `InvalidRequest` for an order that is none; nothing can be written
        after that.
        """
        count = len(keys)
        assert len(values) == count, f"{count} keys, {len(values)} values"
        if not count:
            return
        assert versions is None or max(versions) <= self._base.offset, f"a version after {self._base.offset}"
        if _longest(values) > VALUE_BYTES_MAX:
            _refuse_value(_listed(keys), _listed(values))
        size = _bytes_of(keys) + _bytes_of(values)
        step = max(1, min(count, count * self._transaction_bytes // max(size, 1)))
        for at in range(0, count, step):
            rows = slice(at, at + step)
            due = expires_at_ms[rows] if expires_at_ms is not None else None
            stored = self._stored(values[rows], versions[rows] if versions is not None else None, due)
            self._append(_listed(keys[rows]), stored, due)
            self._pending += size * step // count
            if self._pending >= self._transaction_bytes:
                self._commit()

    def _append(self, keys: Sequence[bytes], stored: Iterable[bytes], expires_at_ms: Sequence[int] | None) -> None:
        with self._writing() as txn:
            rows = zip(keys, stored, strict=True)
            try:
                _, added = txn.cursor(self._databases.data).putmulti(rows, append=True)
            except lmdb.BadValsizeError:
                _refuse_key(keys)
                raise
            if added != len(keys):
                self._refuse_order(keys)
            if expires_at_ms is not None:
                for key, due in zip(keys, expires_at_ms, strict=True):
                    if due != NEVER:
                        txn.put(number_key(due), key, db=self._databases.expiries)
        self._last = keys[-1]
        self.keys += len(keys)

    def _stored(
        self, values: RowColumn, versions: Sequence[int] | None, expires_at_ms: Sequence[int] | None
    ) -> Iterable[bytes]:
        """The stored forms of entries; in C but for rows that may expire. 26 ns a row of an Arrow column."""
        if expires_at_ms is not None:
            return map(stored_entry, _listed(values), versions or repeat(self._base.offset), expires_at_ms)
        if versions is not None:
            count = len(versions)
            return map(add, unpack("8s" * count, pack(f"<{count}Q", *versions)), _listed(values))
        if isinstance(values, pa.Array):
            header, nothing = pa.scalar(self._header, values.type), pa.scalar(b"", values.type)
            return _listed(pc.binary_join_element_wise(header, values, nothing))
        return map(add, repeat(self._header), values)

    @contextmanager
    def _writing(self) -> Iterator[Any]:
        """The open transaction, or the next one."""
        with named_troubles(self._folder, self._map_bytes):
            if self._txn is None:
                self._txn = self._env.begin(write=True)
            yield self._txn

    def _commit(self) -> None:
        txn, self._txn = self._txn, None
        with named_troubles(self._folder, self._map_bytes):
            txn.commit()
        self._mapped, self._pending = self._mapped + self._pending, 0
        if self._mapped >= _MAPPED_BYTES:
            release_mapping(self._data)
            self._mapped = 0

    def _refuse_order(self, keys: Sequence[bytes]) -> None:
        """Name the first key that is not larger than the one before it."""
        before = self._last
        for key in keys:
            if key == before:
                raise InvalidRequest(f"the key {_shown(key)} comes twice: keep one row of each key")
            if key < before:
                raise InvalidRequest(
                    f"the key {_shown(key)} comes after {_shown(before)}: sort the rows by the bytes of their keys"
                )
            before = key
        raise AssertionError(f"LMDB left out rows of {len(keys)} that are in order")

    def finish(self) -> None:
        """Make it an index: write the row with its applied offset. Nothing is synced: its copy will be."""
        base = self._base
        with self._writing() as txn:
            state = State(base.offset, base.log_time_ms, Offset(base.offset + 1))
            txn.put(STATE, state.pack(), db=self._databases.meta)
        self._commit()


async def store_index(
    folder: Path,
    store: SnapshotStore,
    *,
    table_name: str,
    partition: PartitionId,
    start: Offset = FIRST,
    snapshot_id: str = "",
    progress: Progress | None = None,
) -> SnapshotManifest:
    """Put a finished index into a store, as a snapshot that was read back and compared; `folder` is removed.

    The copy is made next to `folder`: at most twice its bytes are on the disk. Raises `SnapshotStoreUnavailable`,
    `SnapshotDamaged`, `DiskFull`.
    """

    @contextmanager
    def reading() -> Iterator[LmdbIndex]:
        index = LmdbIndex.open(folder, partition=partition, start=start)
        try:
            yield index
        finally:
            # Not synced: this folder is about to go.
            index.close(clean=False)

    released = 0

    def on_progress(phase: str, done: int, whole: int) -> None:
        nonlocal released
        if phase == "copying" and done - released >= _MAPPED_BYTES:
            release_mapping(data)
            released = done
        if progress is not None:
            progress(phase, done, whole)

    data = (folder / DATA_FILE).resolve()
    async with copied_index(
        reading, table_name=table_name, work_folder=folder.parent, snapshot_id=snapshot_id, progress=on_progress
    ) as (copy, manifest):
        await in_thread(lambda _: rmtree(folder))
        await store.put(copy, manifest, progress=progress)
    await store.verify(manifest, progress=progress)
    return manifest


def _bytes_of(column: RowColumn) -> int:
    return int(column.nbytes) if isinstance(column, pa.Array) else sum(map(len, column))


def _longest(column: RowColumn) -> int:
    """Bytes of the longest one."""
    return int(pc.max(pc.binary_length(column)).as_py()) if isinstance(column, pa.Array) else max(map(len, column))


def _listed(column: RowColumn) -> Sequence[bytes]:
    """A column as a list. 15 ns a row; Arrow's own `to_pylist` takes 28."""
    if not isinstance(column, pa.Array):
        return column
    assert not column.null_count, f"{column.null_count} nulls"
    found: list[bytes] = column.to_numpy(zero_copy_only=False).tolist()
    return found


def _refuse_key(keys: Sequence[bytes]) -> None:
    for key in keys:
        if not 0 < len(key) <= KEY_BYTES_MAX:
            raise InvalidKey(
                f"the key {_shown(key)} has {len(key)} bytes; keys have 1 to {KEY_BYTES_MAX}: hash what is longer",
                size=len(key),
            )


def _refuse_value(keys: Sequence[bytes], values: Sequence[bytes]) -> None:
    key, value = next(row for row in zip(keys, values, strict=True) if len(row[1]) > VALUE_BYTES_MAX)
    raise InvalidValue(
        f"the value of the key {_shown(key)} has {len(value)} bytes; values have at most {VALUE_BYTES_MAX}: keep "
        "larger things elsewhere, and their addresses here",
        size=len(value),
    )


def _shown(key: bytes) -> str:
    """A key for people; a long one is cut."""
    return repr(key) if len(key) <= _SHOWN_BYTES else f"{key[:_SHOWN_BYTES]!r}…"
