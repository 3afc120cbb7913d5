"""A node compares itself with the log: equal, or these offsets are different; once for what was written, not again."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from kit.cluster.one_machine import DEADLINE_S, ZERO, one_machine, puts
from kit.deadlines import within

from log_tier.model.batch_header import read_header, split_batches
from log_tier.model.errors import Disconnected
from log_tier.model.identifiers import FIRST, Offset, PartitionId
from log_tier.rows.table_spec import TableSpec
from log_tier.tally.count import count_pieces
from log_tier.tally.period import PartitionTally
from log_tier.tally.proof import ReplicaProof
from router.data.local_data import LocalData
from router.data.requests import WritePart, WriteResult
from serving_tier.index.lmdb.lmdb_index import LmdbIndex
from serving_tier.proof.running_proof import RunningProof

BATCHES = 12


class ProvenTable:
    """A table with one partition, twelve batches of two records, and its proof, whose rounds a test calls."""

    def __init__(self, plane: LocalData, place: PartitionId) -> None:
        self.plane, self.place = plane, place
        self.reads = 0
        self.proof = RunningProof(self, plane.node, 3600.0)

    def __getattr__(self, name: str) -> Any:
        """The log, whose reads are counted."""
        return getattr(self.plane.log, name)

    def read(self, *place: Any, **how: Any) -> Any:
        self.reads += 1
        return self.plane.log.read(*place, **how)

    async def write(self, *keys: bytes) -> None:
        batch = puts(*((key, b"v") for key in keys))
        (done,) = await self.plane.write([WritePart(self.place, batch)], timeout=DEADLINE_S)
        assert isinstance(done, WriteResult), done
        await self.plane.node.replica(self.place).wait_applied(done.base_offset, timeout=DEADLINE_S)

    async def round(self) -> ReplicaProof:
        await self.proof.round(rest=0)
        return self.plane.node.proofs[self.place]

    async def tally_without(self, lost: Offset) -> PartitionTally:
        """What a replica would have counted that did not fold the batch at `lost`."""
        headers = []
        reader: Any = self.plane.log.read(self.place, FIRST, follow=False)
        async with aclosing(reader) as chunks:
            async for chunk in chunks:
                headers += [read_header(batch) for batch in split_batches(chunk.data)]
        periods = count_pieces((each for each in headers if each.base_offset != lost), start=FIRST, ends=())
        return PartitionTally(FIRST, headers[-1].last_offset, tuple(periods))


@pytest.fixture
async def machine(tmp_path: Path) -> AsyncIterator[ProvenTable]:
    async with one_machine(tmp_path) as plane:
        table = await plane.create_table(TableSpec("orders", 1), timeout=DEADLINE_S)
        made = ProvenTable(plane, table.partition(0))
        for number in range(BATCHES):
            await made.write(b"a%d" % number, b"b%d" % number)
        yield made
        await made.proof.close()


async def test_what_was_folded_is_proven_once(machine: ProvenTable) -> None:
    last = Offset(BATCHES * 2 - 1)
    assert await machine.round() == ReplicaProof(last, "")
    assert machine.reads == 1
    assert await machine.round() == ReplicaProof(last, "")
    assert machine.reads == 1, "nothing was written since"
    await machine.write(b"c")
    assert await machine.round() == ReplicaProof(Offset(last + 1), "")
    assert machine.reads == 2


async def test_a_replica_that_lost_a_batch_stays_different(
    machine: ProvenTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    tally = await machine.tally_without(Offset(6))
    with monkeypatch.context() as planted:
        planted.setattr(LmdbIndex, "tally", lambda self: tally)
        proof = await machine.round()
    assert proof.differs == "offsets 6 to 7 are in the log and were not folded here"
    await machine.write(b"c")
    assert (await machine.round()).differs == proof.differs, "what was read is wrong still"


async def test_a_watch_that_skipped_a_batch_is_named(machine: ProvenTable, monkeypatch: pytest.MonkeyPatch) -> None:
    table_id = machine.place.table
    async with within(DEADLINE_S), aclosing(machine.plane.watch(table_id, {ZERO: FIRST})) as events:
        await anext(events)
        event = await anext(events)
        assert event.latest == BATCHES * 2 - 1
        assert (await machine.round()).differs == ""
        ((_, tally),) = machine.plane.node.deliveries.of(machine.place)
        assert tally.applied == BATCHES * 2 - 1
    skipped = await machine.tally_without(Offset(8))
    monkeypatch.setattr(machine.plane.node.deliveries, "of", lambda place: iter([("watch 7", skipped)]))
    await machine.write(b"c")
    assert (await machine.round()).differs == "watch 7: offsets 8 to 9 are in the log and were not delivered here"


async def test_a_log_that_does_not_answer_is_asked_again(machine: ProvenTable, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refused(*place: Any, **how: Any) -> AsyncGenerator[Any, None]:
        raise Disconnected("the log is away")
        yield

    with monkeypatch.context() as planted:
        planted.setattr(machine, "read", refused, raising=False)
        await machine.proof.round(rest=0)
        assert machine.place not in machine.plane.node.proofs
    assert (await machine.round()).proven == BATCHES * 2 - 1


async def test_a_partition_that_has_gone_is_forgotten(machine: ProvenTable) -> None:
    await machine.round()
    await machine.plane.drop_table("orders", timeout=DEADLINE_S)
    async with within(DEADLINE_S):
        await machine.plane.hosting.settled()
    await machine.proof.round(rest=0)
    assert machine.plane.node.proofs == {}
