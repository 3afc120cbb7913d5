"""Columns: which ones a read can show, and how bytes become what the schema says. Pure, over Arrow arrays.

A read shows what its schema names, in that order; Spark passes the schema that the user gave (`.schema("key STRING")`),
or else the whole one. That is also how columns are left out: Spark does not pass the columns that a query needs to a
Python data source.

Text is checked to be UTF-8, and JSON to be one object a value: a value that is not is refused with its key, for a null
in its place would look like a value that was never there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from log_tier.model.errors import InvalidKey, InvalidRequest, InvalidValue

__all__ = ["LOG_COLUMNS", "TABLE_COLUMNS", "check_schema", "is_jsons", "json_columns", "log_ddl", "table_ddl", "typed"]

TABLE_COLUMNS: Final[Mapping[str, tuple[pa.DataType, ...]]] = {
    "key": (pa.binary(), pa.string()),
    "value": (pa.binary(), pa.string()),
    "version": (pa.int64(),),
    "partition": (pa.int32(),),
    "expires_at": (pa.timestamp("us", "UTC"),),
}
"""The columns of a table, and of which types each can be."""

LOG_COLUMNS: Final[Mapping[str, tuple[pa.DataType, ...]]] = {
    "table": (pa.string(),),
    "partition": (pa.int32(),),
    "offset": (pa.int64(),),
    "timestamp": (pa.timestamp("us", "UTC"),),
    "operation": (pa.string(),),
    "key": (pa.binary(), pa.string()),
    "value": (pa.binary(), pa.string()),
}

_DDL: Final = {
    pa.binary(): "BINARY",
    pa.string(): "STRING",
    pa.int64(): "BIGINT",
    pa.int32(): "INT",
    pa.timestamp("us", "UTC"): "TIMESTAMP",
}


def table_ddl(keys: str, values: str, json_schema: str) -> str:
    """The schema of a table as Spark's DDL."""
    if values == "json":
        if not json_schema:
            raise InvalidRequest(
                "JSON values need a schema: .option('schema', 'carrier STRING, delay INT'), or .schema(…) with the "
                "columns `key`, `version`, `partition`, `expires_at` that you want and the fields"
            )
        return f"key {_text(keys)}, {json_schema}, version BIGINT, partition INT, expires_at TIMESTAMP"
    return f"key {_text(keys)}, value {_text(values)}, version BIGINT, partition INT, expires_at TIMESTAMP"


def log_ddl(keys: str, values: str) -> str:
    """The schema of a log as Spark's DDL."""
    return (
        "table STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, operation STRING, "
        f"key {_text(keys)}, value {_text(values)}"
    )


def _text(form: str) -> str:
    return "STRING" if form == "utf8" else "BINARY"


def check_schema(schema: pa.Schema, known: Mapping[str, tuple[pa.DataType, ...]], *, fields: bool) -> None:
    """Raise `InvalidRequest` for a column that there is not, or not of that type. `fields`: others are JSON fields."""
    for field in schema:
        if field.name in known and not (fields and field.name == "value"):
            if field.type not in known[field.name]:
                types = " or ".join(_DDL[kind] for kind in known[field.name])
                raise InvalidRequest(f"the column `{field.name}` is {types}, the schema says {field.type}")
        elif not fields:
            raise InvalidRequest(f"there is no column `{field.name}`: there are {', '.join(known)}")
        elif not is_jsons(field.type):
            raise InvalidRequest(
                f"the JSON field `{field.name}` is of type {field.type}: read it as STRING, BOOLEAN, a number, an "
                "ARRAY or a STRUCT of these, and cast it"
            )


def is_jsons(kind: pa.DataType) -> bool:
    """Can JSON hold it: text, a truth value, a number, a list or an object of these?"""
    if pa.types.is_struct(kind):
        return all(is_jsons(field.type) for field in kind)
    if pa.types.is_list(kind):
        return is_jsons(kind.value_type)
    return bool(
        pa.types.is_string(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_integer(kind)
        or pa.types.is_float32(kind)
        or pa.types.is_float64(kind)
    )


def typed(column: pa.Array, kind: pa.DataType, *, what: str, keys: pa.Array, where: str) -> pa.Array:
    """Bytes as the schema wants them. Raises `InvalidKey` or `InvalidValue` for what is no UTF-8, naming its key."""
    if kind == column.type:
        return column
    try:
        return column.cast(kind)
    except pa.ArrowInvalid as error:
        for row, data in enumerate(column.to_pylist()):
            if data is None:
                continue
            try:
                data.decode()
            except UnicodeDecodeError as trouble:
                refusal = InvalidKey if what == "key" else InvalidValue
                raise refusal(
                    f"{where}: the {what} under the key {keys[row].as_py()!r} is no UTF-8 ({trouble.reason} at byte "
                    f"{trouble.start}): read {what}s as bytes"
                ) from error
        raise


def json_columns(values: pa.Array, schema: pa.Schema, *, keys: pa.Array, where: str) -> list[pa.Array]:
    """The fields of JSON objects, a column for each of `schema`. A field that an object lacks is null.

    Arrow's parser reads them all together, some 1 M objects a second. It takes a stream of documents; that each value
    is one of them follows from each beginning with a brace and ending with one, and their number being right. Where it
    complains, or a value looks otherwise, they are read one by one, which finds the one to name.

    Raises `InvalidValue`.
    """
    if not len(schema):
        return []
    if len(values) and pc.all(pc.and_(pc.starts_with(values, b"{"), pc.ends_with(values, b"}"))).as_py():
        try:
            found = pyarrow.json.read_json(
                pa.BufferReader(b"\n".join(values.to_pylist())),
                read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=_bytes(values) + len(values) + 1),
                parse_options=pyarrow.json.ParseOptions(
                    explicit_schema=schema, newlines_in_values=True, unexpected_field_behavior="ignore"
                ),
            )
            if found.num_rows == len(values):
                return [found.column(field.name).combine_chunks().cast(field.type) for field in schema]
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            pass  # the code below raises it, with the row that is at fault
    objects = [_object(data, keys[row].as_py(), where) for row, data in enumerate(values.to_pylist())]
    return [_field(objects, field, keys, where) for field in schema]


def _bytes(values: pa.Array) -> int:
    return int(pc.sum(pc.binary_length(values)).as_py() or 0)


def _object(data: bytes, key: Any, where: str) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise InvalidValue(
            f"{where}: the value under the key {key!r} is no JSON ({error}): read values as utf8 or bytes"
        ) from error
    if not isinstance(found, dict):
        raise InvalidValue(
            f"{where}: the value under the key {key!r} is no JSON object but {type(found).__name__}: read values as "
            "utf8 or bytes"
        )
    return found


def _field(objects: list[dict[str, Any]], field: pa.Field, keys: pa.Array, where: str) -> pa.Array:
    wanted = [each.get(field.name) for each in objects]
    try:
        if all(_fits(value, field.type) for value in wanted):
            return pa.array(wanted, field.type)
        row = next(row for row, value in enumerate(wanted) if not _fits(value, field.type))
    except (pa.ArrowInvalid, OverflowError):
        # A number that is too large.
        row = next(row for row, value in enumerate(wanted) if _is_too_large(value, field.type))
    raise InvalidValue(
        f"{where}: the field `{field.name}` under the key {keys[row].as_py()!r} is {wanted[row]!r}, the schema says "
        f"{field.type}: correct the schema, or read values as utf8"
    )


def _fits(value: Any, kind: pa.DataType) -> bool:
    """Is it of that type? Arrow itself would make 1 of 1.5, and a text of a number."""
    if value is None:
        return True
    if pa.types.is_struct(kind):
        return isinstance(value, dict) and all(_fits(value.get(field.name), field.type) for field in kind)
    if pa.types.is_list(kind):
        return isinstance(value, list) and all(_fits(each, kind.value_type) for each in value)
    if pa.types.is_boolean(kind):
        return isinstance(value, bool)
    if pa.types.is_string(kind):
        return isinstance(value, str)
    return isinstance(value, int if pa.types.is_integer(kind) else (int, float)) and not isinstance(value, bool)


def _is_too_large(value: Any, kind: pa.DataType) -> bool:
    try:
        pa.array([value], kind)
    except (pa.ArrowInvalid, OverflowError):
        return True
    return False
