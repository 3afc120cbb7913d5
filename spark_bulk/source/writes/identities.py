"""Who writes: producer ids and sequences that make what a task writes twice count once. Pure.

    producer id   from (table, its partition, the job or the query, the number of Spark's task)
    sequence      the micro-batch's number × 2³² + the row's place among the task's rows for that partition

Attempts of one task, one after the other or side by side (speculation), count their rows alike and carry one producer
id; so does a micro-batch that is run again after a restart. The fold drops what comes twice (I2).

A stream's tasks keep one producer id for all their micro-batches: a table remembers 65,536 producers, and a new one for
every micro-batch would push out all others within a day.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final

from log_tier.model.errors import LimitExceeded
from log_tier.model.identifiers import Partition, TableId

__all__ = ["EPOCHS_MAX", "ROWS_MAX", "TaskIdentity"]

_ROW_BITS: Final = 32

ROWS_MAX: Final = 1 << _ROW_BITS
"""Rows of one task for one partition of the table. A task of that many has other troubles."""

EPOCHS_MAX: Final = 1 << 31
"""Micro-batches of one stream: one a second for 68 years."""


@dataclass(frozen=True, slots=True)
class TaskIdentity:
    """One task of one job, in any of its attempts."""

    table: TableId
    job: str
    task: int
    epoch: int = 0

    def producer_id(self, partition: Partition) -> int:
        """63 bits, never 0."""
        name = f"spark {self.table} {partition} {self.task} {self.job}".encode()
        return (int.from_bytes(hashlib.blake2b(name, digest_size=8).digest(), "little") >> 1) | 1

    def sequence(self, row: int) -> int:
        """The sequence of the task's `row`-th row for a partition, from 0. Raises `LimitExceeded`."""
        if not row < ROWS_MAX:
            raise LimitExceeded(
                f"a task writes at most {ROWS_MAX} rows to one partition: use more tasks", limit=ROWS_MAX, size=row
            )
        if not self.epoch < EPOCHS_MAX:
            raise LimitExceeded(
                f"micro-batch {self.epoch} is beyond the {EPOCHS_MAX} that a stream can have: begin with a new "
                "checkpoint folder",
                limit=EPOCHS_MAX,
                size=self.epoch,
            )
        return (self.epoch << _ROW_BITS) + row
