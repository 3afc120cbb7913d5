"""What operators do with a table whose schema has changed: move, restore, copy, clear, and change it again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kit.cluster.operated import Operated
from kit.rows.flights import Flight

from log_tier.model.identifiers import Partition
from log_tier.rows.tuple_key import pack_key
from router.admin.verbs import Clear, Move, RestoreNode, RestoreTable, TakeSnapshots


@dataclass
class SeatedFlight(Flight):
    """A flight of the second schema."""

    seats: int = 9


@dataclass
class BoardedFlight(SeatedFlight):
    """A flight of the third one."""

    boarded: bool = False


OLD = [Flight("UA", number, None, 1.0) for number in range(10)]
NEW = [SeatedFlight("UA", number, None, 2.0, "", number) for number in range(10, 20)]
ALL = [*(SeatedFlight("UA", each.flight, None, 1.0) for each in OLD), *NEW]


async def altered(cluster: Operated, *, replicas: int = 2) -> Any:
    """A table with rows of two schemas, level everywhere."""
    flights = await cluster.database.create_table(
        "flights", row=Flight, key=("carrier", "flight"), partitions=1, replicas=replicas
    )
    await flights.put_many(OLD)
    seated = await flights.alter(row=SeatedFlight)
    await seated.put_many(NEW)
    await cluster.until_level("flights")
    return seated


async def check_replicas(cluster: Operated, table: str = "flights", *, definition: int = 2, void: int = 0) -> None:
    """Every replica that is there has the same definition and the same rows."""
    await cluster.until_level(table)
    (held,) = await cluster.holders(table)
    replicas = [cluster.replica(node, table, 0) for node in held.split() if node in cluster.nodes]
    contents = []
    for replica in replicas:
        # The read opens a file at rest, which knows the table's first definition alone.
        contents.append([replica.index.get_value(pack_key("UA", number)) for number in range(40)])
        found = replica.index.definition
        assert found is not None
        assert found.number == definition
        assert replica.index.statistics().void == void
    assert all(each == contents[0] for each in contents)


async def rows_of(table: Any) -> list[Any]:
    return [row async for row in table.scan(level="strong")]


async def test_a_moved_replica_has_rows_of_both(cluster: Operated) -> None:
    seated = await altered(cluster)
    (held,) = await cluster.holders("flights")
    source = held.split()[0]
    target = next(node for node in cluster.nodes if node not in held.split())
    await cluster.done(Move("flights", Partition(0), source, target))
    assert await rows_of(seated) == ALL
    await check_replicas(cluster)


async def test_a_snapshot_of_before_and_one_of_after(cluster: Operated) -> None:
    flights = await cluster.database.create_table(
        "flights", row=Flight, key=("carrier", "flight"), partitions=1, replicas=2
    )
    await flights.put_many(OLD)
    await cluster.done(TakeSnapshots("flights"))
    seated = await flights.alter(row=SeatedFlight)
    await seated.put_many(NEW)
    for _ in range(2):
        (held,) = await cluster.holders("flights")
        await cluster.done(RestoreNode(held.split()[0], "snapshot"))
        assert await rows_of(seated) == ALL
        await check_replicas(cluster)
        await cluster.done(TakeSnapshots("flights"))


async def test_a_node_that_was_away_during_the_change(cluster: Operated) -> None:
    flights = await cluster.database.create_table(
        "flights", row=Flight, key=("carrier", "flight"), partitions=1, replicas=3
    )
    await flights.put_many(OLD)
    await cluster.until_level("flights")
    await cluster.stop_node("n1")
    seated = await flights.alter(row=SeatedFlight)
    await seated.put_many(NEW)
    await cluster.add_node("n1")
    await cluster.until_nodes(lambda nodes: nodes["n1"].state != "lost")
    await check_replicas(cluster)
    assert await rows_of(seated) == ALL


async def test_a_cleared_table_keeps_its_schemas(cluster: Operated) -> None:
    seated = await altered(cluster)
    await cluster.done(Clear("flights"))
    assert await rows_of(seated) == []
    await seated.put(NEW[0])
    old = cluster.database.table("flights", row=Flight)
    await old.put(OLD[0])
    boarded = await seated.alter(row=BoardedFlight)
    row = BoardedFlight("UA", 30, None, 0.0, "", 3, True)
    await boarded.put(row)
    assert await rows_of(seated) == [ALL[0], NEW[0], SeatedFlight("UA", 30, None, 0.0, "", 3)]
    assert await boarded.get("UA", 0) == BoardedFlight("UA", 0, None, 1.0)
    await check_replicas(cluster, definition=3)


async def test_what_a_table_held_before_and_after_the_change(cluster: Operated) -> None:
    flights = await cluster.database.create_table(
        "flights", row=Flight, key=("carrier", "flight"), partitions=1, replicas=2
    )
    await flights.put_many(OLD)
    before = await flights.end_token()
    seated = await flights.alter(row=SeatedFlight)
    await seated.put_many(NEW)
    after = await flights.end_token()
    await cluster.until_level("flights")
    await cluster.done(RestoreTable("flights", "after", token=after))
    assert await rows_of(cluster.database.table("after", row=SeatedFlight)) == ALL
    await cluster.done(RestoreTable("flights", "before", token=before))
    assert await rows_of(cluster.database.table("before", row=Flight)) == OLD
    for name in ("before", "after"):
        present = await cluster.database.definition(name)
        assert present is not None
        assert len(present.schemas) == 2
        table = cluster.database.table(name, row=SeatedFlight)
        await table.put(NEW[0])
        assert await table.get("UA", 10) == NEW[0]
        again = await cluster.database.table(name, row=Flight).alter(row=BoardedFlight)
        row = BoardedFlight("UA", 30, None, 0.0, "", 3, True)
        await again.put(row)
        assert await again.get("UA", 30) == row
        assert await again.get("UA", 0) == BoardedFlight("UA", 0, None, 1.0)
