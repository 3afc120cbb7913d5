"""Watches over nodes that come and go: every change once, in order, from any position."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import aclosing
from typing import Any, cast

import pytest
from kit.cluster.in_process import DEADLINE_S, TestCluster, moved, written
from kit.cluster.one_machine import NO_TABLE, ZERO, held, operations, puts
from kit.deadlines import patience_s, until

from log_tier.model.batch import decode_batch
from log_tier.model.batch_header import split_batches
from log_tier.model.errors import Disconnected, InvalidRequest, OffsetTrimmed, TableNotFound
from log_tier.model.identifiers import Offset, Partition, PartitionId
from log_tier.model.record import Condition, Operation
from log_tier.model.table_ref import TableRef
from router.data.requests import WritePart


class Watcher:
    """Reads events as a client does: by its own positions."""

    def __init__(self, cluster: TestCluster, table: TableRef, start: Mapping[Partition, Offset]) -> None:
        self.positions: dict[Partition, Offset] = {}
        self.seen: dict[Partition, list[Offset]] = {}
        self.void: set[tuple[Partition, Offset]] = set()
        self.begun = asyncio.Event()
        self.failure: BaseException | None = None
        self._watch: Any = cluster.router.watch(table.id, start)
        self.task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        async with aclosing(self._watch) as events:
            async for event in events:
                if event.positions is not None:
                    assert not self.begun.is_set(), "positions come once"
                    self.positions.update(event.positions)
                    self.begun.set()
                    continue
                for data in split_batches(event.batches):
                    for offset in decode_batch(data).offsets():
                        if offset >= self.positions[event.partition]:
                            self.seen.setdefault(event.partition, []).append(Offset(offset))
                            self.positions[event.partition] = Offset(offset + 1)
                self.void |= {(event.partition, offset) for offset in event.void_offsets}

    async def close(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


async def fill(cluster: TestCluster, table: TableRef, count: int) -> None:
    for number in range(count):
        await written(
            cluster.router, WritePart(PartitionId(table.id, Partition(number % table.partitions)), puts((b"k", b"v")))
        )


async def test_from_now_and_from_the_beginning(cluster: TestCluster, table: TableRef) -> None:
    await fill(cluster, table, 8)
    now, earliest = Watcher(cluster, table, {}), Watcher(cluster, table, {Partition(n): Offset(0) for n in range(4)})
    await asyncio.wait_for(asyncio.gather(now.begun.wait(), earliest.begun.wait()), patience_s(DEADLINE_S))
    assert now.positions == {Partition(n): 2 for n in range(4)}
    await fill(cluster, table, 4)
    await until(lambda: len(now.seen) == 4 and sum(map(len, earliest.seen.values())) == 12)
    assert now.seen == {Partition(n): [2] for n in range(4)}
    assert earliest.seen == {Partition(n): [0, 1, 2] for n in range(4)}
    await now.close()
    await earliest.close()


@pytest.mark.parametrize("fault", ["stop", "silence"])
async def test_no_gap_and_no_duplicate_when_nodes_are_lost(cluster: TestCluster, table: TableRef, fault: str) -> None:
    watcher = Watcher(cluster, table, {Partition(n): Offset(0) for n in range(4)})
    await asyncio.wait_for(watcher.begun.wait(), patience_s(DEADLINE_S))
    for round_number, name in enumerate(("n1", "n2", "n3", "n1")):
        node = cluster.nodes[name]
        if fault == "stop":
            await node.stop()
        else:
            node.gate.shut()
        await fill(cluster, table, 40)
        wanted = 10 * (round_number + 1)
        await until(lambda wanted=wanted: sum(map(len, watcher.seen.values())) == 4 * wanted)  # type: ignore[misc]
        if fault == "stop":
            await node.start()
        else:
            node.gate.open()
        await until(lambda name=name: cluster.router.membership.members[name].alive)  # type: ignore[misc]
    assert watcher.seen == {Partition(n): list(range(40)) for n in range(4)}
    await watcher.close()


async def test_a_partition_that_moves_is_followed(cluster: TestCluster, spread: TableRef) -> None:
    watcher = Watcher(cluster, spread, {Partition(n): Offset(0) for n in range(7)})
    await asyncio.wait_for(watcher.begun.wait(), patience_s(DEADLINE_S))
    await fill(cluster, spread, 14)
    (holder,) = (
        node.id for node in cluster.nodes.values() if (spread.id, Partition(0)) in node.data_plane.node.hosted()
    )
    target = next(node for node in cluster.nodes if node != holder)
    await moved(cluster, spread, 0, holder, target)
    await fill(cluster, spread, 14)
    await until(lambda: watcher.task.done() or sum(map(len, watcher.seen.values())) == 28)
    if watcher.task.done():
        await watcher.task
    assert watcher.seen == {Partition(n): [0, 1, 2, 3] for n in range(7)}
    await watcher.close()


async def test_records_that_changed_nothing_are_named(cluster: TestCluster, table: TableRef) -> None:
    await written(cluster.router, WritePart(PartitionId(table.id, Partition(0)), puts((b"k", b"v"))))
    refused = operations((Operation.PUT, b"k", b"w"), condition=Condition.ABSENT)
    await written(cluster.router, WritePart(PartitionId(table.id, Partition(0)), refused))
    watcher = Watcher(cluster, table, {Partition(n): Offset(0) for n in range(4)})
    await until(lambda: watcher.seen.get(Partition(0)) == [0, 1])
    assert watcher.void == {(Partition(0), Offset(1))}
    await watcher.close()


async def test_when_no_node_is_left_the_watcher_gets_an_error(cluster: TestCluster, table: TableRef) -> None:
    watcher = Watcher(cluster, table, {})
    await asyncio.wait_for(watcher.begun.wait(), patience_s(DEADLINE_S))
    for node in cluster.nodes.values():
        await node.stop()
    with pytest.raises(Disconnected, match="cannot be watched now"):
        await asyncio.wait_for(watcher.task, patience_s(DEADLINE_S))


async def test_a_trimmed_start_names_the_earliest(
    cluster: TestCluster, table: TableRef, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(cluster, table, 40)
    for remembered, replica in zip((7, 4, 6), cluster.replicas(table, 1), strict=True):
        await replica.wait_applied(Offset(9), timeout=DEADLINE_S)
        monkeypatch.setattr(
            type(replica.index), "verdicts_from", property(lambda index: index.__dict__.get("kept", 0)), raising=True
        )
        replica.index.__dict__["kept"] = Offset(remembered)
    watcher = Watcher(cluster, table, {Partition(1): Offset(2)})
    with pytest.raises(OffsetTrimmed) as caught:
        await asyncio.wait_for(watcher.task, patience_s(DEADLINE_S))
    assert caught.value.fields == {"partition": 1, "asked": 2, "earliest": 4}
    again = Watcher(cluster, table, {Partition(1): Offset(4)})
    await until(lambda: again.seen.get(Partition(1)) == [4, 5, 6, 7, 8, 9])
    await again.close()


async def test_wrong_watches(cluster: TestCluster, table: TableRef) -> None:
    for watch, error in (
        (cluster.router.watch(NO_TABLE, {}), TableNotFound),
        (cluster.router.watch(table.id, {Partition(9): Offset(0)}), InvalidRequest),
        (cluster.router.watch(table.id, {Partition(1): Offset(0)}, [Partition(0)]), InvalidRequest),
    ):
        with pytest.raises(error):
            await anext(watch)


async def test_a_dropped_table_ends_its_watch(cluster: TestCluster, table: TableRef) -> None:
    watcher = Watcher(cluster, table, {})
    await asyncio.wait_for(watcher.begun.wait(), patience_s(DEADLINE_S))
    await cluster.router.drop_table("flights", timeout=DEADLINE_S)
    with pytest.raises(TableNotFound):
        await asyncio.wait_for(watcher.task, patience_s(DEADLINE_S))


async def test_a_watch_from_now_begins_at_the_end_of_the_log_and_not_of_a_replica(
    cluster: TestCluster, table: TableRef
) -> None:
    """What is acknowledged before the first event came is not shown, and all that comes after it is."""
    await written(cluster.router, WritePart(PartitionId(table.id, ZERO), puts((b"a", b"1"))))
    replicas = cluster.replicas(table, ZERO)
    for replica in replicas:
        await replica.wait_applied(Offset(0), timeout=DEADLINE_S)
    with held(*replicas):
        done = await written(cluster.router, WritePart(PartitionId(table.id, ZERO), puts((b"b", b"2"))))
        async with aclosing(cast("Any", cluster.router.watch(table.id, {}))) as events:
            first = await anext(events)
    assert first.positions[ZERO] == done.base_offset + 1
