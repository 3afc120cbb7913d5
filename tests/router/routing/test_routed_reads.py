"""Reads over a real cluster: whatever happens to a node, the answer is right or an honest error."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from kit.cluster.in_process import DEADLINE_S, TestCluster, moved, taken_away, written
from kit.cluster.one_machine import held, puts
from kit.deadlines import patience_s, until, within

from log_tier.catalog.catalog import MapFeed
from log_tier.model.errors import (
    DuramenError,
    IndexDamaged,
    InvalidKey,
    NotHosted,
    ReplicaBehind,
    TableNotFound,
    TokenAhead,
)
from log_tier.model.identifiers import Offset, Partition, PartitionId
from log_tier.model.table_ref import TableRef
from router.data.requests import ReadPart, ReadResult, WritePart
from router.routing.hedge_budget import Budget
from router.routing.reads import RoutedReads
from router.routing.routes import Routes
from router.routing.scatter import Scatter

ZERO = Partition(0)


async def put(cluster: TestCluster, table: TableRef, key: bytes, value: bytes, partition: int = 0) -> Offset:
    result = await written(cluster.router, WritePart(PartitionId(table.id, Partition(partition)), puts((key, value))))
    return result.base_offset


async def read(
    cluster: TestCluster, *parts: ReadPart, timeout: float = DEADLINE_S, patience: float = 0.0
) -> Sequence[Any]:
    return await cluster.router.read(parts, timeout=timeout, patience=patience)


def value(result: ReadResult | DuramenError) -> bytes | None:
    assert isinstance(result, ReadResult), result
    return result.values[0]


async def test_a_read_is_never_older_than_it_asks(cluster: TestCluster, table: TableRef) -> None:
    for number in range(100):
        offset = await put(cluster, table, b"k", b"%d" % number)
        (found,) = await read(cluster, ReadPart(PartitionId(table.id, ZERO), [b"k"], offset))
        assert value(found) == b"%d" % number
        assert found.applied >= offset


async def test_reads_are_shared_by_the_nodes(cluster: TestCluster, table: TableRef) -> None:
    await put(cluster, table, b"k", b"v")
    reads = 0
    counted: Counter[str] = Counter()
    async with within(DEADLINE_S):
        while reads < 100 or min(counted.values()) <= 10:  # a node whose heartbeat is late is not drawn meanwhile
            await read(cluster, ReadPart(PartitionId(table.id, ZERO), [b"k"]))
            reads += 1
            counted = Counter({node.id: node.gated.asked.count("read") for node in cluster.nodes.values()})
    assert reads <= sum(counted.values()) <= reads + cluster.router.reads.questions.overtakings


async def test_parts_of_all_nodes_in_their_order(cluster: TestCluster, spread: TableRef) -> None:
    offsets = [await put(cluster, spread, b"k", b"%d" % number, number) for number in range(7)]
    parts = [
        ReadPart(PartitionId(spread.id, Partition(number)), [b"k"], offsets[number]) for number in (3, 0, 6, 1, 5, 2, 4)
    ]
    found = await read(
        cluster,
        *parts,
        ReadPart(PartitionId(spread.id, ZERO), [b""]),
        ReadPart(PartitionId(spread.id, ZERO), [b"k"], Offset(9)),
    )
    assert [value(result) for result in found[:7]] == [b"3", b"0", b"6", b"1", b"5", b"2", b"4"]
    assert [type(result) for result in found[7:]] == [InvalidKey, TokenAhead]
    assert await read(cluster) == []


@pytest.mark.parametrize("kill", ["stop", "stop_politely"])
async def test_no_read_fails_when_a_node_ends(cluster: TestCluster, table: TableRef, kill: str) -> None:
    offset = await put(cluster, table, b"k", b"v")
    parts = [ReadPart(PartitionId(table.id, ZERO), [b"k"], offset)]
    stop = asyncio.Event()
    answered = 0

    async def reader() -> None:
        nonlocal answered
        while not stop.is_set():
            (found,) = await cluster.router.read(parts, timeout=DEADLINE_S)
            assert value(found) == b"v"
            answered += 1

    readers = [asyncio.create_task(reader()) for _ in range(8)]
    await until(lambda: answered > 50)
    await getattr(cluster.nodes["n2"], kill)()
    seen = answered
    await until(lambda: answered > seen + 200)
    await cluster.nodes["n2"].start()
    await until(lambda: cluster.router.membership.members["n2"].alive)
    await until(lambda: "read" in cluster.nodes["n2"].gated.asked)
    stop.set()
    await asyncio.gather(*readers)


async def test_no_read_fails_when_a_node_stops_answering(cluster: TestCluster, table: TableRef) -> None:
    """And those that it kept are answered at other nodes, long before their deadline."""
    offset = await put(cluster, table, b"k", b"v")
    part = ReadPart(PartitionId(table.id, ZERO), [b"k"], offset)
    cluster.router.reads.questions.budget = Budget(share=0.0, most=0.0)  # nobody asks twice
    loop = asyncio.get_running_loop()

    async def timed() -> float:
        begun = loop.time()
        (found,) = await cluster.router.read([part], timeout=timeout)
        assert value(found) == b"v"
        return loop.time() - begun

    asked_n2 = cluster.nodes["n2"].gated.asked
    gate = cluster.nodes["n2"].gate
    timeout = patience_s(DEADLINE_S)
    async with within(DEADLINE_S):
        while True:
            while "read" not in asked_n2:  # it is known to have applied the offset, and its turn comes
                await timed()
            gate.shut()
            asked_n2.clear()
            took = await asyncio.gather(*(timed() for _ in range(60)))
            if "read" in asked_n2:
                break
            gate.open()  # its last heartbeat was late: it was not drawn, so once more
            await until(lambda: cluster.router.membership.members["n2"].alive)
    assert 0.3 < max(took) < timeout / 2
    asked = len(asked_n2)
    for _ in range(30):
        await timed()
    assert len(asked_n2) == asked, "it is not asked any more"


async def test_a_late_reply_is_overtaken(cluster: TestCluster, table: TableRef) -> None:
    offset = await put(cluster, table, b"k", b"v")
    await until(lambda: all(replica.applied >= offset for replica in cluster.replicas(table, 0)))
    part = ReadPart(PartitionId(table.id, ZERO), [b"k"], Offset(0))
    reads = cluster.router.reads
    reads.questions.lateness.late_s = 0.02
    reads.questions.budget = Budget(share=1.0)
    cluster.nodes["n2"].gated.slow_s = 60.0
    async with within(DEADLINE_S):
        # Until it was drawn: on a slow machine others are late, too, and are overtaken before.
        while "read" not in cluster.nodes["n2"].gated.asked:
            (found,) = await read(cluster, part)
            assert value(found) == b"v"
    assert reads.questions.overtakings, "another one answered first"


async def test_a_second_question_only_within_the_budget(cluster: TestCluster, table: TableRef) -> None:
    await put(cluster, table, b"k", b"v")
    reads = cluster.router.reads
    reads.questions.budget = Budget(share=0.0, most=2.0)
    for node in cluster.nodes.values():
        node.gated.slow_s = 0.1
    for _ in range(5):
        await read(cluster, ReadPart(PartitionId(table.id, ZERO), [b"k"]))
    assert reads.questions.overtakings == 2


async def test_a_lagging_replica_does_not_delay_a_read(cluster: TestCluster, table: TableRef) -> None:
    first, *_ = cluster.replicas(table, 0)
    with held(first):
        offset = await put(cluster, table, b"k", b"v")
        for _ in range(20):
            (found,) = await read(cluster, ReadPart(PartitionId(table.id, ZERO), [b"k"], offset))
            assert value(found) == b"v"


async def test_when_all_lag_the_reader_waits(cluster: TestCluster, table: TableRef) -> None:
    with held(*cluster.replicas(table, 0)):
        offset = await put(cluster, table, b"k", b"v")
        part = ReadPart(PartitionId(table.id, ZERO), [b"k"], offset)
        (behind,) = await read(cluster, part, timeout=patience_s(1.0))
        assert isinstance(behind, ReplicaBehind)
        (impatient,) = await read(cluster, part, patience=0.01)
        assert isinstance(impatient, ReplicaBehind)
        waiting = asyncio.create_task(read(cluster, part, timeout=DEADLINE_S))
        await asyncio.sleep(0)
        assert not waiting.done()
    (found,) = await waiting
    assert value(found) == b"v"


async def test_strong_reads_see_every_acknowledged_write(cluster: TestCluster, table: TableRef) -> None:
    for number in range(30):
        await put(cluster, table, b"k", b"%d" % number)
        (found,) = await read(cluster, ReadPart(PartitionId(table.id, ZERO), [b"k"], strong=True))
        assert value(found) == b"%d" % number


async def test_a_bounded_read_goes_by_the_replicas_lag(cluster: TestCluster, table: TableRef) -> None:
    replicas = cluster.replicas(table, 0)
    with held(*replicas):
        await put(cluster, table, b"k", b"v")
        await until(lambda: all(replica.progress.stale_s > 0.05 for replica in replicas))
        stale, bound = await read(
            cluster,
            ReadPart(PartitionId(table.id, ZERO), [b"k"]),
            ReadPart(PartitionId(table.id, ZERO), [b"k"], lag_max_ms=50),
            timeout=patience_s(1.0),
        )
        assert value(stale) is None
        assert isinstance(bound, ReplicaBehind)
    (found,) = await read(cluster, ReadPart(PartitionId(table.id, ZERO), [b"k"], lag_max_ms=50), timeout=DEADLINE_S)
    assert value(found) == b"v"


async def test_a_damaged_replica_does_not_matter(
    cluster: TestCluster, table: TableRef, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put(cluster, table, b"k", b"v")

    async def damaged(parts: Sequence[ReadPart], **_: object) -> list[DuramenError]:
        return [IndexDamaged("a page cannot be read")] * len(parts)

    for node in ("n1", "n2"):
        monkeypatch.setattr(cluster.nodes[node].data_plane, "read", damaged)
    for _ in range(20):
        (found,) = await read(cluster, ReadPart(PartitionId(table.id, ZERO), [b"k"], Offset(0)))
        assert value(found) == b"v"
    monkeypatch.setattr(cluster.nodes["n3"].data_plane, "read", damaged)
    (found,) = await read(cluster, ReadPart(PartitionId(table.id, ZERO), [b"k"], Offset(0)))
    assert isinstance(found, IndexDamaged)


async def test_a_replica_that_was_taken_away(cluster: TestCluster, table: TableRef) -> None:
    """The router's map is old: the node says that it does not hold the partition, and another one answers.

    The router hears from n2 and n3 that they hold it no more, and asks them first all the same: n1 counts as lost.
    """
    offset = await put(cluster, table, b"k", b"v")
    maps: Any = MapFeed()
    maps.advance(cluster.router.maps.map)
    routes = Routes(maps, cluster.router.membership)
    reads = RoutedReads(routes, Scatter(routes))
    for node in ("n2", "n3"):
        await taken_away(cluster, table, 0, node)
        hosted = cluster.nodes[node].data_plane.node.hosted
        await until(lambda hosted=hosted: (table.id, ZERO) not in hosted())  # type: ignore[misc]
    members = cluster.router.membership.members
    cluster.nodes["n1"].status_gate.shut()
    await until(lambda: not members["n1"].alive)
    await until(lambda: all((table.id, ZERO) not in members[node].view.replicas for node in ("n2", "n3")))
    part = ReadPart(PartitionId(table.id, ZERO), [b"k"], offset)
    async with within(DEADLINE_S):
        while min(cluster.nodes[node].gated.asked.count("read") for node in ("n2", "n3")) < 20:
            (found,) = await reads.read([part], timeout=DEADLINE_S, patience=0.0)
            assert value(found) == b"v"


async def test_a_replica_that_moves_while_it_is_read(cluster: TestCluster, spread: TableRef) -> None:
    offset = await put(cluster, spread, b"k", b"v")
    stop = asyncio.Event()

    async def reader() -> int:
        count = 0
        while not stop.is_set():
            (found,) = await read(cluster, ReadPart(PartitionId(spread.id, ZERO), [b"k"], offset))
            assert value(found) == b"v"
            count += 1
        return count

    readers = [asyncio.create_task(reader()) for _ in range(4)]
    (holder,) = (node.id for node in cluster.nodes.values() if (spread.id, ZERO) in node.data_plane.node.hosted())
    others = [node for node in cluster.nodes if node != holder]
    await moved(cluster, spread, 0, holder, others[0])
    await moved(cluster, spread, 0, others[0], others[1])
    await moved(cluster, spread, 0, others[1], holder)
    stop.set()
    assert all(count > 0 for count in await asyncio.gather(*readers))


async def test_the_only_node_of_a_partition_is_away(cluster: TestCluster, spread: TableRef) -> None:
    offset = await put(cluster, spread, b"k", b"v")
    (holder,) = (node for node in cluster.nodes.values() if (spread.id, ZERO) in node.data_plane.node.hosted())
    await holder.stop()
    part = ReadPart(PartitionId(spread.id, ZERO), [b"k"], offset)
    (away,) = await read(cluster, part, timeout=patience_s(0.5))
    assert isinstance(away, DuramenError)
    assert away.retryable
    waiting = asyncio.create_task(read(cluster, part, timeout=DEADLINE_S))
    await holder.start()
    (found,) = await waiting
    assert value(found) == b"v"


async def test_dropped_tables(cluster: TestCluster, table: TableRef) -> None:
    await put(cluster, table, b"k", b"v")
    await cluster.router.drop_table("flights", timeout=DEADLINE_S)
    (found,) = await read(
        cluster, ReadPart(PartitionId(table.id, ZERO), [b"k"]), timeout=3600.0
    )  # said at once, not at the end
    assert isinstance(found, TableNotFound)
    for node in cluster.nodes.values():
        await node.data_plane.hosting.wait_version(cluster.router.maps.map.version)
        (found,) = await node.data_plane.read([ReadPart(PartitionId(table.id, ZERO), [b"k"])], timeout=DEADLINE_S)
        assert isinstance(found, TableNotFound)


async def test_a_node_answers_only_for_what_it_holds(cluster: TestCluster, spread: TableRef) -> None:
    parts = [ReadPart(PartitionId(spread.id, Partition(number)), [b"k"]) for number in range(7)]
    for node in cluster.nodes.values():
        results = await node.data_plane.read(parts, timeout=DEADLINE_S)
        held_here = {number for number in range(7) if (spread.id, Partition(number)) in node.data_plane.node.hosted()}
        assert {n for n, result in enumerate(results) if isinstance(result, ReadResult)} == held_here
        assert {n for n, result in enumerate(results) if isinstance(result, NotHosted)} == set(range(7)) - held_here
