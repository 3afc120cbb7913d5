"""Work that is one Spark task for each partition of a table, and gets its input from outside of Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from log_tier.model.identifiers import Partition

__all__ = ["each_partition"]


def each_partition(
    spark: SparkSession, partitions: int, work: Callable[[Partition], Iterable[pa.RecordBatch]], columns: str
) -> DataFrame:
    """The rows that `work` gives for every partition; `columns` is Spark's DDL. An action on the frame runs `work`."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from work(Partition(number))

    return spark.range(0, partitions, 1, partitions).mapInArrow(run, columns)
