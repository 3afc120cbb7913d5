"""Who writes: the same for every attempt of a task, another for everybody else."""

from __future__ import annotations

from itertools import product

import pytest

from log_tier.model.errors import LimitExceeded
from log_tier.model.identifiers import Partition, table_id_from_bytes
from spark_bulk.source.writes.identities import EPOCHS_MAX, ROWS_MAX, TaskIdentity

TABLES = [table_id_from_bytes(bytes([number] * 16)) for number in range(2)]


def test_every_task_and_partition_has_a_producer_of_its_own() -> None:
    found = {
        TaskIdentity(table, job, task).producer_id(Partition(partition))
        for table, job, task, partition in product(TABLES, ["a", "b", "1 a"], range(12), range(12))
    }
    assert len(found) == 2 * 3 * 12 * 12
    assert all(0 < each < 1 << 63 for each in found)


def test_attempts_and_micro_batches_of_a_task_have_one() -> None:
    first = TaskIdentity(TABLES[0], "q", 3, epoch=0)
    assert first.producer_id(Partition(1)) == TaskIdentity(TABLES[0], "q", 3, epoch=9).producer_id(Partition(1))


def test_sequences_rise_through_rows_and_micro_batches() -> None:
    sequences = [
        TaskIdentity(TABLES[0], "q", 0, epoch=epoch).sequence(row)
        for epoch in (0, 1, 2, EPOCHS_MAX - 1)
        for row in (0, 1, ROWS_MAX - 1)
    ]
    assert sequences == sorted(set(sequences))
    assert sequences[0] == 0
    assert sequences[-1] < 1 << 63


def test_limits() -> None:
    with pytest.raises(LimitExceeded, match="use more tasks"):
        TaskIdentity(TABLES[0], "q", 0).sequence(ROWS_MAX)
    with pytest.raises(LimitExceeded, match="a new checkpoint folder"):
        TaskIdentity(TABLES[0], "q", 0, epoch=EPOCHS_MAX).sequence(0)
