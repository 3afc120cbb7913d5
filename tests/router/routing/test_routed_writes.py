"""Writes: straight to the log, or through somebody who reaches it; and what becomes of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from kit.cluster.in_process import DEADLINE_S, TestCluster, written
from kit.cluster.one_machine import NO_TABLE, held, operations, puts
from kit.deadlines import patience_s, until_true, within
from kit.flight_rows import UNNUMBERED_FLIGHTS

from log_tier.catalog.catalog import Maps
from log_tier.catalog.cluster_map import ClusterMap
from log_tier.model.errors import BatchRefused, ConditionFailed, DuramenError, RowRejected, TableNotFound, WriteUnknown
from log_tier.model.identifiers import Offset, Partition, PartitionId
from log_tier.model.record import Condition, Operation
from log_tier.model.table_ref import TableRef
from log_tier.remote.remote_log import RemoteLog
from log_tier.rows.table_spec import TableSpec
from router.data.requests import OutcomesPart, WritePart, WriteResult
from router.remote.grpc_connection import GrpcConnection
from router.routing.hedge_budget import Budget
from router.routing.routed_connection import RoutedConnection
from router.routing.tables import RemoteChanges

ZERO = Partition(0)
ADD = operations((Operation.ADD, b"n", b"1"))
ABSENT = operations((Operation.PUT, b"k", b"w"), condition=Condition.ABSENT)


def through(cluster: TestCluster, log: Any) -> RoutedConnection:
    """A connection like a client's: with this log, and the router to fall back to."""
    router = cluster.routers[0]
    server = GrpcConnection(router.address)
    return RoutedConnection(
        router.catalog, router.connection.membership, changes=RemoteChanges(server), log=log, fallback=server
    )


class OldMap:
    """Maps of which this process has none, until it waits for one."""

    def __init__(self, maps: Maps) -> None:
        self._maps, self.map = maps, ClusterMap()

    async def wait_for(self, predicate: Callable[[ClusterMap], bool], *, timeout: float | None = None) -> ClusterMap:
        self.map = await self._maps.wait_for(predicate, timeout=timeout)
        return self.map

    async def close(self) -> None:
        """The maps are another one's."""


async def test_what_does_not_fit_a_table_that_this_process_does_not_know_yet(cluster: TestCluster) -> None:
    """A client may know a table of one server, and write to it through another one, whose map is older."""
    spec = TableSpec("rows", partitions=2, definition=UNNUMBERED_FLIGHTS)
    table = await cluster.router.create_table(spec, timeout=DEADLINE_S)
    await cluster.hosted(table)
    router, server = cluster.routers[0], GrpcConnection(cluster.routers[0].address)
    connection = RoutedConnection(
        OldMap(router.catalog), router.connection.membership, changes=RemoteChanges(server), log=cluster.log.log
    )
    try:
        result = await written(connection, WritePart(PartitionId(table.id, ZERO), puts((b"k", b"no row"))))
        assert isinstance(result.outcomes[0].rejected, RowRejected)
    finally:
        await server.close()


async def test_parts_succeed_or_fail_by_themselves(cluster: TestCluster, table: TableRef) -> None:
    results = await cluster.router.write(
        [
            WritePart(PartitionId(table.id, ZERO), puts((b"k", b"v"))),
            WritePart(PartitionId(table.id, Partition(1)), b"no batch"),
            WritePart(PartitionId(NO_TABLE, ZERO), puts((b"k", b"v"))),
            WritePart(PartitionId(table.id, Partition(2)), ADD, outcomes=True),
        ],
        timeout=DEADLINE_S,
    )
    assert [type(result) for result in results] == [WriteResult, BatchRefused, TableNotFound, WriteResult]
    assert isinstance(results[3], WriteResult)
    assert results[3].outcomes[0].result == b"1"


async def test_outcomes_from_whichever_replica(cluster: TestCluster, table: TableRef) -> None:
    for number in range(30):
        result = await written(cluster.router, WritePart(PartitionId(table.id, ZERO), ADD, outcomes=True))
        assert result.outcomes[0].result == b"%d" % (number + 1)
    await written(cluster.router, WritePart(PartitionId(table.id, ZERO), puts((b"k", b"v"))))
    result = await written(cluster.router, WritePart(PartitionId(table.id, ZERO), ABSENT, outcomes=True))
    assert isinstance(result.outcomes[0].rejected, ConditionFailed)


async def test_outcomes_while_nodes_end(cluster: TestCluster, table: TableRef) -> None:
    for number, node in enumerate(("n1", "n2")):
        await cluster.nodes[node].stop()
        for turn in range(10):
            result = await written(cluster.router, WritePart(PartitionId(table.id, ZERO), ADD, outcomes=True))
            assert result.outcomes[0].result == b"%d" % (10 * number + turn + 1)


async def test_outcomes_that_nobody_knows_in_time(cluster: TestCluster, table: TableRef) -> None:
    with held(*cluster.replicas(table, 0)):
        (unknown,) = await cluster.router.write(
            [WritePart(PartitionId(table.id, ZERO), ADD, outcomes=True)], timeout=patience_s(1.0)
        )
        assert isinstance(unknown, WriteUnknown)
        assert unknown.fields == {"offset": 0, "partition": 0}
        (pending,) = await cluster.router.write(
            [WritePart(PartitionId(table.id, ZERO), ADD, outcomes=True)], timeout=DEADLINE_S, patience=0.02
        )
        assert isinstance(pending, WriteResult)
        assert (pending.base_offset, pending.pending, pending.outcomes) == (1, True, ())
        asked = [OutcomesPart(PartitionId(table.id, ZERO), Offset(number), 0, Offset(number)) for number in range(2)]
        unknown, _ = await cluster.router.outcomes(asked, timeout=patience_s(1.0))
        assert isinstance(unknown, WriteUnknown)
    found = await cluster.router.outcomes(asked, timeout=DEADLINE_S)
    assert [result.outcomes[0].result for result in found if isinstance(result, WriteResult)] == [b"1", b"2"]


async def test_a_lagging_replica_is_not_waited_for(cluster: TestCluster, table: TableRef) -> None:
    cluster.router.writes.questions.budget = Budget(share=1.0)
    with held(cluster.replicas(table, 0)[0]):
        for number in range(10):
            result = await written(cluster.router, WritePart(PartitionId(table.id, ZERO), ADD, outcomes=True))
            assert result.outcomes[0].result == b"%d" % (number + 1)


async def test_outcomes_that_are_late_are_overtaken(cluster: TestCluster, table: TableRef) -> None:
    """A node that its status calls level is asked, and another one as well when it does not answer."""
    questions = cluster.router.writes.questions
    questions.budget = Budget(share=1.0)
    cluster.nodes["n2"].gated.slow_s = 60.0
    number = 0
    async with within(DEADLINE_S):
        while "outcomes" not in cluster.nodes["n2"].gated.asked:  # until it was drawn
            result = await written(cluster.router, WritePart(PartitionId(table.id, ZERO), ADD, outcomes=True))
            number += 1
            assert result.outcomes[0].result == b"%d" % number
    assert questions.overtakings, "another one answered first"


async def test_outcomes_of_two_writers_at_once_while_a_replica_lags(cluster: TestCluster, table: TableRef) -> None:
    """Each hears what its own write came to, whichever node answers first."""
    cluster.router.writes.questions.budget = Budget(share=1.0, most=100.0)

    async def write_all() -> list[bytes | None]:
        part = WritePart(PartitionId(table.id, ZERO), ADD, outcomes=True)
        return [(await written(cluster.router, part)).outcomes[0].result for _ in range(10)]

    with held(cluster.replicas(table, 0)[0]):
        one, other = await asyncio.gather(write_all(), write_all())
    found = [int(result or b"0") for result in (*one, *other)]
    assert sorted(found) == list(range(1, 21)), "each number once"


async def test_a_log_that_is_away_refuses_and_is_found_again(cluster: TestCluster, table: TableRef) -> None:
    await cluster.log.stop()
    (lost,) = await cluster.router.write([WritePart(PartitionId(table.id, ZERO), ADD)], timeout=0.5)
    assert isinstance(lost, DuramenError)
    await cluster.log.start()

    async def written_again() -> bool:
        (result,) = await cluster.router.write([WritePart(PartitionId(table.id, ZERO), ADD)], timeout=patience_s(1.0))
        return isinstance(result, WriteResult)

    await until_true(written_again)


async def test_a_log_that_does_not_answer(
    cluster: TestCluster, table: TableRef, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hang(parts: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(cluster.log.log, "append_many", hang)
    monkeypatch.setattr(cluster.log.log, "append", hang)
    async with within(DEADLINE_S):
        results = await cluster.router.write([WritePart(PartitionId(table.id, ZERO), ADD)] * 2, timeout=patience_s(1.0))
    assert [type(result) for result in results] == [WriteUnknown] * 2


async def test_a_log_that_cannot_be_reached_from_here(cluster: TestCluster, table: TableRef) -> None:
    """Nothing was sent to it, so the same bytes may go through the router."""
    log = await RemoteLog.open("127.0.0.1:1")
    connection = through(cluster, log)
    try:
        result = await written(connection, WritePart(PartitionId(table.id, ZERO), ADD, outcomes=True))
        assert result.outcomes[0].result == b"1"
        (refused,) = await connection.write([WritePart(PartitionId(NO_TABLE, ZERO), ADD)], timeout=DEADLINE_S)
        assert isinstance(refused, TableNotFound)
    finally:
        await log.close()
        await connection.writes._fallback.close()  # type: ignore[union-attr]


async def test_no_log_at_all(cluster: TestCluster, table: TableRef) -> None:
    connection = through(cluster, None)
    try:
        result = await written(connection, WritePart(PartitionId(table.id, ZERO), ADD, outcomes=True))
        assert result.outcomes[0].result == b"1"
        description = await connection.describe_table("flights", timeout=DEADLINE_S)
        assert [part.latest for part in description.partitions] == [0, -1, -1, -1]
    finally:
        await connection.writes._fallback.close()  # type: ignore[union-attr]


async def test_producers(cluster: TestCluster, spread: TableRef) -> None:
    for partition in (1, 4):
        batch = puts((b"a", b"1"), (b"b", b"2"), producer_id=77, sequence=partition)
        await written(cluster.router, WritePart(PartitionId(spread.id, Partition(partition)), batch))
    found = await cluster.router.producer(spread.id, 77, timeout=DEADLINE_S)
    assert found == {Partition(1): 2, Partition(4): 5}
    assert await cluster.router.producer(spread.id, 78, timeout=DEADLINE_S) == {}
    some = await cluster.router.producer(spread.id, 77, timeout=DEADLINE_S, partitions=[Partition(0), Partition(4)])
    assert some == {Partition(4): 5}
