"""What does not fit a table's definition is void, in either index, whatever it comes with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kit.flight_rows import FLIGHTS, flight, flight_key
from kit.log.stored_log import PARTITION, TABLE, StoredLog, add, delete, put

from log_tier.model.batch import decode_batch
from log_tier.model.batch_header import split_batches
from log_tier.model.errors import IndexDamaged, RowRejected
from log_tier.model.identifiers import Offset, PartitionId
from log_tier.model.record import Condition, Operation
from log_tier.rows.definition import TableDefinition
from serving_tier.fold.misfits import fits
from serving_tier.fold.verdicts import Verdict, rejection_of
from serving_tier.index.lmdb.lmdb_index import LmdbIndex
from serving_tier.index.memory_index import MemoryIndex

UA7, AA1 = flight_key("UA", 7), flight_key("AA", 1)
GOOD = put(UA7, flight("UA", 7))
MISFITS = {
    "no row": put(UA7, b"junk"),
    "nothing": put(UA7, b""),
    "an unknown schema": put(UA7, flight("UA", 7, schema=2)),
    "the row of another key": put(UA7, flight("UA", 8)),
    "a key that is none": put(b"UA7", flight("UA", 7)),
    "a row that goes on": put(UA7, flight("UA", 7) + b"\0"),
    "a number": add(UA7, b"1"),
}


@pytest.fixture(params=["in memory", "on disk"])
def index(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    if request.param == "in memory":
        yield MemoryIndex(definition=FLIGHTS)
        return
    opened = LmdbIndex.open(tmp_path / "index", partition=PartitionId(TABLE, PARTITION), definition=FLIGHTS)
    yield opened
    opened.close()


@pytest.fixture
def log() -> StoredLog:
    return StoredLog()


def test_rows_that_fit(index: Any, log: StoredLog) -> None:
    done = index.apply(log.append(GOOD, put(AA1, flight("AA", 1, "N1", 2.5))))
    assert (done.records, done.rejected, done.void) == (2, 0, 0)
    assert index.get_value(UA7) == flight("UA", 7)
    assert index.outcomes(Offset(0), Offset(1)) == {}


@pytest.mark.parametrize("misfit", MISFITS.values(), ids=MISFITS)
def test_one_misfit_among_rows(index: Any, log: StoredLog, misfit: Any) -> None:
    """Those that were written into the same batch take effect."""
    done = index.apply(log.append(GOOD, misfit, put(AA1, flight("AA", 1))))
    assert (done.records, done.rejected, done.void) == (3, 1, 1)
    assert index.get(UA7).version == 0, "the misfit changed nothing"
    assert index.get_value(AA1) == flight("AA", 1)
    assert index.count() == 2
    outcomes = index.outcomes(Offset(0), Offset(2))
    assert {offset: outcome.verdict for offset, outcome in outcomes.items()} == {1: Verdict.MISFIT}
    assert isinstance(rejection_of(Offset(1), outcomes[Offset(1)]), RowRejected)
    assert index.statistics().void == 1


def test_a_group_with_a_misfit_has_no_effect(index: Any, log: StoredLog) -> None:
    index.apply(log.append(GOOD))
    index.apply(log.append(put(AA1, flight("AA", 1)), put(UA7, b"junk", grouped=True)))
    assert (index.get_value(UA7), index.get(AA1)) == (flight("UA", 7), None)
    outcomes = index.outcomes(Offset(1), Offset(2))
    assert {outcome.verdict for outcome in outcomes.values()} == {Verdict.MISFIT}
    assert {outcome.failed for outcome in outcomes.values()} == {2}


def test_the_first_misfit_is_explained_and_all_are_counted(tmp_path: Path, log: StoredLog) -> None:
    index = LmdbIndex.open(tmp_path / "index", partition=PartitionId(TABLE, PARTITION), definition=FLIGHTS)
    chunk = log.append(GOOD, put(AA1, b"junk"), put(UA7, flight("UA", 8)), put(AA1, b"", grouped=True))
    done = index.fold_in([decode_batch(each) for each in split_batches(chunk)])
    assert (done.void, done.misfits) == (3, 3)
    assert done.first_misfit is not None
    assert done.first_misfit.offset == 1
    assert done.first_misfit.why.startswith("the value is no row")
    assert index.fold_in([decode_batch(each) for each in split_batches(log.append(GOOD))]).first_misfit is None
    index.close()


def test_a_misfit_is_judged_before_its_condition(index: Any, log: StoredLog) -> None:
    index.apply(log.append(put(UA7, b"junk", condition=Condition.PRESENT)))
    assert index.outcomes(Offset(0), Offset(0))[Offset(0)].verdict is Verdict.MISFIT


def test_deletes_and_conditions_on_rows(index: Any, log: StoredLog) -> None:
    index.apply(log.append(GOOD, put(UA7, flight("UA", 7, "N1"), condition=Condition.PRESENT), delete(b"no key")))
    assert index.get_value(UA7) == flight("UA", 7, "N1")
    assert index.outcomes(Offset(0), Offset(2)) == {}
    index.apply(log.append(delete(UA7)))
    assert index.get(UA7) is None


def test_many_like_records_are_judged_one_by_one(index: Any, log: StoredLog) -> None:
    """A run of records that ask for the same is decided on in columns, but not in a table with a definition."""
    records = [put(flight_key("UA", n), flight("UA", n), condition=Condition.ABSENT) for n in range(200)]
    records[150] = put(flight_key("UA", 150), b"junk", condition=Condition.ABSENT)
    done = index.apply(log.append(*records))
    assert (done.records, done.rejected, done.void) == (200, 1, 1)
    assert index.count() == 199


def test_a_large_group_of_rows_is_each_of_its_records(index: Any, log: StoredLog) -> None:
    """Its first record is a put, and others ask for something else."""
    rows = [put(flight_key("UA", n), flight("UA", n), grouped=n > 0) for n in range(20)]
    done = index.apply(log.append(*rows, delete(flight_key("UA", 3), grouped=True)))
    assert (done.records, done.rejected, index.count()) == (21, 0, 19)
    assert index.get(flight_key("UA", 3)) is None


@pytest.mark.parametrize("first", [{}, {"condition": Condition.ABSENT}], ids=["put", "put of what is absent"])
def test_a_large_group_of_rows_with_a_misfit_has_no_effect(index: Any, log: StoredLog, first: Any) -> None:
    index.apply(log.append(GOOD))
    rows = [put(flight_key("AA", n), flight("AA", n), grouped=n > 0, **first) for n in range(20)]
    for refused in (
        put(UA7, b"junk", grouped=True),
        put(UA7, flight("UA", 7), grouped=True, condition=Condition.ABSENT),
    ):
        done = index.apply(log.append(*rows[:10], refused, *[replace(row, grouped=True) for row in rows[10:]]))
        assert (done.rejected, index.count()) == (21, 1)
    assert index.get(UA7).version == 0


def test_a_batch_that_comes_twice_is_a_duplicate_and_no_misfit(index: Any, log: StoredLog) -> None:
    for _ in range(2):
        index.apply(log.append(GOOD, put(UA7, b"junk"), producer_id=9, sequence=1))
    outcomes = index.outcomes(Offset(2), Offset(3))
    assert outcomes[Offset(3)].verdict is Verdict.MISFIT, "the first copy's"
    assert outcomes[Offset(3)].duplicate_of == 1
    assert index.statistics().void == 1


@pytest.mark.parametrize("value", ["str", "json"])
def test_updates_of_texts(value: Any) -> None:
    """Numbers and longer texts are texts; half a character is none."""
    texts = TableDefinition(key="str", value=value)
    assert fits(texts, Operation.ADD, b"k", b"1")
    assert fits(texts, Operation.APPEND, b"k", "é".encode())
    assert not fits(texts, Operation.APPEND, b"k", "é".encode()[:1])
    assert not fits(texts, Operation.ADD, b"\xff", b"1")
    assert fits(texts, Operation.DELETE, b"\xff", b"")


def test_an_index_of_another_definition_is_not_served(tmp_path: Path) -> None:
    place = PartitionId(TABLE, PARTITION)
    LmdbIndex.open(tmp_path / "rows", partition=place, definition=FLIGHTS).close()
    LmdbIndex.open(tmp_path / "bytes", partition=place).close()
    LmdbIndex.open(tmp_path / "rows", partition=place, definition=FLIGHTS).close()
    for folder, definition in (
        ("rows", None),
        ("bytes", FLIGHTS),
        ("rows", FLIGHTS.numbered([2])),
        ("rows", TableDefinition(value="str")),
    ):
        with pytest.raises(IndexDamaged, match="was folded with another definition"):
            LmdbIndex.open(tmp_path / folder, partition=place, definition=definition)
