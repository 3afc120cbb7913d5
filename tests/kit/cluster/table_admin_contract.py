"""What every `TableAdmin` promises: one suite, run against each implementation (`test_connections.py`)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import pytest

from kit.cluster.one_machine import DEADLINE_S
from kit.cluster.silent_log import TIMEOUT_S, check_ends_in_time, silent_log
from kit.cluster.slow_log import CALL_S, check_time_is_shared, slow_log
from log_tier.model.errors import CommandRejected, DuramenError, InvalidRequest, TableExists, TableNotFound
from log_tier.model.identifiers import Offset, PartitionId, TableId
from log_tier.model.retention import FOREVER, Retention
from log_tier.rows.table_spec import TableSpec
from router.data.local_data import LocalData
from router.data.seam import TableAdmin

__all__ = ["TableAdminContract"]

Call = Callable[[TableAdmin], Awaitable[object]]

CALLS: Final[dict[str, Call]] = {
    "create_table": lambda it: it.create_table(TableSpec("new", 1), timeout=TIMEOUT_S),
    "find_table": lambda it: it.find_table("missing", timeout=TIMEOUT_S),
    "definition": lambda it: it.definition(TableId("0" * 32), timeout=TIMEOUT_S),
    "list_tables": lambda it: it.list_tables(timeout=TIMEOUT_S),
    "describe_table": lambda it: it.describe_table("flights", timeout=TIMEOUT_S),
    "set_retention": lambda it: it.set_retention("flights", ms=1000, size=None, timeout=TIMEOUT_S),
    "drop_table": lambda it: it.drop_table("missing", timeout=TIMEOUT_S),
}

SLOW_CALLS: Final[dict[str, Call]] = {
    "create_table": lambda it: it.create_table(TableSpec("new", 1), timeout=CALL_S),
    "find_table": lambda it: it.find_table("missing", timeout=CALL_S),
    "definition": lambda it: it.definition(TableId("0" * 32), timeout=CALL_S),
    "list_tables": lambda it: it.list_tables(timeout=CALL_S),
    "describe_table": lambda it: it.describe_table("flights", timeout=CALL_S),
    "describe_table of no table": lambda it: it.describe_table("missing", timeout=CALL_S),
    "set_retention": lambda it: it.set_retention("flights", ms=1000, size=None, timeout=CALL_S),
    "drop_table": lambda it: it.drop_table("flights", timeout=CALL_S),
    "drop_table of no table": lambda it: it.drop_table("missing", timeout=CALL_S),
}


class TableAdminContract:
    """Derive from it, with a fixture `connection` over the fixture `data_plane`."""

    @pytest.mark.parametrize("name", CALLS)
    async def test_a_timeout_covers_the_change(self, connection: TableAdmin, data_plane: LocalData, name: str) -> None:
        """The log does not answer. The call ends all the same, with an error of ours, in good time."""
        await data_plane.create_table(TableSpec("flights", 1), timeout=DEADLINE_S)
        async with silent_log(data_plane):
            assert isinstance(await check_ends_in_time(lambda: CALLS[name](connection)), DuramenError), "it cannot know"
        assert (await connection.find_table("flights", timeout=DEADLINE_S)).partitions == 1

    @pytest.mark.parametrize("name", SLOW_CALLS)
    async def test_a_slow_first_half_leaves_the_rest_of_a_change(
        self, connection: TableAdmin, data_plane: LocalData, name: str
    ) -> None:
        """A change asks the log and the catalog several times. All of that together takes at most its timeout."""
        await data_plane.create_table(TableSpec("flights", 1), timeout=DEADLINE_S)
        with slow_log(data_plane):
            await check_time_is_shared(lambda: SLOW_CALLS[name](connection))

    async def test_a_table_from_its_beginning_to_its_end(self, connection: TableAdmin) -> None:
        made = await connection.create_table(TableSpec("flights", 2, partitioner="murmur2"), timeout=DEADLINE_S)
        assert (made.name, made.partitions, made.partitioner) == ("flights", 2, "murmur2")
        assert await connection.find_table("flights", timeout=DEADLINE_S) == made
        assert await connection.list_tables(timeout=DEADLINE_S) == [made]
        described = await connection.describe_table("flights", timeout=DEADLINE_S)
        assert described.table == made
        assert [(each.partition, each.earliest, each.latest) for each in described.partitions] == [
            (0, 0, -1),
            (1, 0, -1),
        ]
        with pytest.raises(TableExists):
            await connection.create_table(TableSpec("flights", 1), timeout=DEADLINE_S)
        await connection.drop_table("flights", timeout=DEADLINE_S)
        assert await connection.list_tables(timeout=DEADLINE_S) == []
        for call in (connection.find_table, connection.describe_table, connection.drop_table):
            with pytest.raises(TableNotFound):
                await call("flights", timeout=DEADLINE_S)

    async def test_how_much_of_its_log_a_table_keeps(self, connection: TableAdmin) -> None:
        async def described() -> Retention:
            return (await connection.describe_table("flights", timeout=DEADLINE_S)).retention

        week = Retention(604_800_000, 1 << 30)
        await connection.create_table(TableSpec("flights", 2, retention=week), timeout=DEADLINE_S)
        assert await described() == week
        day = Retention(86_400_000, 1 << 30)
        assert await connection.set_retention("flights", ms=day.ms, size=None, timeout=DEADLINE_S) == day
        assert await described() == day
        assert await connection.set_retention("flights", ms=0, size=0, timeout=DEADLINE_S) == FOREVER
        assert await described() == FOREVER
        for ms, size in ((-1, None), (None, 1 << 63), (None, None)):
            with pytest.raises(InvalidRequest):
                await connection.set_retention("flights", ms=ms, size=size, timeout=DEADLINE_S)
        with pytest.raises(TableNotFound):
            await connection.set_retention("missing", ms=1, size=None, timeout=DEADLINE_S)

    async def test_a_bound_that_the_log_cannot_keep(
        self, connection: TableAdmin, data_plane: LocalData, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """As a log in Kafka, which reports no sizes. Nothing is left of a table that was not made."""
        retain = data_plane.log.retain

        async def by_time_alone(partition: PartitionId, retention: Retention, *, below: Offset) -> Offset:
            if retention.bytes:
                raise InvalidRequest("the log is in Kafka: bound it by time")
            return await retain(partition, retention, below=below)

        monkeypatch.setattr(data_plane.log, "retain", by_time_alone)
        large = TableSpec("flights", 1, retention=Retention(bytes=1 << 30))
        with pytest.raises(InvalidRequest, match="bound it by time"):
            await connection.create_table(large, timeout=DEADLINE_S)
        assert await connection.list_tables(timeout=DEADLINE_S) == []
        assert not [topic for topic in await data_plane.log.topics() if topic.name == "flights"]
        await connection.create_table(TableSpec("flights", 1, retention=Retention(1000)), timeout=DEADLINE_S)
        with pytest.raises(InvalidRequest, match="bound it by time"):
            await connection.set_retention("flights", ms=None, size=1 << 30, timeout=DEADLINE_S)
        described = await connection.describe_table("flights", timeout=DEADLINE_S)
        assert described.retention == Retention(1000)

    async def test_a_table_with_more_replicas_than_nodes(self, connection: TableAdmin) -> None:
        with pytest.raises(CommandRejected, match="wants 2 replicas"):
            await connection.create_table(TableSpec("flights", 1, replicas=2), timeout=DEADLINE_S)
        assert await connection.list_tables(timeout=DEADLINE_S) == []
