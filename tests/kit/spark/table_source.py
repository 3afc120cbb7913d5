"""A table as Spark's source and sink, and the rows of its change feed."""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["Change", "Source", "changes_of"]


class Change(NamedTuple):
    """A row of a change feed."""

    partition: int
    offset: int
    operation: str
    key: bytes
    value: bytes | None


class Source:
    """A table as Spark's source and sink."""

    def __init__(self, spark: Any, at: str, name: str) -> None:
        self.spark = spark
        self.place = {"at": at, "table": name}

    def read(self, **options: str) -> Any:
        return self.spark.read.format("duramen").options(**self.place, **options).load()

    def rows(self, **options: str) -> dict[bytes, bytes]:
        """The table; no key twice."""
        rows = self.read(**options).collect()
        found = {bytes(row.key): bytes(row.value) for row in rows}
        assert len(found) == len(rows)
        return found

    def changes(self, **options: str) -> list[Change]:
        """The log."""
        return changes_of(self.read(log="true", **options))

    def write(self, frame: Any) -> None:
        frame.write.format("duramen").options(**self.place).mode("append").save()


def changes_of(frame: Any) -> list[Change]:
    """In the order of partitions and offsets."""
    return sorted(
        Change(
            row.partition,
            row.offset,
            row.operation,
            bytes(row.key),
            None if row.value is None else bytes(row.value),
        )
        for row in frame.collect()
    )
