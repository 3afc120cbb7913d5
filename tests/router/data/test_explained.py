"""What is added to verdicts on records of a table with a definition, for writers who cannot see them."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from kit.flight_rows import FLIGHTS, flight, flight_key
from kit.rows.patches import patch_of

from log_tier.model.batch import Columns, encode_batch
from log_tier.model.errors import FieldAbsent, NumberOverflow, Rejected, RowAbsent, RowRejected
from log_tier.model.identifiers import Offset, Partition, PartitionId, table_id_from_bytes
from log_tier.model.record import Operation
from router.data import misfits
from router.data.misfits import all_explained
from router.data.requests import WriteOutcome, WritePart, WriteResult
from serving_tier.fold.misfits import misfit_reason

TABLE = table_id_from_bytes(bytes(16))
KEY = flight_key("UA", 7)
PATCH = patch_of(FLIGHTS.schemas[0].schema, set={"tailnum": "N1"}, add={"dep_delay": 1.0})
PUT, PATCHES, ADD = (int(each) for each in (Operation.PUT, Operation.PATCH, Operation.ADD))


def why(*records: tuple[int, bytes], refused: Rejected) -> Rejected:
    """What the writer of the last of these records, at the offsets from 40 on, hears of it."""
    columns = Columns([KEY] * len(records), [each[1] for each in records], [each[0] for each in records])
    part = WritePart(PartitionId(TABLE, Partition(0)), encode_batch(columns), outcomes=True)
    result = WriteResult(Offset(40), 0, [WriteOutcome(len(records) - 1, rejected=refused)])
    (found,) = all_explained([part], [result], {TABLE: FLIGHTS})
    assert isinstance(found, WriteResult)
    rejected = found.outcomes[0].rejected
    assert rejected is not None
    return rejected


def test_the_field_of_a_patch_is_named() -> None:
    kinds: list[type[Rejected]] = [NumberOverflow, FieldAbsent]
    for kind in kinds:
        found = why((PUT, flight("UA", 7)), (PATCHES, PATCH), refused=kind("beyond", offset=41, failed=41, change=1))
        assert type(found) is kind
        assert found.fields == {"offset": 41, "failed": 41, "field": "dep_delay"}
        assert found.message == "beyond: dep_delay"


async def test_a_thread_explains_many(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: set[int] = set()
    inner = misfit_reason

    def counted(*asked: Any) -> Any:
        threads.add(threading.get_ident())
        return inner(*asked)

    monkeypatch.setattr(misfits, "misfit_reason", counted)
    count = 500
    part = WritePart(PartitionId(TABLE, Partition(0)), encode_batch(Columns([KEY] * count, [b"junk"] * count)))
    refused = RowRejected("void", offset=40, failed=40)
    result = WriteResult(Offset(40), 0, [WriteOutcome(number, rejected=refused) for number in range(count)])
    (found,) = await misfits.explained([part], [result], {TABLE: FLIGHTS})
    assert isinstance(found, WriteResult)
    assert len(found.outcomes) == count
    assert threads
    assert threading.get_ident() not in threads


def test_what_names_no_field_stays_as_it_is() -> None:
    errors: list[Rejected] = [NumberOverflow("beyond", offset=40, failed=40), RowAbsent("no row", offset=40, failed=40)]
    for error in errors:
        assert why((PATCHES, PATCH), refused=error) is error
    wrong = FieldAbsent("null", offset=40, failed=40, change=7)
    assert why((PATCHES, PATCH), refused=wrong) is wrong
    assert why((PUT, b"junk"), refused=wrong) is wrong, "this process knows another definition"


def test_a_misfit_is_explained_by_its_operation() -> None:
    for operation, value, reason in (
        (PUT, b"junk", "the value is no row"),
        (ADD, b"1", "takes no arithmetic"),
        (PATCHES, b"junk", "the value is no patch"),
        (PATCHES, patch_of(FLIGHTS.schemas[0].schema, set={"flight": 8}), "the field flight: it is a field of the key"),
    ):
        found = why((operation, value), refused=RowRejected("void", offset=40, failed=40))
        assert isinstance(found, RowRejected)
        assert reason in found.message
