"""A blocking table whose calls are operations of OpenTelemetry."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from duramen.blocking.table import AtomicBatch, Table, TableOwner, TableWriter
from duramen.blocking.wrapped import wrapped
from duramen.client import atomic, observed_writer
from duramen.client.model.results import KeyDifference
from duramen.client.observed_table import ObservedTable, count_records, count_values
from duramen.client.transport.loop_thread import LoopThread
from duramen.tracing.operations import observed_blocking, observed_pages

__all__ = ["ObservedBlockingBatch", "ObservedBlockingTable", "ObservedBlockingWriter"]


class ObservedBlockingBatch(AtomicBatch):
    """An atomic batch whose commit is an operation."""

    def __init__(self, inner: atomic.AtomicBatch, loop: LoopThread, table: ObservedBlockingTable) -> None:
        super().__init__(inner, loop)
        self.operations, self.name = table.operations, table.name

    commit = observed_blocking("batch", AtomicBatch.commit)


class ObservedBlockingWriter(TableWriter):
    """A stream whose flights are operations."""

    put_rows = wrapped(observed_writer.ObservedWriter.put_rows)


class ObservedBlockingTable(Table):
    """A table whose calls are operations (`duramen.tracing`). They begin in the thread of their caller."""

    def __init__(self, inner: ObservedTable, loop: LoopThread, owner: TableOwner) -> None:
        super().__init__(inner.unobserved(), loop, owner)
        self.operations = inner.operations
        self._writer = inner.writer

    get = observed_blocking("get", Table.get)
    get_entry = observed_blocking("get_entry", Table.get_entry)
    get_many = observed_blocking("get_many", Table.get_many, count_values)
    put = observed_blocking("put", Table.put)
    delete = observed_blocking("delete", Table.delete)
    update = observed_blocking("update", Table.update)
    write_record = observed_blocking("update", Table.write_record)
    put_many = observed_blocking("put_many", Table.put_many, count_records)

    def scan(self, **asked: Any) -> Generator[tuple[bytes, bytes], None, None]:
        operation = self.operations.begin("scan", self.name)
        yield from self._loop.iterate(observed_pages(operation, self._inner.scan_pages(**asked)))

    scan.__doc__ = Table.scan.__doc__

    def diff(self, *asked: Any, **how: Any) -> Generator[KeyDifference[bytes, bytes], None, None]:
        operation = self.operations.begin("diff", self.name)
        yield from self._loop.iterate(observed_pages(operation, self._inner.diff_pages(*asked, **how)))

    diff.__doc__ = Table.diff.__doc__

    def batch(self) -> AtomicBatch:
        return ObservedBlockingBatch(self._inner.batch(), self._loop, self)

    def writer(self, producer: str) -> TableWriter:
        return ObservedBlockingWriter(self._writer(producer), self._loop)
