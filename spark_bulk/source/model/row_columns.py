"""Rows as columns that Spark has: which Arrow type stands for each type of Avro, and arrays of one as the other. Pure.

    boolean, int, long, float, double     BOOLEAN, INT, BIGINT, FLOAT, DOUBLE
    string, enum, uuid                    STRING
    bytes, fixed                          BINARY
    decimal                               DECIMAL(p, s); STRING from 39 digits on
    date                                  DATE
    time-millis, time-micros              INT, BIGINT: since midnight, as Spark's source of Avro files has them
    timestamp-…, local-timestamp-…        TIMESTAMP, TIMESTAMP_NTZ
    array, map, record                    ARRAY, MAP<STRING, …>, STRUCT
    a union of null and one other type    the other type, nullable
    any other union                       STRUCT with a field for each type, of which one is not null
    null                                  STRING, always null

The columns are those of `log_tier.rows.columns`, which reads and writes the stored rows, in types that Spark has.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.types as kinds

from log_tier.model.errors import InvalidRequest
from log_tier.rows.columns.arrow_types import arrow_schema
from log_tier.rows.definition import TableDefinition
from spark_bulk.source.model.columns import TABLE_COLUMNS

__all__ = ["as_row_column", "as_spark_column", "check_row_columns", "row_columns", "row_fields", "spark_type"]

_DIGITS_MAX: Final = 38
"""Of Spark's decimals."""

_COLUMNS_SHOWN: Final = 30


def row_columns(definition: TableDefinition) -> pa.Schema:
    """The columns of a table of rows, in types that Spark has: the fields of its newest schema, behind `key` where the
    keys are no fields. Raises `InvalidSchema` for a record that has itself inside.
    """
    fields = [each.with_type(spark_type(each.type)) for each in arrow_schema(definition.schemas[-1].schema)]
    if not isinstance(definition.key, tuple) and all(each.name != "key" for each in fields):
        kind = pa.string() if definition.key == "str" else pa.binary()
        fields.insert(0, pa.field("key", kind, nullable=False))
    return pa.schema(fields)


def row_fields(schema: pa.Schema, definition: TableDefinition) -> list[str]:
    """The columns of a read or write that are fields of the rows."""
    newest = definition.schemas[-1].schema
    return [name for name in schema.names if newest.field_of(name) is not None]


def check_row_columns(schema: pa.Schema, definition: TableDefinition) -> None:
    """Raise `InvalidRequest` for a column that there is not, or not of that type."""
    named = row_fields(schema, definition)
    fields = arrow_schema(definition.schemas[-1].schema, list(dict.fromkeys(named)))
    for field in schema:
        if field.name not in named:
            if field.name not in TABLE_COLUMNS or field.name == "value":
                shown = ", ".join(each.name for each in definition.schemas[-1].schema.fields[:_COLUMNS_SHOWN])
                raise InvalidRequest(
                    f"there is no column `{field.name}`: there are {shown}, and of each row key, version, partition, "
                    "expires_at; the stored form has values=bytes"
                )
            if field.type not in TABLE_COLUMNS[field.name]:
                raise InvalidRequest(f"the column `{field.name}` is {TABLE_COLUMNS[field.name][0]}, not {field.type}")
        elif not _is_alike(spark_type(fields.field(field.name).type), field.type):
            wanted = spark_type(fields.field(field.name).type)
            raise InvalidRequest(
                f"the column `{field.name}` is {wanted}, the schema says {field.type}: read it as it is, and cast it"
            )


def spark_type(kind: pa.DataType) -> pa.DataType:
    """The Arrow type of the column in Spark for the type of a column of rows."""
    if kinds.is_struct(kind):
        return pa.struct([each.with_type(spark_type(each.type)) for each in kind])
    if kinds.is_list(kind):
        return pa.list_(kind.value_field.with_type(spark_type(kind.value_type)))
    if kinds.is_map(kind):
        return pa.map_(pa.string(), kind.item_field.with_type(spark_type(kind.item_type)))
    if kinds.is_dictionary(kind) or kinds.is_null(kind) or (kinds.is_decimal(kind) and kind.precision > _DIGITS_MAX):
        return pa.string()
    if kinds.is_fixed_size_binary(kind):
        return pa.binary()
    if kinds.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    if kinds.is_time(kind):
        return pa.int32() if kinds.is_time32(kind) else pa.int64()
    return kind


def _is_alike(one: pa.DataType, other: pa.DataType) -> bool:
    """The same type, whatever its parts are called that have no name in Spark, and whichever of them can be null."""
    if kinds.is_struct(one) and kinds.is_struct(other):
        return one.num_fields == other.num_fields and all(
            mine.name == theirs.name and _is_alike(mine.type, theirs.type)
            for mine, theirs in zip(one, other, strict=True)
        )
    if kinds.is_list(one) and kinds.is_list(other):
        return _is_alike(one.value_type, other.value_type)
    if kinds.is_map(one) and kinds.is_map(other):
        return _is_alike(one.key_type, other.key_type) and _is_alike(one.item_type, other.item_type)
    return bool(one == other)


def as_spark_column(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """A column of rows as the type that Spark wants, which is like `spark_type` of its own."""
    if array.type.equals(wanted):
        return array
    if kinds.is_struct(wanted):
        children = [as_spark_column(child, each.type) for child, each in zip(array.flatten(), wanted, strict=True)]
        return pa.StructArray.from_arrays(children, fields=list(wanted), mask=array.is_null())
    if kinds.is_list(wanted):
        array = _from_its_start(array)
        values = as_spark_column(array.values, wanted.value_type)
        return pa.ListArray.from_arrays(array.offsets, values, type=wanted, mask=array.is_null())
    if kinds.is_map(wanted):
        array = _from_its_start(array)
        items = as_spark_column(array.items, wanted.item_type)
        return pa.MapArray.from_arrays(_map_offsets(array), array.keys, items, type=wanted)
    if kinds.is_dictionary(array.type):
        array = array.dictionary_decode()
    return array.cast(wanted)


def as_row_column(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """A column of Spark as `BatchWriter` takes it: times of day and long decimals as what they are; the rest as it is.

    `wanted`: the type of the column of rows. Raises `pyarrow.ArrowException` for a text that is no decimal.
    """
    if not _is_special(wanted):
        return array
    if kinds.is_struct(wanted) and kinds.is_struct(array.type):
        types = {each.name: each.type for each in wanted}
        children = [
            as_row_column(child, types.get(each.name, each.type))
            for child, each in zip(array.flatten(), array.type, strict=True)
        ]
        return pa.StructArray.from_arrays(children, [each.name for each in array.type], mask=array.is_null())
    if kinds.is_list(wanted) and kinds.is_list(array.type):
        array = _from_its_start(array)
        values = as_row_column(array.values, wanted.value_type)
        return pa.ListArray.from_arrays(array.offsets, values, mask=array.is_null())
    if kinds.is_map(wanted) and kinds.is_map(array.type):
        array = _from_its_start(array)
        items = as_row_column(array.items, wanted.item_type)
        return pa.MapArray.from_arrays(_map_offsets(array), array.keys, items)
    if kinds.is_time(wanted) and kinds.is_integer(array.type):
        return array.cast(spark_type(wanted)).cast(wanted)
    if kinds.is_decimal(wanted) and kinds.is_string(array.type):
        return array.cast(wanted)
    return array


def _is_special(kind: pa.DataType) -> bool:
    """Is a part of it of a type that Spark does not have, and the writer of rows wants?"""
    if kinds.is_nested(kind):
        return any(_is_special(kind.field(number).type) for number in range(kind.num_fields))
    return bool(kinds.is_time(kind) or (kinds.is_decimal(kind) and kind.precision > _DIGITS_MAX))


def _map_offsets(array: pa.Array) -> pa.Array:
    """Where each map begins, null for one that is null: pyarrow 17 makes no maps with a mask."""
    if not array.null_count:
        return array.offsets
    return pa.array(array.offsets.to_pylist(), pa.int32(), mask=[*array.is_null().to_pylist(), False])


def _from_its_start(array: pa.Array) -> pa.Array:
    """The same lists as an array that is no part of another one: those are given no nulls of their own."""
    return array if not array.offset else array.take(pa.array(range(len(array))))
