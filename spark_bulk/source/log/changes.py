"""Stored batches of a log as columns: a row for each change. Pure.

A **change** is a record that changed something: no-ops, records that no table can hold and barriers are left out, and
so are the void ones (rejected, or a retry's second copy), which the caller names. With `all_records` nothing is left
out, and the rows are what lies in the log.

    operation   put, delete, add, multiply, min, max, append (and noop, void, barrier with `all_records`)
    value       what was put, or the operand of an update as it was written; null for a delete
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from log_tier.model.batch import Batch, decode_batch
from log_tier.model.batch_header import Place
from log_tier.model.identifiers import Offset, Partition
from log_tier.model.record import OPERATION_MASK, PLAIN_PUT, Operation
from spark_bulk.source.model.columns import typed

__all__ = ["Changes", "change_columns"]

_NAMES: Final = [operation.name.lower() for operation in Operation]
assert list(Operation) == list(range(len(_NAMES))), "operations are numbered from 0, without gaps"

_NO_CHANGES: Final = np.array([Operation.NOOP, Operation.VOID, Operation.BARRIER], np.int64)


@dataclass(slots=True)
class Changes:
    """Records of one partition, in order, before they are cut to what is wanted."""

    offsets: npt.NDArray[np.int64]
    timestamps_ms: npt.NDArray[np.int64]
    operations: npt.NDArray[np.int64]
    keys: list[bytes]
    values: list[bytes]

    @classmethod
    def of(cls, stored: Iterable[bytes], place: Place | None = None) -> Changes:
        """Decode stored batches. Some 80 ns a record. Raises `BatchRefused`."""
        batches = [batch for batch in (decode_batch(each, place) for each in stored) if batch.header.records]
        if not batches:
            none = np.empty(0, np.int64)
            return cls(none, none, none, [], [])
        counts = [batch.header.records for batch in batches]
        return cls(
            np.concatenate([_offsets(batch) for batch in batches]),
            np.repeat(np.array([batch.header.timestamp_ms for batch in batches], np.int64), counts),
            np.fromiter(chain.from_iterable(map(_operations, batches)), np.int64, sum(counts)),
            list(chain.from_iterable(batch.columns.keys for batch in batches)),
            list(chain.from_iterable(batch.columns.values for batch in batches)),
        )


def _offsets(batch: Batch) -> npt.NDArray[np.int64]:
    base, deltas = batch.header.base_offset, batch.columns.deltas
    if deltas is None:
        return np.arange(base, base + batch.header.records, dtype=np.int64)
    return np.array(deltas, np.int64) + base


def _operations(batch: Batch) -> Iterable[int]:
    attributes = batch.columns.attributes
    if attributes is None:
        return repeat(PLAIN_PUT, batch.header.records)
    return (attribute & OPERATION_MASK for attribute in attributes)


def change_columns(
    changes: Changes,
    schema: pa.Schema,
    *,
    table: str,
    partition: Partition,
    first: Offset,
    last: Offset,
    void: Iterable[int] = (),
    all_records: bool = False,
) -> pa.RecordBatch | None:
    """The changes from `first` to `last` (inclusive) without those that are void; None where there are none.

    Raises `InvalidKey` or `InvalidValue` for what is no UTF-8 where the schema wants text.
    """
    offsets = changes.offsets
    wanted = (offsets >= first) & (offsets <= last)
    if not all_records:
        wanted &= ~np.isin(changes.operations, _NO_CHANGES)
        void_offsets = np.fromiter(void, np.int64)
        if len(void_offsets):
            wanted &= ~np.isin(offsets, void_offsets)
    if not wanted.any():
        return None
    where = f"{table}/{partition}"
    kept = None if wanted.all() else pa.array(wanted)
    operations = changes.operations[wanted]
    keys = _kept(pa.array(changes.keys, pa.binary()), kept)

    def column(field: pa.Field) -> pa.Array:
        count = len(operations)
        match field.name:
            case "table":
                return pa.repeat(table, count)
            case "partition":
                return pa.repeat(pa.scalar(partition, pa.int32()), count)
            case "offset":
                return pa.array(offsets[wanted])
            case "timestamp":
                return pa.array(changes.timestamps_ms[wanted] * 1000).cast(field.type)
            case "operation":
                return pa.array(_NAMES).take(pa.array(operations))
            case "key":
                return typed(keys, field.type, what="key", keys=keys, where=where)
        deleted = changes.operations == Operation.DELETE
        values = pa.array(changes.values, pa.binary(), mask=deleted if deleted.any() else None)
        return typed(_kept(values, kept), field.type, what="value", keys=keys, where=where)

    return pa.RecordBatch.from_arrays([column(field) for field in schema], schema=schema)


def _kept(column: pa.Array, kept: pa.Array | None) -> pa.Array:
    return column if kept is None else column.filter(kept)
