"""A denial counts while it is repeated, and is logged once."""

from __future__ import annotations

import pytest

pytest.importorskip("confluent_kafka")

from log_tier.kafka.reading.denied_reads import DeniedReads
from log_tier.model.errors import AccessDenied
from log_tier.model.identifiers import Partition, PartitionId, TableId

ZERO, ONE = (PartitionId(TableId("a" * 22), Partition(number)) for number in (0, 1))


def test_a_denial_that_is_not_repeated_is_over(caplog: pytest.LogCaptureFixture) -> None:
    now = 10.0
    reads = DeniedReads(lambda: now)
    assert reads.reason(ZERO) is None
    for _ in range(3):
        reads.note(ZERO, AccessDenied("allow it Read on topic t"))
        now += 1.0
    now = 15.0
    reason = reads.reason(ZERO)
    assert reason is not None
    assert reason.message == "allow it Read on topic t"
    assert reads.reason(ONE) is None
    now = 15.1
    assert reads.reason(ZERO) is None
    assert [each.message for each in caplog.records] == ["allow it Read on topic t; its readers wait"]


def test_another_result_ends_it_at_once() -> None:
    reads = DeniedReads(lambda: 0.0)
    reads.note(ZERO, AccessDenied("no"))
    reads.over(ZERO)
    assert reads.reason(ZERO) is None
