"""What every `TableAdmin` promises: one suite, run against each implementation (`test_connections.py`)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Final

import pytest

from kit.cluster.one_machine import DEADLINE_S, NO_TABLE
from kit.cluster.silent_log import TIMEOUT_S, check_ends_in_time, silent_log
from kit.cluster.slow_log import CALL_S, check_time_is_shared, slow_log
from kit.flight_rows import ALTERED_FLIGHTS, FLIGHT_SCHEMA, FLIGHTS, LATER_SCHEMA, UNNUMBERED_FLIGHTS
from log_tier.catalog.actions import Action
from log_tier.catalog.map_follower import MapFollower
from log_tier.concurrency.clocks import SYSTEM_CLOCK
from log_tier.model.errors import (
    CommandRejected,
    DuramenError,
    InvalidRequest,
    InvalidSchema,
    TableExists,
    TableNotFound,
)
from log_tier.model.identifiers import Offset, PartitionId
from log_tier.model.retention import FOREVER, Retention
from log_tier.rows.alter_table import SchemaChange
from log_tier.rows.definition import NEWEST_SCHEMA
from log_tier.rows.schema import RowSchema
from log_tier.rows.table_spec import TableSpec
from router.data.local_data import LocalData
from router.data.seam import TableAdmin
from serving_tier.jobs.altering import put_definition
from serving_tier.jobs.worker import JobWorker

__all__ = ["TableAdminContract"]

LATER: Final = SchemaChange(RowSchema.parse(LATER_SCHEMA))
FIRST: Final = SchemaChange(RowSchema.parse(FLIGHT_SCHEMA), "none")
ROWS: Final = TableSpec("rows", 1, definition=UNNUMBERED_FLIGHTS)

Call = Callable[[TableAdmin], Awaitable[object]]

CALLS: Final[dict[str, Call]] = {
    "create_table": lambda it: it.create_table(TableSpec("new", 1), timeout=TIMEOUT_S),
    "find_table": lambda it: it.find_table("missing", timeout=TIMEOUT_S),
    "definition": lambda it: it.definition(NO_TABLE, timeout=TIMEOUT_S),
    "list_tables": lambda it: it.list_tables(timeout=TIMEOUT_S),
    "describe_table": lambda it: it.describe_table("flights", timeout=TIMEOUT_S),
    "alter_table": lambda it: it.alter_table("rows", LATER, timeout=TIMEOUT_S),
    "set_retention": lambda it: it.set_retention("flights", ms=1000, size=None, timeout=TIMEOUT_S),
    "drop_table": lambda it: it.drop_table("missing", timeout=TIMEOUT_S),
}

SLOW_CALLS: Final[dict[str, Call]] = {
    "create_table": lambda it: it.create_table(TableSpec("new", 1), timeout=CALL_S),
    "find_table": lambda it: it.find_table("missing", timeout=CALL_S),
    "definition": lambda it: it.definition(NO_TABLE, timeout=CALL_S),
    "list_tables": lambda it: it.list_tables(timeout=CALL_S),
    "describe_table": lambda it: it.describe_table("flights", timeout=CALL_S),
    "describe_table of no table": lambda it: it.describe_table("missing", timeout=CALL_S),
    "alter_table": lambda it: it.alter_table("rows", LATER, timeout=CALL_S),
    "set_retention": lambda it: it.set_retention("flights", ms=1000, size=None, timeout=CALL_S),
    "drop_table": lambda it: it.drop_table("flights", timeout=CALL_S),
    "drop_table of no table": lambda it: it.drop_table("missing", timeout=CALL_S),
}


class TableAdminContract:
    """Derive from it, with a fixture `connection` over the fixture `data_plane`."""

    @pytest.fixture
    async def altering(self, data_plane: LocalData) -> AsyncIterator[None]:
        """Its node does what an alter wants of it."""
        follower = MapFollower(data_plane.catalog)
        actions = {Action.ALTER.value: partial(put_definition, log=data_plane.log)}
        worker = await JobWorker.open(data_plane.catalog, follower, node_id="n1", actions=actions)
        yield
        await worker.close()

    @pytest.mark.parametrize("name", CALLS)
    async def test_a_timeout_covers_the_change(self, connection: TableAdmin, data_plane: LocalData, name: str) -> None:
        """The log does not answer. The call ends all the same, with an error of ours, in good time."""
        await data_plane.create_table(TableSpec("flights", 1), timeout=DEADLINE_S)
        await data_plane.create_table(ROWS, timeout=DEADLINE_S)
        async with silent_log(data_plane):
            assert isinstance(await check_ends_in_time(lambda: CALLS[name](connection)), DuramenError), "it cannot know"
        assert (await connection.find_table("flights", timeout=DEADLINE_S)).partitions == 1

    @pytest.mark.usefixtures("altering")
    @pytest.mark.parametrize("name", SLOW_CALLS)
    async def test_a_slow_first_half_leaves_the_rest_of_a_change(
        self, connection: TableAdmin, data_plane: LocalData, name: str
    ) -> None:
        """A change asks the log and the catalog several times. All of that together takes at most its timeout."""
        await data_plane.create_table(TableSpec("flights", 1), timeout=DEADLINE_S)
        await data_plane.create_table(ROWS, timeout=DEADLINE_S)
        with slow_log(data_plane):
            await check_time_is_shared(lambda: SLOW_CALLS[name](connection))

    async def test_a_table_from_its_beginning_to_its_end(self, connection: TableAdmin) -> None:
        before_ms = SYSTEM_CLOCK.wall_ms()
        made = await connection.create_table(TableSpec("flights", 2, partitioner="murmur2"), timeout=DEADLINE_S)
        assert (made.name, made.partitions, made.partitioner) == ("flights", 2, "murmur2")
        assert await connection.find_table("flights", timeout=DEADLINE_S) == made
        assert await connection.list_tables(timeout=DEADLINE_S) == [made]
        described = await connection.describe_table("flights", timeout=DEADLINE_S)
        assert described.table == made
        assert before_ms <= described.made_ms <= SYSTEM_CLOCK.wall_ms(), "the log's server has this machine's clock"
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

    @pytest.mark.usefixtures("altering")
    async def test_the_next_schema_of_rows(self, connection: TableAdmin) -> None:
        made = await connection.create_table(ROWS, timeout=DEADLINE_S)
        assert await connection.definition(made.id, timeout=DEADLINE_S) == FLIGHTS
        assert await connection.definition(made.id, schema=7, timeout=DEADLINE_S) == FLIGHTS
        for _ in range(2):  # the same schema again changes nothing
            assert await connection.alter_table("rows", LATER, timeout=DEADLINE_S) == ALTERED_FLIGHTS
            for schema in (0, 2, NEWEST_SCHEMA):
                assert await connection.definition(made.id, schema=schema, timeout=DEADLINE_S) == ALTERED_FLIGHTS

    @pytest.mark.usefixtures("altering")
    async def test_a_schema_that_may_not_follow(self, connection: TableAdmin) -> None:
        await connection.create_table(ROWS, timeout=DEADLINE_S)
        await connection.create_table(TableSpec("bytes", 1), timeout=DEADLINE_S)
        fields = [*FLIGHT_SCHEMA["fields"], {"name": "seats", "type": "long"}]
        more = RowSchema.parse({**FLIGHT_SCHEMA, "fields": fields})
        with pytest.raises(InvalidSchema, match="the field seats") as refused:
            await connection.alter_table("rows", SchemaChange(more), timeout=DEADLINE_S)
        assert refused.value.fields["field"] == "seats"
        assert "default" in str(refused.value.fields["reason"])
        with pytest.raises(InvalidRequest, match="the values of table bytes are bytes"):
            await connection.alter_table("bytes", LATER, timeout=DEADLINE_S)
        with pytest.raises(TableNotFound):
            await connection.alter_table("missing", LATER, timeout=DEADLINE_S)
        forward = await connection.alter_table("rows", SchemaChange(more, "forward"), timeout=DEADLINE_S)
        assert forward.number == 2
        with pytest.raises(CommandRejected, match="has definition 2 by now, with schema 2 of job"):
            await connection.alter_table("rows", SchemaChange(LATER.schema, "none", after=1), timeout=DEADLINE_S)
        with pytest.raises(InvalidSchema, match="the table has this one, as schema 1"):
            await connection.alter_table("rows", FIRST, timeout=DEADLINE_S)

    @pytest.mark.usefixtures("altering")
    async def test_of_two_schemas_at_once_one_wins(self, connection: TableAdmin) -> None:
        made = await connection.create_table(ROWS, timeout=DEADLINE_S)
        changes = [SchemaChange(RowSchema.parse({**LATER_SCHEMA, "doc": doc}), after=1) for doc in ("one", "another")]
        ended = await asyncio.gather(
            *(connection.alter_table("rows", change, timeout=DEADLINE_S) for change in changes), return_exceptions=True
        )
        won, lost = sorted(ended, key=lambda each: isinstance(each, BaseException))
        assert isinstance(lost, CommandRejected)
        assert re.search(r"definition 2.* with schema \d+.* job \d+", lost.message)
        assert await connection.definition(made.id, timeout=DEADLINE_S) == won

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
