"""Patches in the fold, in either index: decided by log order, field by field."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kit.flight_rows import ALTERED_FLIGHTS, FLIGHTS, flight, flight_key, later_flight
from kit.log.stored_log import PARTITION, TABLE, Said, StoredLog, delete, put
from kit.rows.patches import patch_of

from log_tier.model.barrier import Barrier, barrier_batch
from log_tier.model.batch_header import stamp_batch
from log_tier.model.errors import FieldAbsent, RowAbsent, RowRejected
from log_tier.model.identifiers import Offset, PartitionId
from log_tier.model.record import Condition, Expiry, Operation
from log_tier.rows.definition import TableDefinition
from log_tier.rows.schema import NumberedSchema, RowSchema
from serving_tier.fold.verdicts import Verdict, rejection_of
from serving_tier.index.lmdb.lmdb_index import LmdbIndex
from serving_tier.index.memory_index import MemoryIndex

UA7, UA8 = flight_key("UA", 7), flight_key("UA", 8)
SCHEMA = FLIGHTS.schemas[0].schema
PLACE = PartitionId(TABLE, PARTITION)


def patch(key: bytes, *, grouped: bool = False, condition: Condition = Condition.NONE, **operations: Any) -> Said:
    return Said(Operation.PATCH, key, patch_of(SCHEMA, **operations), grouped=grouped, condition=condition)


LATER = patch(UA7, add={"dep_delay": 1.5})


@pytest.fixture(params=["in memory", "on disk"])
def index(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    if request.param == "in memory":
        yield MemoryIndex(definition=FLIGHTS)
        return
    opened = LmdbIndex.open(tmp_path / "index", partition=PLACE, definition=FLIGHTS)
    yield opened
    opened.close()


@pytest.fixture
def log() -> StoredLog:
    return StoredLog()


def verdicts(index: Any, log: StoredLog) -> dict[int, str]:
    found = index.outcomes(Offset(0), Offset(log.next_offset - 1))
    return {offset: outcome.verdict.name for offset, outcome in found.items()}


def test_a_row_is_patched(index: Any, log: StoredLog) -> None:
    done = index.apply(log.append(put(UA7, flight("UA", 7)), put(UA8, flight("UA", 8))))
    done = index.apply(log.append(patch(UA7, add={"dep_delay": 1.5}, set={"tailnum": "N1"})))
    assert (done.records, done.rejected) == (1, 0)
    assert index.get_value(UA7) == flight("UA", 7, "N1", 1.5)
    assert index.get(UA7).version == 2
    assert index.get_value(UA8) == flight("UA", 8)
    assert verdicts(index, log) == {}, "no result is kept"


@pytest.mark.parametrize("at_once", [True, False])
def test_patches_of_one_row_add_up_wherever_a_batch_ends(index: Any, log: StoredLog, at_once: bool) -> None:
    said = [
        put(UA7, flight("UA", 7)),
        LATER,
        patch(UA7, set={"tailnum": "N1"}),
        LATER,
        patch(UA7, multiply={"dep_delay": 2.0}),
    ]
    for records in [said] if at_once else [[each] for each in said]:
        index.apply(log.append(*records))
    assert index.get_value(UA7) == flight("UA", 7, "N1", 6.0)
    assert index.get(UA7).version == 4


def test_there_is_nothing_to_patch_where_there_is_no_row(index: Any, log: StoredLog) -> None:
    done = index.apply(log.append(LATER, put(UA7, flight("UA", 7)), delete(UA7), LATER))
    assert (done.records, done.rejected, done.void) == (4, 2, 0)
    assert index.get(UA7) is None
    assert verdicts(index, log) == {0: "NO_ROW", 3: "NO_ROW"}
    assert isinstance(rejection_of(Offset(0), index.outcomes(Offset(0), Offset(0))[Offset(0)]), RowAbsent)


def test_an_expiry_is_kept_and_set(index: Any, log: StoredLog) -> None:
    index.apply(log.append(put(UA7, flight("UA", 7), expiry=Expiry.TTL, expiry_ms=1000)))
    expires = index.get(UA7).expires_at_ms
    index.apply(log.append(LATER))
    assert (index.get(UA7).expires_at_ms, index.get_value(UA7)) == (expires, flight("UA", 7, None, 1.5))
    index.apply(log.append(Said(Operation.PATCH, UA7, LATER.value, expiry=Expiry.TTL, expiry_ms=5000)))
    assert index.get(UA7).expires_at_ms == expires + 4000
    index.apply(log.append(LATER, later_ms=5000))
    assert index.get(UA7) is None
    assert verdicts(index, log) == {3: "NO_ROW"}


def test_conditions_come_first(index: Any, log: StoredLog) -> None:
    index.apply(log.append(patch(UA7, add={"dep_delay": 1.0}, condition=Condition.PRESENT)))
    index.apply(log.append(put(UA7, flight("UA", 7))))
    wrong = Said(Operation.PATCH, UA7, LATER.value, Condition.VERSION, version=0)
    right = Said(Operation.PATCH, UA7, LATER.value, Condition.VERSION, version=1)
    index.apply(log.append(wrong, right, right))
    assert verdicts(index, log) == dict.fromkeys((0, 2, 4), "CONDITION_FAILED")
    assert index.get_value(UA7) == flight("UA", 7, None, 1.5)


def test_a_group_with_a_patch_that_cannot_be_has_no_effect(index: Any, log: StoredLog) -> None:
    index.apply(log.append(put(UA7, flight("UA", 7))))
    index.apply(
        log.append(
            LATER, patch(UA7, add={"dep_delay": 1.0}, grouped=True), patch(UA8, set={"tailnum": "N"}, grouped=True)
        )
    )
    assert index.get_value(UA7) == flight("UA", 7)
    found = index.outcomes(Offset(1), Offset(3))
    assert {(each.verdict, each.failed) for each in found.values()} == {(Verdict.NO_ROW, 3)}
    index.apply(
        log.append(
            put(UA8, flight("UA", 8)),
            patch(UA8, set={"tailnum": "N"}, grouped=True),
            patch(UA8, add={"dep_delay": 2.0}, grouped=True),
        )
    )
    assert index.get_value(UA8) == flight("UA", 8, "N", 2.0), "later records of a group see what earlier ones did"


def test_what_is_no_patch_is_void_and_what_cannot_be_is_not(index: Any, log: StoredLog) -> None:
    index.apply(log.append(put(UA7, flight("UA", 7))))
    done = index.apply(
        log.append(
            Said(Operation.PATCH, UA7, flight("UA", 7)),
            Said(Operation.PATCH, UA7, patch_of(SCHEMA, 9, set={"tailnum": "N"})),
            patch(UA7, set={"flight": 8}),
            Said(Operation.PATCH, UA8, b"junk"),
            patch(UA7, add={"dep_delay": 1e308}),
            patch(UA7, add={"dep_delay": 1e308}),
        )
    )
    assert (done.rejected, done.void) == (5, 4)
    assert verdicts(index, log) == {**dict.fromkeys((1, 2, 3, 4), "MISFIT"), 6: "NUMBER_OVERFLOW"}
    assert isinstance(rejection_of(Offset(1), index.outcomes(Offset(1), Offset(1))[Offset(1)]), RowRejected)
    assert index.get_value(UA7) == flight("UA", 7, None, 1e308)


def test_a_second_copy_is_a_duplicate(index: Any, log: StoredLog) -> None:
    index.apply(log.append(put(UA7, flight("UA", 7))))
    for _ in range(3):
        index.apply(log.append(LATER, producer_id=9, sequence=1))
    assert index.get_value(UA7) == flight("UA", 7, None, 1.5)
    assert {outcome.duplicate_of for outcome in index.outcomes(Offset(2), Offset(3)).values()} == {1}


def test_a_patch_behind_a_barrier_makes_the_row_one_of_the_next_schema(index: Any, log: StoredLog) -> None:
    later = ALTERED_FLIGHTS.schemas[1].schema
    gate = Said(Operation.PATCH, UA7, patch_of(later, 2, set={"gate": "B7"}))
    index.apply(log.append(put(UA7, flight("UA", 7)), gate))
    batch = barrier_batch(Barrier(1, 2, definition=ALTERED_FLIGHTS.text), producer_id=5, sequence=1)
    index.apply(stamp_batch(batch, base_offset=Offset(2), timestamp_ms=log.time_ms, unsynced=0))
    log.next_offset = 3
    index.apply(log.append(gate, patch(UA7, set={"tailnum": "N1"})))
    assert index.get_value(UA7) == later_flight("UA", 7, tailnum="N1")
    assert verdicts(index, log) == {1: "MISFIT"}, "the table did not have that schema there"


def test_fields_that_are_null(index: Any, log: StoredLog) -> None:
    index.apply(
        log.append(put(UA7, flight("UA", 7)), patch(UA7, append={"tailnum": "N1"}), patch(UA7, append={"tailnum": "2"}))
    )
    assert index.get_value(UA7) == flight("UA", 7, "N12")


def test_a_hindrance_names_its_change(log: StoredLog) -> None:
    field = {"name": "n", "type": ["null", "int"]}
    schema = RowSchema.parse({"type": "record", "name": "R", "fields": [field]})
    index = MemoryIndex(definition=TableDefinition(value="row", schemas=(NumberedSchema(1, schema),)))
    null = put(b"k", b"\0\0\0\0\1\0")
    index.apply(log.append(null, Said(Operation.PATCH, b"k", patch_of(schema, add={"n": 1}))))
    error = rejection_of(Offset(1), index.outcomes(Offset(1), Offset(1))[Offset(1)])
    assert isinstance(error, FieldAbsent)
    assert error.fields["change"] == 0
    assert "null in the row" in error.message


def test_a_table_of_bytes_has_no_fields(tmp_path: Path) -> None:
    for index in (MemoryIndex(), LmdbIndex.open(tmp_path / "index", partition=PLACE)):
        log = StoredLog()
        done = index.apply(log.append(put(UA7, b"x"), LATER, *[LATER] * 20))
        assert (done.rejected, index.get_value(UA7)) == (21, b"x")
        index.close()
