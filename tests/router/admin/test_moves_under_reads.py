"""Replicas that move again and again while they are read: no read fails, by whichever way it comes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack

import pytest
from kit.cluster.operated import DEADLINE_S, Operated
from kit.deadlines import patience_s, within

import duramen
from duramen.aio import Database
from log_tier.catalog.catalog import MapFeed
from log_tier.catalog.map_follower import MapFollower
from log_tier.model.errors import NotHosted
from log_tier.model.identifiers import Partition, PartitionId
from router.admin.verbs import Move
from router.data.catalog_tables import CatalogTables
from router.data.requests import ReadPart, ReadResult
from router.membership.live_membership import LiveMembership
from router.routing.routed_connection import RoutedConnection
from router.routing.tables import CatalogChanges

KEYS = [b"k%03d" % number for number in range(60)]
CONTENT = dict.fromkeys(KEYS, b"v" * 40)
NODES = ("n1", "n2", "n3")
MOVES = 24
READERS = 4


class _LateMaps(MapFeed):
    """Maps that come when the test says so."""

    async def close(self) -> None:
        """Nothing is open."""


@pytest.fixture(params=["direct", "through the router", "found by a node"])
async def database(request: pytest.FixtureRequest, cluster: Operated) -> AsyncIterator[Database]:
    """A connection that asks the nodes itself, found by a router or by a node; one whose calls the router passes on."""
    port = cluster.nodes["n1"].port if request.param == "found by a node" else cluster.router.port
    async with AsyncExitStack() as opened:
        direct = request.param != "through the router"
        connected = await duramen.aio.connect(f"127.0.0.1:{port}", timeout=DEADLINE_S, direct=direct)
        yield await opened.enter_async_context(connected)


async def test_no_read_fails_while_the_only_replica_moves(cluster: Operated, database: Database) -> None:
    await (await cluster.database.create_table("flights", partitions=1, replicas=1)).put_many(CONTENT)
    await cluster.until_level("flights")
    table = database.table("flights")
    reads = 0
    watched: list[bytes] = []
    over = asyncio.Event()

    async def gets() -> None:
        for key in KEYS:
            assert await table.get(key, level="eventual") == CONTENT[key]

    async def get_many() -> None:
        assert await table.get_many(KEYS) == list(CONTENT.values())

    async def scans() -> None:
        assert {key: value async for key, value in table.scan(level="strong")} == CONTENT

    watch = await table.watch()

    async def watches() -> None:
        async for change in watch:
            watched.append(change.key)
            if len(watched) == MOVES:
                return

    async def repeat(read: Callable[[], Awaitable[None]]) -> None:
        nonlocal reads
        while not over.is_set():
            await read()
            reads += 1

    async with asyncio.TaskGroup() as group:
        for read in (gets, get_many, scans):
            for _ in range(READERS):
                group.create_task(repeat(read))
        group.create_task(watches())
        (source,) = await cluster.holders("flights")
        for number in range(MOVES):
            target = NODES[(NODES.index(source) + 1) % len(NODES)]
            seen = reads
            job = await cluster.done(Move("flights", Partition(0), source, target))
            source = target
            assert job.task_list[0].state == "done"
            await table.put(KEYS[number], CONTENT[KEYS[number]])
            async with within(DEADLINE_S):
                while reads == seen:  # noqa: ASYNC110
                    await asyncio.sleep(0.001)
        over.set()
    assert watched == KEYS[:MOVES]


async def test_a_read_with_an_old_map_waits_for_the_newer_one(cluster: Operated) -> None:
    """The move is over, and its source gone, before this router hears of the target: one call answers all the same."""
    await (await cluster.database.create_table("flights", partitions=1, replicas=1)).put_many(CONTENT)
    await cluster.until_level("flights")
    (source,) = await cluster.holders("flights")
    target = NODES[(NODES.index(source) + 1) % len(NODES)]
    catalog = cluster.router.catalog
    table = catalog.map.find("flights")
    late = _LateMaps()
    late.advance(catalog.map)
    membership = await LiveMembership.open(MapFollower(catalog))
    changes = CatalogChanges(CatalogTables(cluster.log.log, catalog))
    router = RoutedConnection(late, membership, changes=changes, log=cluster.log.log)
    try:
        await cluster.done(Move("flights", Partition(0), source, target))
        gone = cluster.nodes[source].node.hosting
        async with within(DEADLINE_S):
            await gone.wait_version(catalog.map.version)
        part = ReadPart(PartitionId(table.id, Partition(0)), KEYS, strong=True)
        with pytest.raises(NotHosted, match=f"node {source} holds no replica of flights/0; {target} does"):
            gone.node.replica(PartitionId(table.id, Partition(0)))
        (refused,) = await router.read([part], timeout=patience_s(1.0))
        assert isinstance(refused, NotHosted)
        reading = asyncio.create_task(router.read([part], timeout=DEADLINE_S))
        await asyncio.wait([reading], timeout=0.05)
        assert not reading.done()
        late.advance(catalog.map)
        (found,) = await reading
        assert isinstance(found, ReadResult)
        assert list(found.values) == list(CONTENT.values())
    finally:
        await router.close()
        await changes.close()
        await membership.close()
