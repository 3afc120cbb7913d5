"""From a user's data frame to rows in their place: the columns that a build wants, sent to their partitions, sorted.

select            key and value as bytes, or value as JSON; expiry and order by choice
place             the partition of each key, by the function that the router has (`spark_bulk.runtime.placing`)
one mark each     see `spark_bulk.build.partition_rows`
repartitionById   row of partition n → task n. `repartition(n, column)` would hash the number once more, and several
                  partitions could land in one task and none in another
sort              within the tasks, by the bytes of the keys; Spark spills to disk what does not fit in its memory
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  (its name everywhere)
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.types import BinaryType, IntegerType, StringType, TimestampType

from log_tier.model.errors import InvalidKey, InvalidRequest, InvalidValue
from log_tier.model.partitioner import Partitioner
from spark_bulk.build.partition_rows import Duplicates
from spark_bulk.runtime.placing import partition_ids

__all__ = ["ValueColumns", "chosen_rows", "placed_rows"]

ValueColumns = str | Sequence[str] | None
"""The column whose bytes, or text as UTF-8, are the value, or a struct, map or array that becomes JSON; or several
columns: their JSON object; None: that of all columns but the key."""

_JSON_TYPES: Final = ("struct", "map", "array", "variant")

_ORDER: Final = "order_"


def chosen_rows(
    frame: DataFrame,
    *,
    key: str,
    value: ValueColumns = None,
    expires_at: str | None = None,
    order_by: str | Sequence[str] | None = None,
    duplicates: Duplicates = "error",
) -> tuple[DataFrame, str]:
    """The columns `key`, `value`, perhaps `expires_at_ms`, and `order_0` …; and what the value is called, for people.

    In JSON, fields that are null are left out. Raises `InvalidRequest`, `InvalidKey`, `InvalidValue` naming the column
    that is missing or of a type that cannot be one.
    """
    orders = [order_by] if isinstance(order_by, str) else list(order_by or ())
    if (duplicates == "last") != bool(orders):
        raise InvalidRequest(
            "duplicates='last' keeps the row that is the last by the column `order_by`: name both, or none of them"
        )
    kind = _type_of(frame, key, "key")
    if not isinstance(kind, BinaryType | StringType):
        raise InvalidKey(f"the key column {key} is of type {kind.simpleString()}: cast it to binary or string")
    content, value_name = _value(frame, key, value)
    columns = [_column(key).cast("binary").alias("key"), content.alias("value")]
    if expires_at is not None:
        kind = _type_of(frame, expires_at, "expiry")
        if not isinstance(kind, TimestampType):
            raise InvalidRequest(
                f"the expiry column {expires_at} is of type {kind.simpleString()}: cast it to timestamp"
            )
        columns.append(F.unix_millis(_column(expires_at)).alias("expires_at_ms"))
    for number, name in enumerate(orders):
        _type_of(frame, name, "order")
        columns.append(_column(name).alias(f"{_ORDER}{number}"))
    return frame.select(*columns), value_name


def _value(frame: DataFrame, key: str, value: ValueColumns) -> tuple[Column, str]:
    if isinstance(value, str):
        kind = _type_of(frame, value, "value")
        if isinstance(kind, BinaryType | StringType):
            return _column(value).cast("binary"), value
        if kind.typeName() in _JSON_TYPES:
            return F.to_json(_column(value)).cast("binary"), value
        raise InvalidValue(
            f"the value column {value} is of type {kind.simpleString()}: cast it to binary or string, or name it in a "
            f"list, value=[{value!r}], for a JSON object"
        )
    names = [name for name in frame.columns if name != key] if value is None else list(value)
    if not names:
        raise InvalidValue("there is no column that could be the value: name one, or several for a JSON object")
    for name in names:
        if isinstance(_type_of(frame, name, "value"), BinaryType):
            raise InvalidValue(f"the column {name} is binary, which JSON cannot hold: leave it out, or encode it")
    return F.to_json(F.struct(*map(_column, names))).cast("binary"), ", ".join(names)


def _column(name: str) -> Column:
    """A column by its very name, dots included."""
    return F.col("`" + name.replace("`", "``") + "`")


def _type_of(frame: DataFrame, name: str, what: str) -> Any:
    found = [each.dataType for each in frame.schema.fields if each.name == name]
    if len(found) != 1:
        trouble = "no column" if not found else f"{len(found)} columns"
        raise InvalidRequest(
            f"the data has {trouble} {name!r} for the {what}; its columns are: {', '.join(frame.columns) or 'none'}"
        )
    return found[0]


def placed_rows(rows: DataFrame, partitions: int, partitioner: Partitioner) -> DataFrame:
    """What `spark_bulk.build.partition_rows` takes: task n has partition n whole, sorted, with its mark.

    `rows` has `key`, `value`, perhaps `version`, `expires_at_ms`, and the columns by which the last one of a key is
    known. Of rows that are equal in those, the values decide, so that every attempt keeps the same row.
    """

    @arrow_udf(IntegerType())  # type: ignore[call-overload, untyped-decorator]
    def place(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        for keys in batches:
            # The task that writes the partition refuses the null, and can name its row.
            yield partition_ids(keys.fill_null(b""), partitions, partitioner)

    names = [name for name in ("key", "value", "version", "expires_at_ms") if name in rows.columns]
    orders = [name for name in rows.columns if name.startswith(_ORDER)]
    placed = rows.select(place("key").alias("partition"), *names, *orders)
    marks = rows.sparkSession.range(partitions, 2 * partitions, 1, 1).select(
        F.col("id").cast("int").alias("partition"),
        *(F.lit(None).cast(rows.schema[name].dataType).alias(name) for name in (*names, *orders)),
    )
    first = [F.asc_nulls_first("key")]
    if orders:
        first += [*map(F.desc_nulls_last, orders), F.desc_nulls_last("value")]
    # Nulls among the keys first, the mark among them; then the row to keep before those that it replaces.
    return (
        placed.unionByName(marks)
        .repartitionById(partitions, "partition")
        .sortWithinPartitions(*first)
        .select("partition", *names)
    )
