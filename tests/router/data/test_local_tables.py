"""Tables of the data plane of one machine: made, dropped, half made by a crash, ended with whatever waits."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import pytest
from kit.cluster.one_machine import (
    DEADLINE_S,
    ZERO,
    all_replicas,
    held,
    one_machine,
    puts,
    read,
    write,
)
from kit.deadlines import until

from log_tier.catalog.catalog import CATALOG_TOPIC
from log_tier.model.errors import (
    DuramenError,
    InvalidName,
    LimitExceeded,
    ShuttingDown,
    TableExists,
    TableNotFound,
)
from log_tier.model.identifiers import Offset, Partition, PartitionId, TableId
from log_tier.model.table_ref import TableRef
from log_tier.rows.table_spec import TableSpec
from router.data.catalog_tables import CatalogTables
from router.data.local_data import LocalData
from router.data.requests import ReadPart, WritePart
from serving_tier.node.node import RestingReplica


async def test_names_and_numbers_of_tables(data_plane: LocalData, table: TableRef) -> None:
    with pytest.raises(TableExists, match="there is a table 'flights' already"):
        await data_plane.create_table(TableSpec("flights", partitions=1), timeout=DEADLINE_S)
    with pytest.raises(InvalidName):
        await data_plane.create_table(TableSpec("a b", partitions=1), timeout=DEADLINE_S)
    for partitions in (0, 1025, -1):
        with pytest.raises(LimitExceeded, match="1 to 1024 partitions"):
            await data_plane.create_table(TableSpec("more", partitions=partitions), timeout=DEADLINE_S)
    with pytest.raises(TableNotFound, match="no table 'ships'; the tables are: flights"):
        await data_plane.find_table("ships", timeout=DEADLINE_S)
    assert await data_plane.list_tables(timeout=DEADLINE_S) == [table]


async def test_a_caller_who_gives_up_leaves_no_half_made_table(
    data_plane: LocalData, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log had the table and the node did not: it could neither be found nor be made again."""
    entered, may_go = asyncio.Event(), asyncio.Event()
    inner = data_plane.node.host_resting

    async def host_resting(wanted: Sequence[RestingReplica], listed: Mapping[TableId, Collection[str]]) -> None:
        entered.set()
        await may_go.wait()
        await inner(wanted, listed)

    monkeypatch.setattr(data_plane.node, "host_resting", host_resting)
    creating = asyncio.ensure_future(data_plane.create_table(TableSpec("ships", partitions=2), timeout=DEADLINE_S))
    await entered.wait()
    creating.cancel()
    await asyncio.gather(creating, return_exceptions=True)
    may_go.set()
    await until(lambda: len(data_plane.node.hosted()) == 2)
    found = await data_plane.find_table("ships", timeout=DEADLINE_S)
    await write(data_plane, found, 0, puts((b"a", b"1")), outcomes=True)
    assert data_plane.node.replica(PartitionId(found.id, Partition(0))).index.get_value(b"a") == b"1"


async def test_a_topic_without_its_command_is_taken_over(data_plane: LocalData) -> None:
    """What a crash between the two steps of `create` leaves."""
    made = await data_plane.log.create_topic("ships", partitions=2)
    with pytest.raises(TableNotFound, match="no table 'ships'"):
        await data_plane.find_table("ships", timeout=DEADLINE_S)
    with pytest.raises(TableExists, match=r"with 2 partitions has not come to its end.*ask for 2 partitions"):
        await data_plane.create_table(TableSpec("ships", partitions=3), timeout=DEADLINE_S)
    assert await data_plane.create_table(TableSpec("ships", partitions=2), timeout=DEADLINE_S) == TableRef(
        made.id, "ships", 2
    )
    await write(data_plane, TableRef(made.id, "ships", 2), 1, puts((b"a", b"1")), outcomes=True)


async def test_a_start_removes_empty_topics_alone(data_plane: LocalData, table: TableRef) -> None:
    """What has records becomes a table: it may be from before there was a catalog."""
    log, tables = data_plane.log, CatalogTables(data_plane.log, data_plane.catalog)
    await log.create_topic("empty", partitions=2)
    ships = await log.create_topic("ships", partitions=2)
    await log.append(ships.partition(1), puts((b"a", b"1")))
    trimmed = await log.create_topic("trimmed", partitions=1)
    await log.append(trimmed.partition(0), puts((b"a", b"1")))
    await log.trim(trimmed.partition(0), Offset(1))
    for _ in range(2):
        await tables.reconcile()
        assert [each.name for each in await tables.all()] == ["flights", "ships", "trimmed"]
        assert [each.name for each in await log.topics()] == [CATALOG_TOPIC, "flights", "ships", "trimmed"]


async def test_a_table_without_its_topic_is_gone_and_can_be_made_again(data_plane: LocalData, table: TableRef) -> None:
    """What a crash between the two steps of `drop` leaves."""
    await data_plane.log.delete_topic(table.id)
    replica = data_plane.node.replica(PartitionId(table.id, ZERO))
    await until(lambda: replica.state == "stopped")
    (answer,) = await data_plane.read([ReadPart(PartitionId(table.id, ZERO), [b"a"])], timeout=DEADLINE_S)
    assert isinstance(answer, TableNotFound)
    again = await data_plane.create_table(TableSpec("flights", partitions=1), timeout=DEADLINE_S)
    assert again.id != table.id


async def test_many_changes_at_once(data_plane: LocalData) -> None:
    async def change(number: int) -> object:
        try:
            if number % 3 == 2:
                await data_plane.drop_table(f"t{number // 3 % 2}", timeout=DEADLINE_S)
                return None
            return await data_plane.create_table(TableSpec(f"t{number % 2}", partitions=1), timeout=DEADLINE_S)
        except DuramenError as error:
            return error

    results = await asyncio.gather(*map(change, range(40)))
    assert all(result is None or isinstance(result, TableRef | TableExists | TableNotFound) for result in results)
    tables = await data_plane.list_tables(timeout=DEADLINE_S)
    made = [topic for topic in await data_plane.log.topics() if topic.name != CATALOG_TOPIC]
    assert tables == [TableRef(topic.id, topic.name, topic.partitions) for topic in made]
    for topic in tables:
        await write(data_plane, topic, 0, puts((b"a", b"1")), outcomes=True)


async def test_dropping_ends_whatever_waits(data_plane: LocalData, table: TableRef) -> None:
    replicas = all_replicas(data_plane, table)
    with held(*replicas):
        await write(data_plane, table, 0, puts((b"a", b"1")))
        reading = asyncio.ensure_future(read(data_plane, ReadPart(PartitionId(table.id, ZERO), [b"a"], Offset(0))))
        await asyncio.sleep(0)
        dropping = asyncio.ensure_future(data_plane.drop_table("flights", timeout=DEADLINE_S))
        (result,) = await reading
    await dropping
    assert isinstance(result, TableNotFound)


async def test_what_is_closed_refuses(tmp_path: Path) -> None:
    async with one_machine(tmp_path) as data_plane:
        table = await data_plane.create_table(TableSpec("flights", partitions=1), timeout=DEADLINE_S)
        with held(data_plane.node.replica(PartitionId(table.id, ZERO))):
            await write(data_plane, table, 0, puts((b"a", b"1")))
            reading = asyncio.ensure_future(read(data_plane, ReadPart(PartitionId(table.id, ZERO), [b"a"], Offset(0))))
            await asyncio.sleep(0)
            closing = asyncio.ensure_future(data_plane.close())
            (result,) = await reading
        await closing
        assert isinstance(result, ShuttingDown)
        (result,) = await data_plane.write(
            [WritePart(PartitionId(table.id, ZERO), puts((b"a", b"1")))], timeout=DEADLINE_S
        )
        assert isinstance(result, ShuttingDown)
    async with one_machine(tmp_path) as data_plane:
        (found,) = await read(data_plane, ReadPart(PartitionId(table.id, ZERO), [b"a"], Offset(0)))
        assert found.values == [b"1"]
