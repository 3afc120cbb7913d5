"""What a client notes of its acknowledged batches is counted by producer and partition, and bounded."""

from __future__ import annotations

from log_tier.model.batch import Columns, encode_batch
from log_tier.model.identifiers import Offset, partition_id
from router.data.gather.acknowledged import PLACES_MAX, RUNS_KEPT, Acknowledged

PLACE = partition_id("AAAAAAAAAAAAAAAAAAAAAA", 0)
MINUTE_MS = 60_000


def batch(producer: int, sequence: int) -> bytes:
    return encode_batch(Columns([b"k"], [b"v"]), producer_id=producer, sequence=sequence)


def test_runs_are_joined_and_the_newest_are_kept() -> None:
    acknowledged = Acknowledged()
    for sequence in range(40):
        acknowledged.noted.append((PLACE, batch(7, sequence), Offset(sequence), sequence // 2 * MINUTE_MS, False))
    acknowledged.noted.append((PLACE, batch(9, 0), Offset(40), 0, False))
    runs = acknowledged.runs()
    assert not acknowledged.noted
    assert [(run.producer, run.records) for run in runs] == [*[(7, 2)] * RUNS_KEPT, (9, 1)]
    assert runs[-2].sequence == 38
    acknowledged.forget()
    assert acknowledged.runs() == []


def test_the_producer_that_came_first_is_forgotten_first() -> None:
    acknowledged = Acknowledged()
    for producer in range(1, PLACES_MAX + 2):
        acknowledged.noted.append((PLACE, batch(producer, 0), Offset(producer), MINUTE_MS, False))
    assert len(acknowledged.runs()) == PLACES_MAX
    assert acknowledged.runs()[0].producer == 2
