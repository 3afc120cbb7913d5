"""The core: what a read, a write, a scan mean, part by part."""

from __future__ import annotations

import asyncio

import pytest
from kit.cluster.one_machine import (
    DEADLINE_S,
    NO_TABLE,
    ONE,
    ZERO,
    all_replicas,
    hears_of_no_table,
    held,
    operations,
    put_all,
    puts,
    read,
    write,
)
from kit.deadlines import patience_s

from log_tier.model.errors import (
    BatchRefused,
    ConditionFailed,
    DeadlineExceeded,
    InvalidKey,
    LimitExceeded,
    LogDamaged,
    NotANumber,
    ReplicaBehind,
    TableNotFound,
    TokenAhead,
    UnknownFormat,
    WriteUnknown,
)
from log_tier.model.identifiers import Offset, Partition, PartitionId
from log_tier.model.log import Bounds
from log_tier.model.partitioner import partition_of
from log_tier.model.record import Condition, Operation
from log_tier.model.table_ref import TableRef
from log_tier.rows.table_spec import TableSpec
from router.data.local_data import LocalData
from router.data.requests import PARTS_MAX, READ_KEYS_MAX, ReadPart, ReadResult, ScanRequest, WritePart, WriteResult

MIB = 1 << 20


# --- reads


async def test_parts_are_answered_or_fail_by_themselves(data_plane: LocalData, table: TableRef) -> None:
    place = await write(data_plane, table, 0, puts((b"a", b"1"), (b"b", b"")))
    results = await read(
        data_plane,
        ReadPart(PartitionId(table.id, ZERO), [b"b", b"absent", b"a"], Offset(place.base_offset + 1)),
        ReadPart(PartitionId(NO_TABLE, ZERO), [b"a"]),
        ReadPart(PartitionId(table.id, Partition(99)), [b"a"]),
        ReadPart(PartitionId(table.id, ZERO), [b""]),
        ReadPart(PartitionId(table.id, ZERO), [b"a", b"x" * 512]),
        ReadPart(PartitionId(table.id, ONE), [b"a"], Offset(5)),
        ReadPart(PartitionId(table.id, ONE), []),
    )
    assert results[0] == ReadResult(Offset(1), [b"", None, b"1"], [1, -1, 0], None)
    assert [type(result) for result in results[1:6]] == [
        TableNotFound,
        TableNotFound,
        InvalidKey,
        InvalidKey,
        TokenAhead,
    ]
    assert "flights has partitions 0 to 3, not 99" in str(results[2])
    assert results[6] == ReadResult(Offset(-1), [], [], None)


async def test_a_part_that_must_wait_fails_after_its_patience(data_plane: LocalData, table: TableRef) -> None:
    with held(data_plane.node.replica(PartitionId(table.id, ZERO))):
        place = await write(data_plane, table, 0, puts((b"a", b"1")))
        behind, fresh = await read(
            data_plane,
            ReadPart(PartitionId(table.id, ZERO), [b"a"], place.base_offset),
            ReadPart(PartitionId(table.id, ONE), [b"a"]),
            patience=0.01,
        )
        assert isinstance(behind, ReplicaBehind)
        assert isinstance(fresh, ReadResult)
    (found,) = await read(data_plane, ReadPart(PartitionId(table.id, ZERO), [b"a"], place.base_offset))
    assert found.values == [b"1"]


async def test_a_log_that_does_not_tell_its_end_in_time_is_a_replica_behind(
    data_plane: LocalData, table: TableRef, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The asker then goes to another replica, or comes again with more time, as it does for one that lags."""

    async def silent(*_: object) -> Bounds:
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(data_plane.log, "bounds", silent)
    for how in ({"patience": 0.01}, {"timeout": 0.01}):
        (behind,) = await read(data_plane, ReadPart(PartitionId(table.id, ZERO), [b"a"], strong=True), **how)
        assert isinstance(behind, ReplicaBehind)
        assert behind.fields == {"partition": 0, "applied": -1, "latest": -1}
        assert "other levels than strong" in behind.message


async def test_a_table_that_is_not_looked_up_within_the_patience_is_a_replica_behind(
    data_plane: LocalData, table: TableRef, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client asks again with more time then; a DeadlineExceeded ends its call after the patience of 20 ms."""

    hears_of_no_table(data_plane, monkeypatch)
    part = ReadPart(PartitionId(table.id, ZERO), [b"a"])
    (behind,) = await read(data_plane, part, patience=0.01)
    assert isinstance(behind, ReplicaBehind)
    (late,) = await read(data_plane, part, timeout=0.01)
    assert type(late) is DeadlineExceeded


async def test_strong_waits_for_what_the_log_holds(data_plane: LocalData, table: TableRef) -> None:
    with held(data_plane.node.replica(PartitionId(table.id, ZERO))):
        await write(data_plane, table, 0, puts((b"a", b"1")))
        eventual, strong = await read(
            data_plane,
            ReadPart(PartitionId(table.id, ZERO), [b"a"]),
            ReadPart(PartitionId(table.id, ZERO), [b"a"], strong=True),
            timeout=0.02,
        )
        assert eventual.values == [None]
        assert isinstance(strong, ReplicaBehind)
    (strong,) = await read(data_plane, ReadPart(PartitionId(table.id, ZERO), [b"a"], strong=True))
    assert strong.values == [b"1"]


async def test_the_budget_of_a_reply_is_shared_by_its_parts(data_plane: LocalData, table: TableRef) -> None:
    """Ten parts of 4 MiB fit one by one and not together: those that do not fit say so, in their place."""
    value = bytes(4 * MIB)
    places = [await write(data_plane, table, number % 4, puts((b"k%d" % number, value))) for number in range(10)]
    parts = [
        ReadPart(PartitionId(table.id, Partition(number % 4)), [b"k%d" % number], place.base_offset)
        for number, place in enumerate(places)
    ]
    results = await read(data_plane, *parts)
    assert [type(result) for result in results] == [ReadResult] * 8 + [LimitExceeded] * 2
    assert results[9].fields == {"limit": 0, "size": 4 * MIB}
    (alone,) = await read(data_plane, parts[9])
    assert alone.values == [value]


@pytest.mark.parametrize("strong", [False, True])
async def test_too_many_keys_or_parts(data_plane: LocalData, table: TableRef, strong: bool) -> None:
    with pytest.raises(LimitExceeded, match=f"at most {READ_KEYS_MAX} keys, this one for {READ_KEYS_MAX + 1}"):
        await read(data_plane, ReadPart(PartitionId(table.id, ZERO), [b"k"] * (READ_KEYS_MAX + 1), strong=strong))
    with pytest.raises(LimitExceeded, match=f"at most {PARTS_MAX} parts"):
        await read(data_plane, *[ReadPart(PartitionId(table.id, ZERO), [], strong=strong)] * (PARTS_MAX + 1))
    with pytest.raises(LimitExceeded, match=f"at most {PARTS_MAX} parts"):
        await data_plane.write([WritePart(PartitionId(table.id, ZERO), b"")] * (PARTS_MAX + 1), timeout=DEADLINE_S)


async def test_a_stopped_replica_says_why_and_serves_what_it_has(
    data_plane: LocalData, table: TableRef, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await write(data_plane, table, 0, puts((b"a", b"1")), outcomes=True)
    replica = data_plane.node.replica(PartitionId(table.id, ZERO))

    def fail(batches: object) -> object:
        raise LogDamaged("byte 77 does not hold", position=77)

    monkeypatch.setattr(replica.index, "fold_in", fail)
    (unknown,) = await data_plane.write(
        [WritePart(PartitionId(table.id, ZERO), puts((b"a", b"2")), True)], timeout=DEADLINE_S
    )
    assert isinstance(unknown, WriteUnknown)
    assert "byte 77" in unknown.message
    assert unknown.fields == {"offset": 1, "partition": 0}
    satisfied, later, strong = await read(
        data_plane,
        ReadPart(PartitionId(table.id, ZERO), [b"a"], first.base_offset),
        ReadPart(PartitionId(table.id, ZERO), [b"a"], Offset(1)),
        ReadPart(PartitionId(table.id, ZERO), [b"a"], strong=True),
    )
    assert satisfied.values == [b"1"]
    assert isinstance(later, LogDamaged)
    assert isinstance(strong, LogDamaged)
    description = await data_plane.describe_table("flights", timeout=DEADLINE_S)
    assert (description.partitions[0].state, description.partitions[0].reason) == ("stopped", "byte 77 does not hold")


# --- writes


async def test_writes_fail_by_themselves(data_plane: LocalData, table: TableRef) -> None:
    good = puts((b"a", b"1"))
    flipped = bytearray(good)
    flipped[-1] ^= 1
    results = await data_plane.write(
        [
            WritePart(PartitionId(table.id, ZERO), good),
            WritePart(PartitionId(table.id, ZERO), b"rubbish"),
            WritePart(PartitionId(table.id, ZERO), bytes(flipped)),
            WritePart(PartitionId(table.id, ZERO), good[:4] + b"\x63" + good[5:]),
            WritePart(PartitionId(table.id, Partition(4)), good),
            WritePart(PartitionId(NO_TABLE, ZERO), good),
        ],
        timeout=DEADLINE_S,
    )
    kinds = [type(result) for result in results]
    assert kinds == [WriteResult, BatchRefused, BatchRefused, UnknownFormat, TableNotFound, TableNotFound]
    assert "checksum" in str(results[2])
    assert "format version 99, this process reads up to version 2" in str(results[3])
    assert (await data_plane.log.bounds(PartitionId(table.id, ZERO))).latest == 0


async def test_outcomes_tell_what_became_of_each_record(data_plane: LocalData, table: TableRef) -> None:
    result = await write(
        data_plane,
        table,
        0,
        operations(
            (Operation.PUT, b"n", b"5"),
            (Operation.ADD, b"n", b"2"),
            (Operation.PUT, b"t", b"text"),
            (Operation.ADD, b"t", b"1"),
            (Operation.APPEND, b"t", b"!!"),
        ),
        outcomes=True,
    )
    verdicts = {outcome.record: (type(outcome.rejected), outcome.result) for outcome in result.outcomes}
    assert verdicts == {1: (type(None), b"7"), 3: (NotANumber, None), 4: (type(None), b"6")}


async def test_a_second_copy_gets_the_first_ones_answer(data_plane: LocalData, table: TableRef) -> None:
    await write(data_plane, table, 0, puts((b"other", b"")))
    batch = operations((Operation.ADD, b"n", b"2"), (Operation.ADD, b"n", b"3"), producer_id=9, sequence=4)
    first = await write(data_plane, table, 0, batch, outcomes=True)
    second = await write(data_plane, table, 0, batch, outcomes=True)
    assert [outcome.result for outcome in second.outcomes] == [b"2", b"5"]
    assert [outcome.original for outcome in second.outcomes] == [first.base_offset, first.base_offset + 1]


async def test_a_second_copy_of_a_rejected_write_names_the_first_ones_offset(
    data_plane: LocalData, table: TableRef
) -> None:
    batch = operations((Operation.PUT, b"k", b"v"), condition=Condition.PRESENT, producer_id=9, sequence=4)
    for copy in range(2):
        result = await write(data_plane, table, 0, batch, outcomes=True)
        (outcome,) = result.outcomes
        assert isinstance(outcome.rejected, ConditionFailed)
        assert outcome.rejected.fields == {"offset": 0, "actual": -1, "failed": 0}
        assert result.base_offset == copy


async def test_a_replica_that_lags_leaves_the_outcome_unknown_and_the_write_written(
    data_plane: LocalData, table: TableRef
) -> None:
    with held(data_plane.node.replica(PartitionId(table.id, ZERO))):
        plain, judged = await data_plane.write(
            [
                WritePart(PartitionId(table.id, ONE), puts((b"a", b"1"))),
                WritePart(PartitionId(table.id, ZERO), puts((b"b", b"1")), True),
            ],
            timeout=patience_s(1.0),
        )
    assert isinstance(plain, WriteResult)
    assert isinstance(judged, WriteUnknown)
    assert judged.fields == {"offset": 0, "partition": 0}
    (found,) = await read(data_plane, ReadPart(PartitionId(table.id, ZERO), [b"b"], Offset(0)))
    assert found.values == [b"1"]


# --- scans


async def test_a_scan_covers_all_partitions_in_order(data_plane: LocalData, table: TableRef) -> None:
    model = {b"k%03d" % number: b"v%d" % number for number in range(300)}
    after = await put_all(data_plane, table, model)
    page = await data_plane.scan(ScanRequest(table.id, limit=1000, after=after), timeout=DEADLINE_S)
    assert (dict(zip(page.keys, page.values, strict=True)), list(page.keys)) == (model, sorted(model))
    assert not page.more
    assert page.applied == after


async def test_a_page_of_large_values_fits_into_a_reply(data_plane: LocalData) -> None:
    """16 partitions give at least one entry each: 64 MiB, more than a message carries."""
    table = await data_plane.create_table(TableSpec("large", partitions=16), timeout=DEADLINE_S)
    keys: dict[Partition, bytes] = {}
    number = 0
    while len(keys) < 16:
        key = b"k%d" % number
        keys.setdefault(partition_of(key, 16), key)
        number += 1
    after = await put_all(data_plane, table, dict.fromkeys(keys.values(), bytes(4 * MIB)))
    seen: list[bytes] = []
    start, more = b"", True
    while more:
        page = await data_plane.scan(ScanRequest(table.id, start=start, limit=1000, after=after), timeout=DEADLINE_S)
        assert 1 <= len(page.values) <= 3
        seen += page.keys
        start, more = page.keys[-1] + b"\x00", page.more
    assert seen == sorted(keys.values())


@pytest.mark.parametrize("limit", [0, 10_001])
async def test_a_page_of_a_size_that_is_not_served(data_plane: LocalData, table: TableRef, limit: int) -> None:
    with pytest.raises(LimitExceeded, match=f"1 to 10000 entries, not {limit}"):
        await data_plane.scan(ScanRequest(table.id, limit=limit), timeout=DEADLINE_S)


async def test_a_scan_that_waits_in_vain(data_plane: LocalData, table: TableRef) -> None:
    with held(*all_replicas(data_plane, table)):
        await write(data_plane, table, 0, puts((b"a", b"1")))
        with pytest.raises(ReplicaBehind):
            await data_plane.scan(ScanRequest(table.id, strong=True), timeout=0.02)
    with pytest.raises(TokenAhead):
        await data_plane.scan(ScanRequest(table.id, after={ONE: Offset(3)}), timeout=DEADLINE_S)
    with pytest.raises(TableNotFound):
        await data_plane.scan(ScanRequest(NO_TABLE), timeout=DEADLINE_S)
