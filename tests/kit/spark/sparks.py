"""Shorthands of the Spark tests: reads and writes of one table, and what a failed job said."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kit.client.server_process import ServerProcess

__all__ = ["SparkTable", "failure"]


class SparkTable:
    """One table as Spark reaches it."""

    def __init__(self, spark: Any, server: ServerProcess, name: str) -> None:
        self.spark = spark
        self.name = name
        self.place = {"at": server.target, "table": name}

    def read(self, *columns: str, of: str = "", **options: str) -> Any:
        """`of`: the schema that the user gives."""
        reader = self.spark.read.format("duramen").options(**self.place, **options)
        frame = (reader.schema(of) if of else reader).load()
        return frame.select(*columns) if columns else frame

    def log(self, *columns: str, **options: str) -> Any:
        return self.read(*columns, log="true", **options)

    def stream(self, **options: str) -> Any:
        return self.spark.readStream.format("duramen").options(**self.place, log="true", **options).load()

    def write(self, frame: Any, **options: str) -> None:
        frame.write.format("duramen").options(**self.place, **options).mode("append").save()


def failure(job: Callable[[], object]) -> str:
    """Run a job that fails; return the message that its user sees."""
    from pyspark.errors import PySparkException

    with pytest.raises(PySparkException) as caught:
        job()
    return str(caught.value)
