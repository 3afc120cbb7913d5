"""A table goes over to its next definition at a barrier, in either index, wherever a chunk ends."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kit.flight_rows import ALTERED_FLIGHTS, FLIGHTS, LATER_SCHEMA, flight, flight_key, later_flight
from kit.log.stored_log import PARTITION, TABLE, StoredLog, put

from log_tier.model.barrier import Barrier, barrier_batch
from log_tier.model.batch import Columns, decode_batch
from log_tier.model.batch_header import stamp_batch
from log_tier.model.errors import UnknownFormat
from log_tier.model.identifiers import Offset, PartitionId
from log_tier.model.record import Operation
from log_tier.rows.definition import TableDefinition
from log_tier.rows.schema import NumberedSchema, RowSchema
from serving_tier.fold.verdicts import Verdict
from serving_tier.index.lmdb.lmdb_index import LmdbIndex
from serving_tier.index.memory_index import MemoryIndex

PLACE = PartitionId(TABLE, PARTITION)
UA7, UA8 = flight_key("UA", 7), flight_key("UA", 8)
THIRD_SCHEMA = RowSchema.parse({**LATER_SCHEMA, "doc": "the third one"})
THIRD = ALTERED_FLIGHTS.with_schema(NumberedSchema(9, THIRD_SCHEMA))
OpenIndex = Callable[[], Any]


@pytest.fixture(params=["in memory", "on disk"])
def new_index(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OpenIndex]:
    made: list[Any] = []

    def make() -> Any:
        folder = tmp_path / f"index{len(made)}"
        made.append(
            MemoryIndex(definition=FLIGHTS)
            if request.param == "in memory"
            else LmdbIndex.open(folder, partition=PLACE, definition=FLIGHTS)
        )
        return made[-1]

    yield make
    for index in made:
        index.close()


class AlteredLog(StoredLog):
    """A log into which barriers are put."""

    def barrier(self, definition: TableDefinition, *, job: int | None = None, sequence: int | None = None) -> bytes:
        job = definition.number if job is None else job
        sequence = self.next_offset if sequence is None else sequence
        return self.add(barrier_batch(Barrier(1, job, definition=definition.text), producer_id=5, sequence=sequence))

    def add(self, batch: bytes) -> bytes:
        stored = stamp_batch(batch, base_offset=Offset(self.next_offset), timestamp_ms=self.time_ms, unsynced=0)
        self.next_offset += 1
        self.batches.append(stored)
        return stored


@pytest.fixture
def log() -> AlteredLog:
    return AlteredLog()


def void_in(index: Any, log: AlteredLog) -> list[int]:
    found = index.outcomes(Offset(0), Offset(log.next_offset - 1))
    return [offset for offset, outcome in found.items() if outcome.verdict is Verdict.MISFIT]


@pytest.mark.parametrize("at_once", [True, False])
def test_what_lies_before_a_barrier_is_judged_without_it(new_index: OpenIndex, log: AlteredLog, at_once: bool) -> None:
    log.append(put(UA7, later_flight("UA", 7)))
    log.append(put(UA7, flight("UA", 7)))
    log.barrier(ALTERED_FLIGHTS)
    log.append(put(UA7, later_flight("UA", 7)), put(UA8, b"junk"))
    log.append(put(UA8, flight("UA", 8)))
    index = new_index()
    for chunk in [b"".join(log.batches)] if at_once else log.batches:
        index.apply(chunk)
    assert void_in(index, log) == [0, 4]
    assert index.get_value(UA7) == later_flight("UA", 7)
    assert index.get_value(UA8) == flight("UA", 8), "the former schema stays one of the table"
    assert index.definition == ALTERED_FLIGHTS
    assert index.statistics().void == 2


def test_a_barrier_within_a_batch(new_index: OpenIndex, log: AlteredLog) -> None:
    """As the records of a Kafka batch may lie."""
    value = decode_batch(log.barrier(ALTERED_FLIGHTS)).columns.values[0]
    log.batches.clear()
    log.next_offset = 0
    row = later_flight("UA", 7)
    columns = Columns([UA7, b"", UA7], [row, value, row], attributes=[1, int(Operation.BARRIER), 1])
    index = new_index()
    index.apply(log.append(columns=columns))
    assert void_in(index, log) == [0]
    assert index.get(UA7).version == 2


def test_a_barrier_that_comes_late_changes_nothing(new_index: OpenIndex, log: AlteredLog) -> None:
    log.barrier(ALTERED_FLIGHTS, job=7, sequence=0)
    log.barrier(ALTERED_FLIGHTS, job=7, sequence=0)
    log.barrier(THIRD, job=9)
    log.barrier(ALTERED_FLIGHTS, job=8)
    index = new_index()
    index.apply(b"".join(log.batches))
    assert index.definition == THIRD
    assert [each.number for each in index.definition.schemas] == [1, 2, 9]
    assert index.outcomes(Offset(0), Offset(3))[Offset(1)].duplicate_of == 0


def test_a_definition_of_another_table_is_void(new_index: OpenIndex, log: AlteredLog) -> None:
    schema = {"type": "record", "name": "Plane", "fields": [{"name": "tailnum", "type": "string"}]}
    log.barrier(TableDefinition(value="row", schemas=(NumberedSchema(9, RowSchema.parse(schema)),)))
    log.append(put(UA7, flight("UA", 7)))
    index = new_index()
    index.apply(b"".join(log.batches))
    assert index.definition == FLIGHTS
    assert index.outcomes(Offset(0), Offset(0))[Offset(0)].verdict is Verdict.UNREADABLE
    assert index.get_value(UA7) == flight("UA", 7)


def test_a_table_of_bytes_stays_one(log: AlteredLog) -> None:
    index = MemoryIndex()
    index.apply(log.barrier(ALTERED_FLIGHTS) + log.append(put(b"k", b"v")))
    assert (index.definition, index.get_value(b"k")) == (None, b"v")


def test_a_newer_definition_stops_the_fold(new_index: OpenIndex, log: AlteredLog) -> None:
    document = {**ALTERED_FLIGHTS.to_document(), "v": 8}
    log.add(barrier_batch(Barrier(1, 3, definition=json.dumps(document)), producer_id=5, sequence=0))
    index = new_index()
    with pytest.raises(UnknownFormat, match="definition has format 8"):
        index.apply(b"".join(log.batches))
    assert index.applied == -1


def test_a_file_says_by_which_definition_it_goes_on(tmp_path: Path, log: AlteredLog) -> None:
    """Opened with the table's first one, as a replica opens it, whatever the catalog has heard of since."""
    index = LmdbIndex.open(tmp_path / "index", partition=PLACE, definition=FLIGHTS)
    index.apply(log.append(put(UA7, flight("UA", 7))))
    index.apply(log.barrier(ALTERED_FLIGHTS))
    index.close()
    again = LmdbIndex.open(tmp_path / "index", partition=PLACE, definition=THIRD)
    assert again.definition == ALTERED_FLIGHTS, "whatever the catalog has by now"
    again.apply(log.append(put(UA7, later_flight("UA", 7))))
    assert again.get_value(UA7) == later_flight("UA", 7)
    again.close()


def test_a_version_that_is_levelled_takes_the_definition_over(tmp_path: Path, log: AlteredLog) -> None:
    live = LmdbIndex.open(tmp_path / "live", partition=PLACE, definition=FLIGHTS)
    live.apply(log.append(put(UA7, flight("UA", 7))) + log.barrier(ALTERED_FLIGHTS))
    other = LmdbIndex.open(tmp_path / "other", partition=PLACE, definition=FLIGHTS)
    other.level_with(live)
    assert other.definition == ALTERED_FLIGHTS
    batch = decode_batch(log.append(put(UA7, later_flight("UA", 7))))
    effects = live.fold_in([batch])
    other.fold_in([batch], decided=frozenset(), carried=effects)
    for index in (live, other):
        index.close()
    again = LmdbIndex.open(tmp_path / "other", partition=PLACE, definition=FLIGHTS)
    assert again.definition == ALTERED_FLIGHTS
    again.close()


def test_a_standby_passes_the_barrier_with_the_live_one(tmp_path: Path, log: AlteredLog) -> None:
    live, other = (LmdbIndex.open(tmp_path / name, partition=PLACE, definition=FLIGHTS) for name in ("a", "b"))
    batch = decode_batch(log.barrier(ALTERED_FLIGHTS))
    other.fold_in([batch], decided=frozenset(), carried=live.fold_in([batch]))
    assert live.definition == other.definition == ALTERED_FLIGHTS
    for index in (live, other):
        index.close()
    again = LmdbIndex.open(tmp_path / "b", partition=PLACE, definition=FLIGHTS)
    assert again.definition == ALTERED_FLIGHTS
    again.close()
