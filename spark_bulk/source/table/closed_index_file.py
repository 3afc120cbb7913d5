"""The rows of a closed index, read from its LMDB file page by page: keys, values, versions, in key order.

LMDB's cursor gives some 1.3 M rows a second as Arrow columns, because each row becomes two Python objects on the way;
Spark reads Parquet four times as fast. A leaf page, however, is a table of pointers to nodes, and a few hundred leaves
are one computation on arrays: where each key and each value begins and how long it is. Arrow's `binary_view` is exactly
that (length, buffer, offset), and its cast to `binary` copies the bytes in C. Together some 15 M rows a second on one
core, and no object per row.

What is read must be a file that nothing writes and that was checked (`serving_tier.snapshots`: its checksums, and that
every pointer and every child stays inside). What that check leaves open, the lengths inside a leaf's nodes, is looked
at here, so that no row reaches beyond its page. The layout is in `serving_tier.index.lmdb.pages`, the form of a stored
value in `serving_tier.fold.entry`.

Values longer than half a page lie on pages of their own; they are cut out one by one.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from log_tier.model.errors import IndexDamaged
from serving_tier.fold.entry import EXPIRES, NEVER
from serving_tier.index.lmdb.pages import (
    BRANCH,
    DATABASE,
    HEADER_BYTES,
    LEAF,
    NO_PAGE,
    NODE_BYTES,
    NoMetaPage,
    newest_meta,
)
from spark_bulk.source.model.key_ranges import ALL_KEYS, KeyRange

__all__ = ["ClosedIndexFile", "Rows"]

_BIG: Final = 0x01
_SUBDATABASE: Final = 0x02

# Leaves looked at together: some 8,000 rows of 100 bytes, a size of batch that Spark likes, and arrays that stay in a
# core's cache. Four times as many were no faster.
_LEAVES: Final = 256

# 64 MiB of leaves, or as many branches, around each of which the kernel maps some 400 KiB. Four times as much would be
# a few percent faster, and a quarter of a GiB in each worker.
_RELEASE_TURNS: Final = 64

# A batch of long values is cut here: it is copied a few times on its way into Spark's memory.
_BATCH_BYTES: Final = 8 << 20

# `binary_view` counts offsets in 31 bits.
_SPAN_MAX: Final = 1 << 30

_INLINE: Final = 12
"""Bytes of a value that `binary_view` holds in place of an offset."""

_VERSION_MASK: Final = np.uint64((1 << 56) - 1)

_MISREAD: Final = (struct.error, IndexError, OverflowError, ValueError)
"""What reading at a place that is none ends in; Arrow's errors are `ValueError`."""

_Int: Final = np.int64
_Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Rows:
    """Some rows as columns; a column that was not wanted is None."""

    count: int
    keys: pa.Array | None
    values: pa.Array | None
    versions: npt.NDArray[np.int64]
    expiries: npt.NDArray[np.int64] | None
    """Ms since 1970, `NEVER` for none; None: no row of these has one."""


class _Nodes(NamedTuple):
    """Where rows lie in the file, in bytes."""

    key_at: _Ints
    key_size: _Ints
    value_at: _Ints
    value_size: _Ints
    """The size of the stored value, with its header."""
    big: bool
    """Some values lie on pages of their own."""

    def part(self, rows: Any) -> _Nodes:
        return _Nodes(self.key_at[rows], self.key_size[rows], self.value_at[rows], self.value_size[rows], self.big)


class ClosedIndexFile:
    """A `data.mdb` that was closed. `open()` maps it; use it in a `with`.

    Raises `IndexDamaged` where the file is not one, here or while it is read.
    """

    def __init__(self, path: Path, mapped: mmap.mmap) -> None:
        self._path = path
        self._mapped = mapped
        size = len(mapped)
        try:
            meta = newest_meta(mapped)
        except NoMetaPage as error:
            raise self._damaged(str(error)) from error
        self._bytes = np.frombuffer(mapped, np.uint8)
        self._words = self._bytes[: size & -2].view(np.uint16)
        # The same bytes as numbers that begin at every byte: what is gathered from them need not be aligned.
        self._longs: Any = np.ndarray((size - 7,), np.uint64, mapped, strides=(1,))
        self._ints: Any = np.ndarray((size - 3,), np.uint32, mapped, strides=(1,))
        self._page_bytes = meta.page_bytes
        self.entries = 0
        """Rows, expired ones included."""
        self._root, self._depth = NO_PAGE, 0
        with self._misreads_are_damage():
            for number in self._leaf_numbers(meta.root, meta.depth, ALL_KEYS).tolist():
                self._find_data(number)

    @classmethod
    def open(cls, path: Path) -> ClosedIndexFile:
        """Map the file. A ms, whatever its size."""
        with open(path, "rb") as file:
            try:
                mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            except ValueError as error:
                raise IndexDamaged(f"{path} is empty: it is no index", file=str(path)) from error
        mapped.madvise(mmap.MADV_SEQUENTIAL)
        return cls(path, mapped)

    def rows(
        self, keys: KeyRange = ALL_KEYS, *, log_time_ms: int, want_keys: bool = True, want_values: bool = True
    ) -> Iterator[Rows]:
        """The rows that are live at `log_time_ms`, in key order, in batches of some 8,000."""
        if self._root == NO_PAGE:
            return
        with self._misreads_are_damage():
            numbers = self._leaf_numbers(self._root, self._depth, keys)
            for turn, first in enumerate(range(0, len(numbers), _LEAVES), start=1):
                self._release(turn)
                nodes = self._nodes(numbers[first : first + _LEAVES])
                if not keys.is_all and len(nodes.key_at):
                    nodes = self._in_range(nodes, keys)
                for part in self._by_size(nodes):
                    made = self._columns(part, log_time_ms, want_keys=want_keys, want_values=want_values)
                    if made.count:
                        yield made

    def close(self) -> None:
        """Forget the file. What was made of it holds copies; it is unmapped when no half-read batch refers to it."""
        del self._bytes, self._words, self._longs, self._ints, self._mapped

    def __enter__(self) -> ClosedIndexFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- the tree

    def _find_data(self, number: int) -> None:
        """Look for the database `data` among the rows of a leaf of the main database."""
        for pointer in self._pointers(number).tolist():
            at = number * self._page_bytes + pointer
            low, high, flags, key_size = struct.unpack_from("=HHHH", self._mapped, at)
            key = self._mapped[at + NODE_BYTES : at + NODE_BYTES + key_size]
            if flags & _SUBDATABASE and key == b"data" and low | high << 16 == DATABASE.size:
                database = DATABASE.unpack_from(self._mapped, at + NODE_BYTES + key_size)
                _, _, self._depth, _, _, _, self.entries, self._root = database

    def _pointers(self, number: int) -> npt.NDArray[np.uint16]:
        """The pointers of a page's nodes."""
        self._check_page(number)
        head = number * self._page_bytes // 2
        return self._words[head + 8 : head + int(self._words[head + 6]) // 2]

    def _check_page(self, number: int) -> None:
        if not 1 < number < len(self._bytes) // self._page_bytes:
            raise self._damaged(f"names page {number}, and has {len(self._bytes) // self._page_bytes}")

    def _leaf_numbers(self, root: int, depth: int, keys: KeyRange) -> _Ints:
        """The leaves below `root` that can hold keys of the range, in key order."""
        if root == NO_PAGE:
            return np.empty(0, _Int)
        level = np.array([root], _Int)
        for _ in range(depth - 1):
            below = []
            for turn, number in enumerate(level.tolist(), start=1):
                self._release(turn)
                below.append(self._children(number, keys))
            level = np.concatenate(below) if below else np.empty(0, _Int)
            if len(level) > len(self._bytes) // self._page_bytes:
                raise self._damaged("names more pages than it has")
        return level

    def _release(self, turn: int) -> None:
        """Now and then: what was read stays in the kernel's cache, and no longer counts as memory of this process."""
        if turn % _RELEASE_TURNS == 0:
            self._mapped.madvise(mmap.MADV_DONTNEED)

    def _children(self, number: int, keys: KeyRange) -> _Ints:
        self._check_page(number)
        head = number * self._page_bytes // 2
        if self._words[head + 5] != BRANCH:
            raise self._damaged(f"has flags {self._words[head + 5]:#x} on page {number}, where a branch should be")
        nodes = head + (self._pointers(number) >> 1).astype(_Int)
        words = self._words
        children: _Ints = (
            words[nodes].astype(_Int) | words[nodes + 1].astype(_Int) << 16 | words[nodes + 2].astype(_Int) << 32
        )
        if not keys.is_all:
            # A child holds what is at or after its own key and before the next one's; the first has no lower bound.
            firsts = [self._key(2 * node) for node in nodes[1:].tolist()]
            begin = sum(first <= keys.start for first in firsts)
            end = len(firsts) + 1 if keys.end is None else 1 + sum(first < keys.end for first in firsts)
            children = children[begin:end]
        return children

    def _key(self, at: int) -> bytes:
        (size,) = struct.unpack_from("=H", self._mapped, at + 6)
        return self._mapped[at + NODE_BYTES : at + NODE_BYTES + size]

    # --- the rows

    def _nodes(self, numbers: _Ints) -> _Nodes:
        """Where the rows of some leaves lie."""
        words, page_bytes = self._words, self._page_bytes
        if numbers.min() < 2 or (int(numbers.max()) + 1) * page_bytes > len(self._bytes):
            raise self._damaged("names a leaf outside of itself")
        heads = numbers * (page_bytes // 2)
        flags = words[heads + 5]
        if (flags != LEAF).any():
            raise self._damaged(f"has flags {set(flags.tolist())} where leaves should be")
        counts = (words[heads + 6].astype(_Int) - HEADER_BYTES) >> 1
        ends = np.cumsum(counts)
        total = int(ends[-1])
        head = np.repeat(heads, counts)
        pointers = words[np.repeat(heads + 8 - (ends - counts), counts) + np.arange(total)].astype(_Int)
        node = head + (pointers >> 1)
        size = words[node].astype(_Int) | words[node + 1].astype(_Int) << 16
        flag = words[node + 2]
        key_size = words[node + 3].astype(_Int)
        key_at = 2 * node + NODE_BYTES
        value_at = key_at + key_size
        big = flag == _BIG
        some_big = bool(big.any())
        inside = np.where(big, 8, size) if some_big else size
        if (flag > _BIG).any() or (pointers + NODE_BYTES + key_size + inside > page_bytes).any():
            raise self._damaged("has a row that reaches beyond its page, or is of another kind")
        if some_big:
            value_at[big] = self._longs[value_at[big]].astype(_Int) * page_bytes + HEADER_BYTES
            if (value_at < 0).any() or (value_at + size > len(self._bytes)).any():
                raise self._damaged("has a value that reaches beyond its end")
        if (size < 8).any():
            raise self._damaged("has a row without a header")
        return _Nodes(key_at, key_size, value_at, size, some_big)

    def _in_range(self, nodes: _Nodes, keys: KeyRange) -> _Nodes:
        """The rows of a range; they are in order, so two searches find them."""

        def place(wanted: bytes) -> int:
            low, high = 0, len(nodes.key_at)
            while low < high:
                middle = (low + high) // 2
                at = int(nodes.key_at[middle])
                if self._mapped[at : at + int(nodes.key_size[middle])] < wanted:
                    low = middle + 1
                else:
                    high = middle
            return low

        end = len(nodes.key_at) if keys.end is None else place(keys.end)
        return nodes.part(slice(place(keys.start), end))

    def _by_size(self, nodes: _Nodes) -> Iterator[_Nodes]:
        """Cut rows with long values into parts of some MiB."""
        if not nodes.big:
            yield nodes
            return
        cuts = np.flatnonzero(np.diff(np.cumsum(nodes.value_size) // _BATCH_BYTES)) + 1
        for first, end in zip([0, *cuts.tolist()], [*cuts.tolist(), len(nodes.key_at)], strict=True):
            yield nodes.part(slice(first, end))

    def _columns(self, nodes: _Nodes, log_time_ms: int, *, want_keys: bool, want_values: bool) -> Rows:
        headers = self._longs[nodes.value_at]
        flags = headers >> np.uint64(56)
        header_size: Any = 8
        expiries: npt.NDArray[np.int64] | None = None
        if flags.any():
            if (flags > EXPIRES).any() or (nodes.value_size[flags == EXPIRES] < 16).any():
                raise self._damaged(f"has a row with flags {int(flags.max()):#x}, which this version does not know")
            expires = flags == EXPIRES
            expiries = np.full(len(flags), NEVER, np.int64)
            expiries[expires] = self._longs[nodes.value_at[expires] + 8].astype(np.int64)
            live = ~expires | (expiries > log_time_ms)
            nodes, headers, expiries, expires = nodes.part(live), headers[live], expiries[live], expires[live]
            header_size = np.where(expires, 16, 8)
        return Rows(
            len(headers),
            self._cut(nodes.key_at, nodes.key_size, big=False) if want_keys else None,
            self._cut(nodes.value_at + header_size, nodes.value_size - header_size, big=nodes.big)
            if want_values
            else None,
            (headers & _VERSION_MASK).astype(np.int64),
            expiries,
        )

    def _cut(self, at: _Ints, size: _Ints, *, big: bool) -> pa.Array:
        """The bytes at these places, as one column."""
        if not len(at):
            return pa.array([], pa.binary())
        first, end = int(at.min()), int((at + size).max())
        short = size <= _INLINE
        if big or end - first > _SPAN_MAX or (short.any() and end + _INLINE > len(self._bytes)):
            mapped = self._mapped
            return pa.array(
                [mapped[begin : begin + length] for begin, length in zip(at.tolist(), size.tolist(), strict=True)],
                pa.binary(),
            )
        views = np.zeros((len(at), 4), np.int32)
        views[:, 0] = size
        views[:, 3] = at - first
        if short.any():
            # Twelve bytes from there on; the cast looks at as many as the length says.
            rows = np.flatnonzero(short)
            places = at[rows]
            views[rows, 1:3] = self._longs[places].view(np.int32).reshape(-1, 2)
            views[rows, 3] = self._ints[places + 8].view(np.int32)
        data = pa.py_buffer(memoryview(self._mapped)[first:end])
        return pa.Array.from_buffers(pa.binary_view(), len(at), [None, pa.py_buffer(views), data]).cast(pa.binary())

    @contextmanager
    def _misreads_are_damage(self) -> Iterator[None]:
        """The tree is not walked before it is read: numbers in a damaged page lead anywhere."""
        try:
            yield
        except _MISREAD as error:
            raise self._damaged(f"has a page that cannot be read ({error})") from error

    def _damaged(self, what: str) -> IndexDamaged:
        return IndexDamaged(f"{self._path} {what}: use another source", file=str(self._path))
