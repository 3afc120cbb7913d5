"""Rows that are to be written: checked, placed, and made records. Pure, over Arrow arrays.

    key          binary or string, 1 to 511 bytes
    value        binary or string, at most 4 MiB; null only with a delete. With values=json there is no such column:
                 every column that is none of these is a field of a JSON object, nulls left out
    operation    string: put, delete, add, multiply, min, max, append; without the column all are puts
    expires_at   timestamp at which the key expires; null: never
    ttl_ms       the same as a time from now, by the log's clock

A row that cannot be written is refused by name: the task, the row's place in the task's input, its column and what it
holds. Nothing of a batch of rows with such a row is written, and the job ends with that error.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from log_tier.model.batch import Columns
from log_tier.model.errors import InvalidKey, InvalidRequest, InvalidValue
from log_tier.model.identifiers import Partition
from log_tier.model.partitioner import Partitioner
from log_tier.model.record import (
    EXPIRY_SHIFT,
    KEY_BYTES_MAX,
    PLAIN_PUT,
    TTL_MS_MAX,
    VALUE_BYTES_MAX,
    Expiry,
    Operation,
)
from serving_tier.fold.numbers import parse_number
from spark_bulk.runtime.placing import key_bytes, partition_ids
from spark_bulk.source.model.columns import is_jsons

__all__ = ["OPERATIONS", "Drafted", "check_write_schema", "drafts"]

OPERATIONS: Final = {
    operation.name.lower(): operation
    for operation in Operation
    if operation not in (Operation.NOOP, Operation.VOID, Operation.BARRIER, Operation.PATCH)
}
_NAMES: Final = pa.array(list(OPERATIONS))
_CODES: Final = np.array([int(operation) for operation in OPERATIONS.values()], np.int64)
_ARITHMETIC: Final = [int(each) for each in (Operation.ADD, Operation.MULTIPLY, Operation.MIN, Operation.MAX)]

_OURS: Final = ("key", "value", "operation", "expires_at", "ttl_ms")


class Drafted(NamedTuple):
    """Records of one partition, in the order of their rows."""

    partition: Partition
    columns: Columns
    bytes: int


def check_write_schema(schema: pa.Schema, *, json_values: bool) -> None:
    """Raise `InvalidRequest`, `InvalidKey` or `InvalidValue` where rows of this shape cannot be written."""
    kinds = {field.name: field.type for field in schema}
    if len(kinds) < len(schema):
        raise InvalidRequest(f"two columns have one name: {', '.join(schema.names)}")
    if "key" not in kinds:
        raise InvalidKey(f"there is no column `key` among {', '.join(schema.names)}: rename one of them")
    if not _is_text(kinds["key"]):
        raise InvalidKey(f"the column `key` is of type {kinds['key']}: cast it to binary or string")
    if json_values:
        if "value" in kinds:
            raise InvalidRequest("with values=json the columns are the fields of the value: there is no column `value`")
    elif "value" not in kinds and "operation" not in kinds:
        raise InvalidValue(f"there is no column `value` among {', '.join(schema.names)}: rename one of them")
    elif "value" in kinds and not (_is_text(kinds["value"]) or pa.types.is_null(kinds["value"])):
        raise InvalidValue(f"the column `value` is of type {kinds['value']}: cast it to binary or string")
    if "operation" in kinds and not pa.types.is_string(kinds["operation"]):
        raise InvalidRequest(
            f"the column `operation` is of type {kinds['operation']}: it is one of {', '.join(OPERATIONS)}"
        )
    if "expires_at" in kinds and not (pa.types.is_timestamp(kinds["expires_at"]) and kinds["expires_at"].tz):
        raise InvalidRequest(
            f"the column `expires_at` is of type {kinds['expires_at']}: cast it to timestamp, which has a time zone"
        )
    if "ttl_ms" in kinds and not pa.types.is_integer(kinds["ttl_ms"]):
        raise InvalidRequest(f"the column `ttl_ms` is of type {kinds['ttl_ms']}: it is a whole number of milliseconds")
    if "ttl_ms" in kinds and "expires_at" in kinds:
        raise InvalidRequest("name the expiry by `expires_at` or by `ttl_ms`, and not by both")
    for name in sorted(kinds.keys() - set(_OURS)):
        if not json_values:
            raise InvalidRequest(
                f"nothing is known of a column `{name}`: select those to be written ({', '.join(_OURS)}), or make "
                "JSON of them with values=json"
            )
        if not is_jsons(kinds[name]):
            raise InvalidRequest(f"the column `{name}` is of type {kinds[name]}, which JSON has not: cast it to string")


def _is_text(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_binary(kind)
        or pa.types.is_string(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_large_string(kind)
    )


def drafts(
    rows: pa.RecordBatch, *, partitions: int, partitioner: Partitioner, json_values: bool, where: str, first_row: int
) -> Iterator[Drafted]:
    """The records of some rows, by partition. About 0.5 µs a row.

    `where` names the task, `first_row` is the place of the first row in its input: for people. Raises `InvalidKey` or
    `InvalidValue` naming the row.
    """
    if not rows.num_rows:
        return
    check = _Rows(rows, where, first_row)
    codes = check.operations()
    keys, values = check.keys(), check.values(codes, json_values=json_values)
    kind, expiries = check.expiries(codes)
    attributes = codes if expiries is None else codes | np.where(expiries > 0, int(kind) << EXPIRY_SHIFT, 0)
    plain = bool((attributes == PLAIN_PUT).all())
    ids = partition_ids(keys, partitions, partitioner).to_numpy()
    order = np.argsort(ids, kind="stable")
    ends = np.searchsorted(ids[order], np.arange(partitions + 1))
    placed = pa.array(order)
    all_keys, all_values = keys.take(placed).to_pylist(), values.take(placed).to_pylist()
    for partition in np.flatnonzero(np.diff(ends)).tolist():
        part = slice(int(ends[partition]), int(ends[partition + 1]))
        mine = order[part]
        some_keys, some_values = all_keys[part], all_values[part]
        yield Drafted(
            Partition(partition),
            Columns(
                some_keys,
                some_values,
                None if plain else attributes[mine].tolist(),
                None,
                None if expiries is None else expiries[mine].tolist(),
            ),
            sum(map(len, some_keys)) + sum(map(len, some_values)),
        )


class _Rows:
    """Columns of rows; each method checks the column that it returns."""

    def __init__(self, rows: pa.RecordBatch, where: str, first_row: int) -> None:
        self._rows = rows
        self._where = where
        self._first = first_row

    def _column(self, name: str) -> pa.Array | None:
        at = self._rows.schema.get_field_index(name)
        return self._rows.column(at) if at >= 0 else None

    def _row(self, row: int) -> str:
        return f"{self._where}, row {self._first + row}"

    def _bad(self, found: pa.Array) -> int | None:
        """The first row for which `found` is true."""
        at = int(pc.index(pc.fill_null(found, False), True).as_py())
        return None if at < 0 else at

    def operations(self) -> Any:
        column = self._column("operation")
        if column is None:
            return np.full(self._rows.num_rows, PLAIN_PUT, np.int64)
        places = pc.index_in(column, value_set=_NAMES)
        if places.null_count:
            row = int(pc.index(pc.is_null(places), True).as_py())
            raise InvalidValue(
                f"{self._row(row)}: `operation` is {column[row].as_py()!r}; it is one of {', '.join(OPERATIONS)}"
            )
        return _CODES[places.to_numpy()]

    def keys(self) -> pa.Array:
        column = self._column("key")
        assert column is not None, "the schema was checked"
        if column.null_count:
            null = int(pc.index(pc.is_null(column), True).as_py())
            raise InvalidKey(f"{self._row(null)}: `key` is null; keys have 1 to {KEY_BYTES_MAX} bytes: filter it out")
        keys = key_bytes(column)
        lengths = pc.binary_length(keys)
        row = self._bad(pc.or_(pc.equal(lengths, 0), pc.greater(lengths, KEY_BYTES_MAX)))
        if row is not None:
            data = keys[row].as_py()
            raise InvalidKey(
                f"{self._row(row)}: `key` has {len(data)} bytes ({data[:24]!r}…); keys have 1 to {KEY_BYTES_MAX}: "
                "hash what is longer"
                if data
                else f"{self._row(row)}: `key` is empty; keys have 1 to {KEY_BYTES_MAX} bytes: filter it out",
                size=len(data),
                limit=KEY_BYTES_MAX,
            )
        return keys

    def values(self, codes: Any, *, json_values: bool) -> pa.Array:
        deletes = codes == int(Operation.DELETE)
        if json_values:
            values = pa.array(self._json(deletes), pa.large_binary())
        else:
            column = self._column("value")
            if column is None:
                column = pa.nulls(self._rows.num_rows, pa.large_binary())
            values = column.cast(pa.large_binary())
            row = self._bad(pc.and_(pc.is_null(values), pa.array(~deletes)))
            if row is not None:
                raise InvalidValue(
                    f"{self._row(row)}: `value` is null (key {self._key(row)}): values are bytes; to delete the key, "
                    "add a column `operation` with 'delete'"
                )
        row = self._bad(pc.greater(pc.binary_length(values), VALUE_BYTES_MAX))
        if row is not None:
            size = len(values[row].as_py())
            raise InvalidValue(
                f"{self._row(row)}: `value` has {size} bytes (key {self._key(row)}); values have at most "
                f"{VALUE_BYTES_MAX}: cut it in pieces, or store its address",
                size=size,
                limit=VALUE_BYTES_MAX,
            )
        for at in np.flatnonzero(np.isin(codes, _ARITHMETIC)).tolist():
            if parse_number(values[at].as_py()) is None:
                raise InvalidValue(
                    f"{self._row(at)}: `value` is {values[at].as_py()[:24]!r} (key {self._key(at)}), which is no "
                    "number, and `operation` is arithmetic"
                )
        if deletes.any():
            values = pc.if_else(pa.array(deletes), pa.scalar(b"", pa.large_binary()), values)
        return values

    def _key(self, row: int) -> str:
        column = self._column("key")
        assert column is not None, "rows have keys"
        return repr(column[row].as_py()[:40])

    def _json(self, deletes: Any) -> list[bytes]:
        fields = [name for name in self._rows.schema.names if name not in _OURS]
        found: list[bytes] = []
        for row, each in enumerate(self._rows.select(fields).to_pylist()):
            if deletes[row]:
                found.append(b"")
                continue
            kept = {name: value for name, value in each.items() if value is not None}
            try:
                text = json.dumps(kept, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
            except ValueError as error:
                raise InvalidValue(
                    f"{self._row(row)}: no JSON can be made of its fields (key {self._key(row)}): {error}; JSON has no "
                    "NaN and no infinity"
                ) from error
            found.append(text.encode())
        return found

    def expiries(self, codes: Any) -> tuple[Expiry, Any]:
        """The kind of the expiries, and a number for each row, 0 for none; None where no row has one."""
        times, periods = self._column("expires_at"), self._column("ttl_ms")
        if times is not None:
            column = times.cast(pa.timestamp("ms", times.type.tz), safe=False).cast(pa.int64())
            kind, limit = Expiry.AT, (1 << 63) - 1
        elif periods is not None:
            column, kind, limit = periods.cast(pa.int64()), Expiry.TTL, TTL_MS_MAX
        else:
            return Expiry.NONE, None
        row = self._bad(pc.or_(pc.less_equal(column, 0), pc.greater(column, limit)))
        if row is not None:
            name = "expires_at" if times is not None else "ttl_ms"
            raise InvalidValue(
                f"{self._row(row)}: `{name}` is {column[row].as_py()} ms (key {self._key(row)}); it is 1 to {limit}, "
                "or null for a key that does not expire"
            )
        numbers = pc.fill_null(column, 0).to_numpy()
        numbers = np.where(codes == int(Operation.DELETE), 0, numbers)
        return kind, numbers if numbers.any() else None
