"""What took long is kept, bounded, and found by its time."""

from __future__ import annotations

import math
from typing import NamedTuple

from log_tier.measures.long_work import LONG_KEPT_MAX, PLACES_KEPT_MAX, LongCommit, LongWork, places_of
from log_tier.model.identifiers import PartitionId, TableId, partition_id


class Part(NamedTuple):
    partition: PartitionId


def test_nothing_is_long_until_somebody_wants_to_know() -> None:
    work: LongWork[LongCommit] = LongWork()
    assert work.least_s == math.inf
    assert work.since(0.0) == []


def test_it_is_bounded_and_keeps_the_newest() -> None:
    work: LongWork[LongCommit] = LongWork()
    for number in range(LONG_KEPT_MAX + 10):
        work.note(LongCommit(float(number), number + 0.5))
    kept = work.since(0.0)
    assert (len(kept), kept[0].began_s, kept[-1].began_s) == (LONG_KEPT_MAX, 10.0, LONG_KEPT_MAX + 9.0)
    assert work.since(LONG_KEPT_MAX + 9.0) == kept[-1:], "it had not ended by then"
    assert work.since(LONG_KEPT_MAX + 9.6) == []


def test_a_request_of_many_partitions_names_some() -> None:
    parts = [Part(partition_id(TableId("t"), number)) for number in range(PLACES_KEPT_MAX + 5)]
    assert places_of(parts) == [part.partition for part in parts[:PLACES_KEPT_MAX]]
