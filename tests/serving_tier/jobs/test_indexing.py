"""An index is built on the replicas of nodes: while rows change, after failures, and at replicas that come later."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from kit.flight_rows import FLIGHTS, UNNUMBERED_FLIGHTS, flight, flight_key
from kit.jobs.single_machine import SingleMachine

from log_tier.catalog.catalog import Catalog
from log_tier.catalog.commands import CreateTable
from log_tier.embedded import EmbeddedLog
from log_tier.model.errors import CommandRejected, InvalidSchema, LimitExceeded
from log_tier.model.identifiers import PartitionId
from log_tier.model.log import Topic
from log_tier.rows.alter_table import IndexChange
from serving_tier.index.lmdb.lmdb_index import LmdbIndex
from serving_tier.jobs import indexing
from serving_tier.jobs.altering import alter_table
from serving_tier.jobs.worker import RetryLimits
from serving_tier.replica.replica import Replica

BY_TAIL = IndexChange("by_tail", ("tailnum",))
SERVED = FLIGHTS.with_index("by_tail", ("tailnum",)).with_index_served(1)
ROWS = 40


@pytest.fixture
async def machine(tmp_path: Path) -> AsyncIterator[SingleMachine]:
    log = await EmbeddedLog.open(tmp_path / "log")
    catalog = await Catalog.open(log)
    machine = SingleMachine(tmp_path, log, catalog)
    for node in ("n1", "n2"):
        await machine.add_node(node, retries=RetryLimits(tries=1))
    yield machine
    await machine.close()
    await catalog.close()
    await log.close()


@pytest.fixture
async def flights(machine: SingleMachine, monkeypatch: pytest.MonkeyPatch) -> Topic:
    """A table with rows, whose indexes are built in pieces of three rows."""
    monkeypatch.setattr(indexing, "ROWS_AT_ONCE", 3)
    topic = await machine.log.create_topic("flights", partitions=1)
    document = UNNUMBERED_FLIGHTS.to_document()
    await machine.catalog.submit(CreateTable(topic.id, "flights", 1, 2, "fields:1", definition=document))
    await machine.put(topic, *((flight_key("UA", n), flight("UA", n, f"N{n % 3}")) for n in range(ROWS)))
    await levelled(machine, topic)
    return topic


def at_n1(table: Any, preferred: str) -> str:
    return "n1"


def found(index: LmdbIndex) -> list[bytes]:
    return [entry for entry, _ in index.find(index.definition_now().index_named("by_tail"), b"", None).entries]


async def levelled(machine: SingleMachine, topic: Topic) -> list[Replica]:
    return [await machine.level(node, topic) for node in ("n1", "n2")]


async def test_every_replica_has_all_entries_while_rows_change(machine: SingleMachine, flights: Topic) -> None:
    stop = asyncio.Event()

    async def write() -> int:
        number = 0
        while not stop.is_set():
            number += 1
            await machine.put(flights, (flight_key("UA", number % 60), flight("UA", number % 60, f"N{number}")))
        return number

    writing = asyncio.create_task(write())
    table = await alter_table(machine.catalog, flights.id, BY_TAIL, at_n1)
    stop.set()
    assert await writing > 0
    assert table.definition == SERVED
    one, other = await levelled(machine, flights)
    assert one.index.definition == SERVED
    assert found(one.index) == found(other.index)
    assert len(found(one.index)) == one.index.count() >= ROWS
    same = await alter_table(machine.catalog, flights.id, BY_TAIL, at_n1)
    assert same.definition == SERVED
    gone = await alter_table(machine.catalog, flights.id, IndexChange("by_tail"), at_n1)
    assert gone.definition == SERVED.without_index(1)


async def test_of_two_with_one_name_one_wins(machine: SingleMachine, flights: Topic) -> None:
    other = IndexChange("by_tail", ("dep_delay",))
    ended = await asyncio.gather(
        *(alter_table(machine.catalog, flights.id, change, at_n1) for change in (BY_TAIL, other, BY_TAIL)),
        return_exceptions=True,
    )
    lost = [each for each in ended if isinstance(each, BaseException)]
    assert lost
    assert all(isinstance(each, CommandRejected | InvalidSchema) for each in lost), lost
    definition = machine.catalog.map.table(flights.id).definition
    assert definition is not None
    assert len(definition.indexes) == 1


async def test_a_replica_that_replays_builds_before_the_barrier_that_serves(
    machine: SingleMachine, flights: Topic
) -> None:
    """A node that comes later has nothing but the log: both barriers are in it."""
    await alter_table(machine.catalog, flights.id, BY_TAIL, at_n1)
    (one, _) = await levelled(machine, flights)
    later = LmdbIndex.open(machine.folder / "later", partition=flights.partition(0), definition=SERVED)
    assert later.definition == FLIGHTS
    async for chunk in machine.log.read(flights.partition(0), later.applied + 1, follow=False):  # type: ignore[arg-type]
        later.apply(chunk.data)
    assert later.definition == SERVED
    assert found(later) == found(one.index)
    later.close()


async def test_a_replica_that_is_restored_from_before_the_index(machine: SingleMachine, flights: Topic) -> None:
    """Its snapshot lacks the index; the log has both barriers, and other replicas' turns come between the pieces."""
    replica = await machine.level("n1", flights)
    await machine.snapshots["n1"].take(replica)
    await alter_table(machine.catalog, flights.id, BY_TAIL, at_n1)
    await machine.put(flights, (flight_key("UA", 99), flight("UA", 99, "N99")))
    place = PartitionId(flights.id, flights.partition(0).partition)
    await machine.hostings["n2"].rebuild(place, source="snapshot", progress=lambda *_: None)
    one, other = await levelled(machine, flights)
    assert other.source != "log"
    assert found(other.index) == found(one.index)
    assert len(found(other.index)) == ROWS + 1


async def test_a_row_that_is_too_long_is_named_and_the_index_can_be_dropped(
    machine: SingleMachine, flights: Topic
) -> None:
    long = flight_key("UA", 7)
    await machine.put(flights, (long, flight("UA", 7, "x" * 600)))
    for _ in range(2):
        with pytest.raises(LimitExceeded, match="too long for the index by_tail"):
            await alter_table(machine.catalog, flights.id, BY_TAIL, at_n1)
    await machine.put(flights, (flight_key("UA", 8), flight("UA", 8, "N8")))
    with pytest.raises(CommandRejected, match="with the index by_tail, by job"):
        await alter_table(machine.catalog, flights.id, IndexChange("by_delay", ("dep_delay",)), at_n1)
    without = await alter_table(machine.catalog, flights.id, IndexChange("by_tail"), at_n1)
    assert without.definition is not None
    assert without.definition.indexes == ()
    await alter_table(machine.catalog, flights.id, IndexChange("by_delay", ("dep_delay",)), at_n1)
    one, other = await levelled(machine, flights)
    assert one.index.statistics().void == other.index.statistics().void == 0
    await machine.put(flights, (long, flight("UA", 7, "N7")))
    table = await alter_table(machine.catalog, flights.id, BY_TAIL, at_n1)
    assert table.definition is not None
    assert [each.number for each in table.definition.indexes] == [2, 3]


async def test_a_build_that_failed_goes_on_where_it_was(machine: SingleMachine, flights: Topic) -> None:
    await machine.put(flights, (flight_key("UA", 30), flight("UA", 30, "x" * 600)))
    with suppress(LimitExceeded):
        await alter_table(machine.catalog, flights.id, BY_TAIL, at_n1)
    replica = await machine.level("n1", flights)
    assert replica.index.builds.building == {1: flight_key("UA", 29)}
    await machine.put(flights, (flight_key("UA", 30), flight("UA", 30, "N30")))
    assert (await alter_table(machine.catalog, flights.id, BY_TAIL, at_n1)).definition == SERVED
    one, other = await levelled(machine, flights)
    assert found(one.index) == found(other.index)
    assert len(found(one.index)) == ROWS
