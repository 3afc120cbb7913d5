"""What an index knows in addition to its entries goes over to another version as it is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kit.log.stored_log import PARTITION, TABLE, Said, StoredLog, add, put

from log_tier.model.identifiers import Offset, PartitionId
from log_tier.model.record import Condition, Operation
from serving_tier.fold.verdicts import Verdict
from serving_tier.index.lmdb.lmdb_index import LmdbIndex


@pytest.fixture
def live(tmp_path: Path) -> Iterator[LmdbIndex]:
    """Version 1: a producer and its retry, a rejection, a result, a void record."""
    index, log = LmdbIndex.open(tmp_path / "live", partition=PartitionId(TABLE, PARTITION)), StoredLog()
    index.apply(log.append(put(b"a", b"1"), add(b"n", b"5"), producer_id=4, sequence=6))
    index.apply(log.append(put(b"a", b"2", condition=Condition.ABSENT), Said(Operation.VOID, b"", b"it has no key")))
    index.apply(log.append(put(b"a", b"1"), add(b"n", b"5"), producer_id=4, sequence=6))
    yield index
    index.close()


@pytest.fixture
def other(tmp_path: Path) -> Iterator[LmdbIndex]:
    """Version 2, with entries and knowledge of its own."""
    index, log = LmdbIndex.open(tmp_path / "other", partition=PartitionId(TABLE, PARTITION)), StoredLog()
    index.apply(log.append(add(b"b", b"3"), producer_id=9, sequence=0))
    index.become(2)
    yield index
    index.close()


def test_another_version_takes_all_of_it_over_and_keeps_its_entries(live: LmdbIndex, other: LmdbIndex) -> None:
    digest = other.digest()
    other.level_with(live)
    everything = Offset(0), live.applied
    assert other.outcomes(*everything) == live.outcomes(*everything) != {}
    assert other.judgements(*everything) == live.judgements(*everything) != []
    assert other.producer(4) == live.producer(4) is not None
    assert other.producer(9) is None, "nothing of its own is left"
    assert (other.applied, other.log_time_ms, other.verdicts_from) == (
        live.applied,
        live.log_time_ms,
        live.verdicts_from,
    )
    assert other.digest() == digest
    sizes, wanted = other.statistics(), live.statistics()
    assert (sizes.producers, sizes.verdicts, sizes.results, sizes.void) == (
        wanted.producers,
        wanted.verdicts,
        wanted.results,
        wanted.void,
    )
    assert (other.version, live.version) == (2, 1)


def test_another_version_keeps_the_tally_of_its_own_fold(live: LmdbIndex, other: LmdbIndex) -> None:
    own = other.tally()
    assert own.periods
    assert own.periods != live.tally().periods
    other.level_with(live)
    assert other.tally() == own._replace(applied=live.applied)


def test_it_is_there_after_reopening(live: LmdbIndex, other: LmdbIndex) -> None:
    other.level_with(live)
    other.close()
    again = LmdbIndex.open(other.path, partition=PartitionId(TABLE, PARTITION))
    assert (again.applied, again.version, again.producer(4)) == (live.applied, 2, live.producer(4))
    again.close()


def test_a_run_of_duplicates_is_found_from_its_middle(live: LmdbIndex) -> None:
    (run,) = live.judgements(Offset(5), Offset(5))
    assert (run.verdict, run.offset, run.span) == (Verdict.DUPLICATE, 4, 2)
    assert [row.offset for row in live.judgements(Offset(2), Offset(3))] == [2, 3]
    assert live.judgements(Offset(0), Offset(1)) == live.judgements(Offset(6), Offset(99)) == []


def test_an_index_that_is_ahead_is_not_levelled(live: LmdbIndex, other: LmdbIndex) -> None:
    with pytest.raises(AssertionError, match="is beyond"):
        live.level_with(other)
