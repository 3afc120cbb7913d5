"""A table's next definition on its way into the logs: begun, failed, taken up again, and raced for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from kit.flight_rows import ALTERED_FLIGHTS, FLIGHTS, LATER_SCHEMA, UNNUMBERED_FLIGHTS, flight, flight_key, later_flight
from kit.jobs.single_machine import SingleMachine

from log_tier.catalog.catalog import Catalog
from log_tier.catalog.cluster_map import TableEntry
from log_tier.catalog.commands import CreateTable, RegisterNode
from log_tier.embedded import EmbeddedLog
from log_tier.model.errors import CommandRejected, InvalidRequest, InvalidSchema, Unavailable
from log_tier.model.identifiers import PartitionId
from log_tier.model.log import Topic
from log_tier.rows.alter_table import SchemaChange
from log_tier.rows.schema import RowSchema
from serving_tier.jobs.altering import alter_table
from serving_tier.jobs.worker import RetryLimits

LATER = SchemaChange(RowSchema.parse(LATER_SCHEMA))
THIRD = SchemaChange(RowSchema.parse({**LATER_SCHEMA, "doc": "the third"}))
UA7 = flight_key("UA", 7)
PARTITIONS = 2


class FailingLog:
    """The log, whose appends to several partitions end after the first one of them while `failing` is set."""

    def __init__(self, log: Any) -> None:
        self._log, self.failing = log, False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    async def append_many(self, parts: Any) -> Any:
        if not self.failing:
            return await self._log.append_many(parts)
        await self._log.append_many(parts[:1])
        raise Unavailable("the log is gone")


@pytest.fixture
async def machine(tmp_path: Path) -> AsyncIterator[SingleMachine]:
    log = await EmbeddedLog.open(tmp_path / "log")
    catalog = await Catalog.open(log)
    machine = SingleMachine(tmp_path, FailingLog(log), catalog)  # type: ignore[arg-type]
    yield machine
    await machine.close()
    await catalog.close()
    await log.close()


async def flights(machine: SingleMachine) -> Topic:
    for node in ("n1", "n2"):
        await machine.add_node(node, retries=RetryLimits(tries=1))
    topic = await machine.log.create_topic("flights", partitions=PARTITIONS)
    document = UNNUMBERED_FLIGHTS.to_document()
    await machine.catalog.submit(CreateTable(topic.id, "flights", PARTITIONS, 2, "fields:1", definition=document))
    return topic


def by(node: str) -> Any:
    return lambda table, preferred: node


async def test_every_replica_has_it_from_one_offset_on(machine: SingleMachine) -> None:
    topic = await flights(machine)
    await machine.put(topic, (UA7, later_flight("UA", 7)))
    table = await alter_table(machine.catalog, topic.id, LATER, by("n1"))
    assert table.definition == ALTERED_FLIGHTS
    await machine.put(topic, (UA7, later_flight("UA", 7, "B8")))
    for node in ("n1", "n2"):
        replica = await machine.level(node, topic)
        assert replica.index.definition == ALTERED_FLIGHTS
        assert replica.index.get_value(UA7) == later_flight("UA", 7, "B8")
        assert replica.index.statistics().void == 1, "what was written before the barrier"
    assert (await alter_table(machine.catalog, topic.id, LATER, by("n2"))).definition == ALTERED_FLIGHTS


async def test_half_of_the_barriers_is_not_half_a_definition(machine: SingleMachine) -> None:
    topic = await flights(machine)
    machine.log.failing = True  # type: ignore[attr-defined]
    with pytest.raises(Unavailable, match="has failed: unavailable: the log is gone; ask again"):
        await alter_table(machine.catalog, topic.id, LATER, by("n1"))
    assert machine.catalog.map.table(topic.id).definition == FLIGHTS
    with pytest.raises(CommandRejected, match="goes over to definition 2, with schema 2"):
        await alter_table(machine.catalog, topic.id, THIRD, by("n1"))
    machine.log.failing = False  # type: ignore[attr-defined]
    assert (await alter_table(machine.catalog, topic.id, LATER, by("n2"))).definition == ALTERED_FLIGHTS
    await machine.put(topic, (UA7, later_flight("UA", 7)))
    for number in range(PARTITIONS):
        replica = machine.hostings["n2"].node.replica(PartitionId(topic.id, number))  # type: ignore[arg-type]
        latest = (await machine.log.bounds(PartitionId(topic.id, number))).latest  # type: ignore[arg-type]
        await replica.wait_applied(latest, timeout=30)
        assert replica.index.definition == ALTERED_FLIGHTS


async def test_two_at_once(machine: SingleMachine) -> None:
    topic = await flights(machine)
    ended = await asyncio.gather(
        *(alter_table(machine.catalog, topic.id, change, by("n1")) for change in (LATER, THIRD)),
        return_exceptions=True,
    )
    won, lost = sorted(ended, key=lambda each: isinstance(each, BaseException))
    assert not isinstance(won, BaseException)
    assert isinstance(lost, CommandRejected)
    assert "definition 2" in lost.message
    assert won.definition is not None
    assert won.definition.number == 2
    it = (LATER, THIRD)[ended.index(won)]  # either may be first
    same = await asyncio.gather(*(alter_table(machine.catalog, topic.id, it, by("n1")) for _ in range(2)))
    assert same[0].definition == same[1].definition


async def test_what_is_refused_says_why(machine: SingleMachine) -> None:
    topic = await flights(machine)
    plain = await machine.make_table("bytes")
    fields = [*LATER_SCHEMA["fields"], {"name": "seats", "type": "long"}]
    more = RowSchema.parse({**LATER_SCHEMA, "fields": fields})
    with pytest.raises(InvalidSchema, match=r"the field seats: .* has no default for it") as refused:
        await alter_table(machine.catalog, topic.id, SchemaChange(more), by("n1"))
    assert refused.value.fields["field"] == "seats"
    less = RowSchema.parse({**LATER_SCHEMA, "fields": LATER_SCHEMA["fields"][1:]})
    with pytest.raises(InvalidSchema, match="carrier: it is a field of the key"):
        await alter_table(machine.catalog, topic.id, SchemaChange(less, "none"), by("n1"))
    with pytest.raises(InvalidRequest, match="the values of table bytes are bytes"):
        await alter_table(machine.catalog, plain.id, LATER, by("n1"))
    with pytest.raises(CommandRejected, match="has definition 1 by now"):
        await alter_table(machine.catalog, topic.id, SchemaChange(LATER.schema, after=7), by("n1"))
    with pytest.raises(Unavailable, match="no node is there"):
        await alter_table(machine.catalog, topic.id, LATER, by(""))
    assert machine.catalog.map.table(topic.id).definition == FLIGHTS
    assert (await alter_table(machine.catalog, topic.id, SchemaChange(more, "forward"), by("n1"))).definition


async def test_rows_of_every_schema_are_looked_at(machine: SingleMachine) -> None:
    """Nothing is rewritten: a field that came and went may be in rows of before it came."""
    topic = await flights(machine)
    await machine.put(topic, (UA7, flight("UA", 7)))
    await alter_table(machine.catalog, topic.id, LATER, by("n1"))
    without = [*LATER_SCHEMA["fields"][:-1], {"name": "gate", "type": "string"}]
    change = SchemaChange(RowSchema.parse({**LATER_SCHEMA, "fields": without}))
    with pytest.raises(InvalidSchema, match="the field gate"):
        await alter_table(machine.catalog, topic.id, change, by("n1"))


async def test_a_node_that_goes_away_meanwhile_is_replaced(machine: SingleMachine) -> None:
    """The caller goes on waiting: it need not ask again."""
    topic = await flights(machine)
    await machine.catalog.submit(RegisterNode("n3", "", "n3"))  # it does nothing
    asked = []

    def choose(table: TableEntry, preferred: str) -> str:
        asked.append(preferred)
        return "n3" if len(asked) == 1 else "n2"

    table = await alter_table(machine.catalog, topic.id, LATER, choose)
    assert table.definition == ALTERED_FLIGHTS
    assert asked[:2] == ["", "n3"]
