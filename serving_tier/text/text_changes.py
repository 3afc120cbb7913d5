"""Which rows of a text index changed: keys out of batches, rows out of a read of LMDB."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import Final

from log_tier.model.batch import decode_batch
from log_tier.model.batch_header import Place, split_batches
from log_tier.model.identifiers import NOTHING, Offset, PartitionId
from log_tier.model.log import Log
from serving_tier.disk import NodeDisk
from serving_tier.index.lmdb.pinned_read import PinnedRead
from serving_tier.text.text_page import TextRow
from serving_tier.text.text_rows import text_row

__all__ = ["all_rows", "changed_keys", "changes_at", "make_folder", "rows_at"]

_CHUNK_BYTES: Final = 1 << 20

_Run = Callable[[Callable[[], Offset]], Awaitable[Offset]]
"""Runs work in a thread."""


def make_folder(disk: NodeDisk, folder: Path) -> None:
    disk.make_folder(folder)


def rows_at(keys: Mapping[bytes, None], pinned: PinnedRead) -> dict[bytes, TextRow | None]:
    return dict(changes_at(keys, pinned))


def changes_at(keys: Mapping[bytes, None], pinned: PinnedRead) -> Iterator[tuple[bytes, TextRow | None]]:
    """The rows of keys in the state that is read; None: there is none."""
    for key in keys:
        if key:
            stored = pinned.stored(key)
            yield key, None if stored is None else text_row(stored, pinned.log_time_ms)


def all_rows(pinned: PinnedRead) -> Iterator[tuple[bytes, TextRow | None]]:
    """The rows of the state that is read."""
    for key, stored in pinned.pairs():
        row = text_row(stored, pinned.log_time_ms)
        if row is not None:
            yield key, row


def _note_keys(run: bytes, place: Place, keys: dict[bytes, None]) -> Offset:
    """Note the keys of stored batches; return the last offset."""
    last = NOTHING
    for batch in split_batches(run):
        decoded = decode_batch(batch, place)
        keys.update(dict.fromkeys(decoded.columns.keys))
        last = decoded.header.last_offset
    return last


async def changed_keys(
    log: Log, partition: PartitionId, place: Place, applied: Offset, upto: Offset, keys_max: int, run: _Run
) -> dict[bytes, None] | None:
    """The keys of the records behind `applied`, up to an offset; None: they are more than `keys_max`, or not all of
    them are in the log any more.
    """
    if applied >= upto:
        return {} if applied == upto else None
    bounds = await log.bounds(partition)
    if applied + 1 < bounds.earliest or not bounds.carries(applied):
        return None
    keys: dict[bytes, None] = {}
    reader = log.read(partition, Offset(applied + 1), follow=False, chunk_bytes=_CHUNK_BYTES)
    async with aclosing(reader) as chunks:
        async for chunk in chunks:
            last = await run(partial(_note_keys, chunk.data, place, keys))
            if len(keys) > keys_max:
                return None
            if last >= upto:
                return keys
    return None
