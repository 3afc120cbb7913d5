"""Clearing a table on a real cluster: an empty version, a barrier, and a way back where one was kept."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Any

import pytest
from kit.cluster.operated import Operated, table_of, version_states
from kit.deadlines import patience_s, until

from duramen.aio import Table
from log_tier.catalog.cluster_map import EMPTY, ClusterMap
from log_tier.catalog.map_follower import MapFollower
from log_tier.model.errors import CommandRejected, DeadlineExceeded, InvalidRequest, TableNotFound
from log_tier.model.identifiers import PartitionId
from router.admin.admin import Admin
from router.admin.clear import clear_table
from router.admin.lazy import admin_on_demand
from router.admin.verbs import AdminChange, Clear, Discard, Rollback, SetReplicas, Stage, Swap, TakeSnapshots
from router.membership.membership_on_demand import membership_on_demand
from serving_tier.node import hosting
from serving_tier.node.staging import Staging
from serving_tier.replica.apply import Applying

KEYS = [b"k%03d" % number for number in range(100)]
DEADLINE_S = 20.0


@pytest.fixture
async def admin(cluster: Operated) -> AsyncIterator[Admin]:
    catalog = cluster.router.catalog
    memberships = membership_on_demand(MapFollower(catalog))
    on_demand = admin_on_demand(catalog, cluster.log.log, memberships)
    yield await on_demand()
    await on_demand.close()
    await memberships.close()


async def content(table: Table) -> dict[bytes, bytes]:
    return {key: value async for key, value in table.scan(level="strong")}


async def test_cleared_everywhere_and_brought_back(cluster: Operated, admin: Admin) -> None:
    table = await table_of(cluster, KEYS)
    ends = await clear_table(admin, "flights", keep=1, timeout=DEADLINE_S)
    assert len(ends) == 3
    assert await content(table) == {}
    put = await table.put(KEYS[0], b"since")
    assert await table.get(KEYS[0], after=put.token) == b"since"
    assert [each.verdict async for each in cluster.admin.verify("flights")] == ["equal"] * 3
    assert await version_states(cluster) == {1: "kept", 2: "live"}
    await cluster.done(Rollback("flights"))
    assert await content(table) == {**dict.fromkeys(KEYS, b"1"), KEYS[0]: b"since"}
    await clear_table(admin, "flights", timeout=DEADLINE_S)
    assert await content(table) == {}
    assert await version_states(cluster) == {3: "live"}, "nothing else is kept"


async def test_a_map_has_some_replicas_of_versions_looked_at(
    cluster: Operated, admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not thousands, of tables that nobody changed; each has its turn."""
    await table_of(cluster, KEYS)
    cleared = (await cluster.database.describe_table("flights")).table.id
    await clear_table(admin, "flights", keep=1, timeout=DEADLINE_S)
    looked_at: list[tuple[int, list[PartitionId]]] = []
    compare = Staging.compare

    def counted(staging: Staging, cluster_map: ClusterMap, names: Iterable[PartitionId] | None = None) -> None:
        found = list(names or ())
        looked_at.append((id(staging), found))
        compare(staging, cluster_map, found)

    monkeypatch.setattr(Staging, "compare", counted)
    monkeypatch.setattr(hosting, "LOOKED_AT_MAX", 2)
    for number in range(7):
        await cluster.database.create_table(f"other{number}", partitions=1)
        await until(lambda: len({node for node, _ in looked_at}) == 3)
        if not number:
            looked_at.clear()  # until here the table itself may have changed
    await until(lambda: len(looked_at) >= 6 * 3)
    shown = [(node, [name for name in names if name.table == cleared]) for node, names in looked_at]
    assert max(len(mine) for _, mine in shown) <= 2
    for node in {each for each, _ in shown}:
        seen = {name for owner, mine in shown if owner == node for name in mine}
        assert len(seen) == 3, "each partition has its turn"


async def test_a_node_that_is_away(cluster: Operated, admin: Admin) -> None:
    """Nothing is cleared then, and nothing is left of the try."""
    table = await table_of(cluster, KEYS, replicas=3)
    await cluster.stop_node("n3")
    with pytest.raises(DeadlineExceeded, match=r"table flights was not cleared within .* s: not every replica"):
        await clear_table(admin, "flights", timeout=patience_s(0.5))
    assert await version_states(cluster) == {1: "live"}
    assert len(await content(table)) == len(KEYS)
    await cluster.add_node("n3")
    await cluster.until_level("flights")
    await clear_table(admin, "flights", timeout=DEADLINE_S)
    assert await content(table) == {}


async def test_several_at_once_while_others_write(cluster: Operated, admin: Admin) -> None:
    """What was acknowledged before a clearing began is gone when it has ended, also if others clear meanwhile."""
    table = await table_of(cluster, KEYS)
    troubles: list[str] = []

    async def clear(me: int) -> None:
        for number in range(3):
            key = b"%d-%d" % (me, number)
            await table.put(key, b"x")
            await clear_table(admin, "flights", timeout=DEADLINE_S)
            if await table.get(key, level="strong") is not None:
                troubles.append(f"{key!r} came back")

    async with asyncio.TaskGroup() as group:
        for me in range(3):
            group.create_task(clear(me))
    assert not troubles
    assert await content(table) == {}
    assert list((await version_states(cluster)).values()) == ["live"]


async def test_what_an_operator_is_shown(cluster: Operated) -> None:
    table = await table_of(cluster, KEYS, partitions=1)
    shown = await cluster.admin.start(Clear("flights"), dry_run=True)
    assert [(step.action, step.partition) for step in shown.steps] == [("stage", 0), ("stage", 0), ("swap", 0)]
    assert len(await content(table)) == len(KEYS)
    job = await cluster.done(Clear("flights"))
    assert (job.kind, job.subject) == ("clear", "flights")
    assert [(task.action, task.state) for task in job.task_list] == [
        ("stage", "done"),
        ("stage", "done"),
        ("swap", "done"),
    ]
    assert await content(table) == {}
    assert await version_states(cluster) == {1: "kept", 2: "live"}
    await cluster.done(Clear("flights", keep=0))
    assert await version_states(cluster) == {3: "live"}


async def test_a_replica_that_missed_it(cluster: Operated, admin: Admin) -> None:
    """From a snapshot of before the clearing it goes over the barrier by itself."""
    table = await table_of(cluster, KEYS, partitions=1, replicas=1)
    await cluster.done(TakeSnapshots("flights"))
    await clear_table(admin, "flights", timeout=DEADLINE_S)
    await table.put(b"since", b"2")
    await cluster.done(SetReplicas("flights", 3))
    await cluster.until_level("flights")
    assert [each.verdict async for each in cluster.admin.verify("flights")] == ["equal"]
    assert await content(table) == {b"since": b"2"}


Script = tuple[AdminChange, ...]

TWO_CLEARINGS: Script = (Swap("flights", 2, 0), Swap("flights", 3, 0))
ROLLED_BACK: Script = (Swap("flights", 2), Rollback("flights"), Discard("flights", 2), Swap("flights", 3, 0))


@pytest.mark.parametrize("script", [TWO_CLEARINGS, ROLLED_BACK], ids=["two clearings", "rolled back and discarded"])
async def test_replicas_that_lag_behind_two_swaps(
    cluster: Operated, admin: Admin, monkeypatch: pytest.MonkeyPatch, script: Script
) -> None:
    """The map has forgotten the version that the first barrier names, and the replicas have still to pass it."""
    table = await table_of(cluster, KEYS, partitions=1, replicas=2)
    for _ in range(2):
        await cluster.done(Stage("flights", EMPTY))
    replicas = [cluster.replica(node, "flights", 0) for node in await hosts(cluster)]
    gate, inner = asyncio.Event(), Applying._run

    async def held(self: Applying, *args: Any, **named: Any) -> Any:
        await gate.wait()
        return await inner(self, *args, **named)

    monkeypatch.setattr(Applying, "_run", held)
    for change in script:
        await cluster.done(change)
    for node in cluster.nodes.values():
        await node.data_plane.hosting.wait_version(cluster.router.catalog.map.version)
    for _ in range(10):  # a task that removes a version begins with that here
        await asyncio.sleep(0)
    gate.set()
    await cluster.until_level("flights")
    assert await content(table) == {}
    assert [cluster.replica(node, "flights", 0) for node in await hosts(cluster)] == replicas, "none was fetched anew"
    await until(lambda: all(replica.versions.here() == set() for replica in replicas))
    assert [replica.index.version for replica in replicas] == [3, 3]


async def hosts(cluster: Operated) -> list[str]:
    (holders,) = await cluster.holders("flights")
    return holders.split()


async def test_what_cannot_be_staged(cluster: Operated, admin: Admin) -> None:
    await table_of(cluster, KEYS)
    with pytest.raises(InvalidRequest, match="names no offset for each of 3 partitions"):
        await cluster.admin.start(Stage("flights", "empty:1,2"))
    with pytest.raises(TableNotFound):
        await clear_table(admin, "ships", timeout=DEADLINE_S)
    await cluster.done(Stage("flights", EMPTY))
    url = (await cluster.admin.versions("flights"))[1].url
    with pytest.raises(CommandRejected, match="begin again"):
        await cluster.admin.start(Stage("flights", url))
    await clear_table(admin, "flights", timeout=DEADLINE_S)
    with pytest.raises(CommandRejected, match="empty and older than version 3"):
        await cluster.admin.start(Swap("flights", 2))
