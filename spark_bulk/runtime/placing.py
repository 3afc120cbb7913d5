"""Which partition each row of a column of keys belongs to: `log_tier.model.partitioner` over Arrow arrays.

Spark's own hash partitioning is not ours, so every row that Spark is to send where the router would look for its key is
given its partition here, as a column, before it is sent anywhere.

A key at a time costs some 0.2 µs (slot) or 1 µs (murmur2), most of it for the Python objects. So keys are hashed a
column of bytes at a time, in groups of one length, which need no padding and no masks:

    slot      the CRC of two more bytes is one look into a table of 65,536 entries: `crc = after_two[crc ^ two bytes]`
    murmur2   four bytes at a time, in 32-bit arithmetic that wraps as Java's does

Keys of fields (`fields:N`) are cut one by one, some 0.6 µs each: where an element ends is known by its bytes alone.

15 to 60 ns a key for the others. Groups that are small, and keys with a `{`, which may have a tag, take the way of one
key: it is the function that all other code calls, and `tests/spark_bulk/test_placing.py` holds both to it and to the
shared vectors.
"""

from __future__ import annotations

from binascii import crc_hqx
from collections.abc import Callable
from functools import cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from log_tier.model.errors import InvalidKey
from log_tier.model.partitioner import SLOTS, Partitioner, partition_function

__all__ = ["key_bytes", "partition_ids"]

_BRACE: Final = 0x7B

# Below this, some forty calls of numpy for a group cost more than the keys of it one by one.
_GROUP_MIN: Final = 128

# Keys hashed together: the columns of a block, and the table, stay in a core's cache.
_BLOCK_KEYS: Final = 16_384

_SEED: Final = 0x9747B28C
_MULTIPLIER: Final = np.uint32(0x5BD1E995)

_Keys = npt.NDArray[np.uint8]
"""Keys of one length, a row each."""


def partition_ids(keys: pa.Array, partitions: int, partitioner: Partitioner = "slot") -> pa.Array:
    """The partition of every key, as int32; `keys` is a column of bytes or of text.

    Raises `InvalidKey` for a null, naming its row, and for a column of another type. An empty key, or one that is too
    long, gets a partition like any other: the task that writes it refuses it.
    """
    keys = key_bytes(keys)
    count = len(keys)
    found = np.empty(count, np.int32)
    if count:
        _, offsets_buffer, data_buffer = keys.buffers()
        offsets = np.frombuffer(offsets_buffer, np.int64)[keys.offset : keys.offset + count + 1]
        data = np.frombuffer(data_buffer if data_buffer is not None else b"", np.uint8)
        for first in range(0, count, _BLOCK_KEYS):
            block = slice(first, min(first + _BLOCK_KEYS, count))
            found[block] = _of_block(data, offsets[first : block.stop + 1], partitions, partitioner)
    return pa.array(found)


def key_bytes(keys: pa.Array) -> pa.Array:
    """A column of keys as `large_binary`, without a copy where it is text or bytes. Raises `InvalidKey`."""
    if isinstance(keys, pa.ChunkedArray):
        keys = keys.combine_chunks()
    kind = keys.type
    if pa.types.is_string_view(kind):
        keys = keys.cast(pa.large_string())
    elif not (
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_fixed_size_binary(kind)
        or pa.types.is_binary_view(kind)
    ):
        raise InvalidKey(f"keys are bytes or text, this column is of type {kind}: cast it to binary or string")
    if keys.null_count:
        row = keys.is_null().index(True).as_py()
        raise InvalidKey(f"the key of row {row} is null; keys have 1 to 511 bytes: fill it in, or filter it out")
    return keys.cast(pa.large_binary())


def _of_block(
    data: _Keys, offsets: npt.NDArray[np.int64], partitions: int, partitioner: Partitioner
) -> npt.NDArray[np.int32]:
    starts, lengths = offsets[:-1], np.diff(offsets)
    found = np.empty(len(starts), np.int32)
    singly = np.zeros(len(starts), np.bool_)
    if partitioner.startswith("fields:"):
        singly[:] = True
    elif partitioner == "slot":
        braces = np.flatnonzero(data[offsets[0] : offsets[-1]] == _BRACE)
        if len(braces):
            # The last key that begins at or before a brace, empty ones passed over, is the one that it is in.
            singly[np.searchsorted(offsets, braces + offsets[0], side="right") - 1] = True
    hashed = _slot_partitions if partitioner == "slot" else _murmur2_partitions
    if len(lengths) and (lengths == lengths[0]).all() and not singly.any():
        groups: list[tuple[int, Any]] = [(int(lengths[0]), slice(None))]
    else:
        groups = [(int(length), np.flatnonzero((lengths == length) & ~singly)) for length in np.unique(lengths)]
    for length, rows in groups:
        at = starts[rows]
        if len(at) < _GROUP_MIN:
            singly[rows] = True
        elif isinstance(rows, slice):
            found[rows] = hashed(data[at[0] : at[0] + length * len(at)].reshape(len(at), length), partitions)
        else:
            found[rows] = hashed(data[at[:, None] + np.arange(length)], partitions)
    one: Callable[[bytes], int] = partition_function(partitions, partitioner)
    alone = np.flatnonzero(singly)
    if len(alone):
        block, first = data[offsets[0] : offsets[-1]].tobytes(), offsets[0]
        ends = (offsets[alone + 1] - first).tolist()
        found[alone] = [one(block[at:end]) for at, end in zip((offsets[alone] - first).tolist(), ends, strict=True)]
    return found


@cache
def _after_two() -> npt.NDArray[np.uint16]:
    """The CRC of every two bytes: `crc ^ the next two bytes` is the index of the next state."""
    return np.array([crc_hqx(number.to_bytes(2, "big"), 0) for number in range(1 << 16)], np.uint16)


def _slot_partitions(keys: _Keys, partitions: int) -> npt.NDArray[np.int64]:
    count, length = keys.shape
    table = _after_two()
    crc = np.zeros(count, np.uint16)
    if length % 2:
        # A zero before the first byte changes nothing: the CRC of nothing is zero.
        crc = table[keys[:, 0]]
        keys = keys[:, 1:]
    pairs = np.ascontiguousarray(np.ascontiguousarray(keys).view(">u2").T).astype(np.uint16)
    for pair in pairs:
        crc = table[crc ^ pair]
    return (crc & (SLOTS - 1)).astype(np.int64) * partitions // SLOTS


def _murmur2_partitions(keys: _Keys, partitions: int) -> npt.NDArray[np.uint32]:
    count, length = keys.shape
    whole = length & -4
    hashed = np.full(count, _SEED ^ length, np.uint32)
    for word in np.ascontiguousarray(np.ascontiguousarray(keys[:, :whole]).view("<u4").T).astype(np.uint32):
        word *= _MULTIPLIER
        word ^= word >> 24
        word *= _MULTIPLIER
        hashed *= _MULTIPLIER
        hashed ^= word
    if length > whole:
        tail = np.zeros(count, np.uint32)
        for place in range(length - whole):
            tail |= keys[:, whole + place].astype(np.uint32) << np.uint32(8 * place)
        hashed ^= tail
        hashed *= _MULTIPLIER
    hashed ^= hashed >> 13
    hashed *= _MULTIPLIER
    hashed ^= hashed >> 15
    return (hashed & np.uint32(0x7FFFFFFF)) % np.uint32(partitions)
