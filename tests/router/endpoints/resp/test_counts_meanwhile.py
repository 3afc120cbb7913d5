"""DBSIZE and WAIT beside writers: what they wait for is what was acknowledged when they came."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final

from kit.deadlines import within

from log_tier.model.identifiers import Offset, Partition, PartitionId, TableId
from log_tier.model.table_ref import TableRef
from router.data.requests import PartitionDescription, TableDescription
from router.endpoints.resp.commands.server import dbsize, wait
from router.endpoints.resp.data.served_tables import ServedTable
from router.endpoints.resp.data.value_cache import CacheBudget
from router.membership.views import ReplicaView

ZERO: Final = Partition(0)
REF: Final = TableRef(TableId("AAAAAAAAAAAAAAAAAAAAAA"), "busy", 1)


class BusyTable:
    """A table of another node: at each look one more write was acknowledged here, and its replica has applied one more,
    which is not the newest.
    """

    def __init__(self) -> None:
        self.table = ServedTable(REF, None, CacheBudget(0))
        self.table.saw(ZERO, Offset(100))
        self.looks = 0

    def look(self) -> Offset:
        self.looks += 1
        self.table.saw(ZERO, Offset(100 + self.looks))
        return Offset(90 + self.looks)

    async def describe_table(self, name: str, *, timeout: float) -> TableDescription:
        applied = self.look()
        report = PartitionDescription(ZERO, Offset(0), self.table.seen[ZERO], applied, int(applied), 0, "ready", "")
        return TableDescription(REF, [report])

    @property
    def members(self) -> dict[str, Any]:
        applied = self.look()
        views = [ReplicaView(Offset(1000)), ReplicaView(applied)]
        return {
            f"n{number}": SimpleNamespace(view=SimpleNamespace(replicas={PartitionId(REF.id, ZERO): view}))
            for number, view in enumerate(views)
        }

    async def wait_for(self, predicate: Callable[[], bool], *, timeout: float) -> None:
        while not predicate():  # noqa: ASYNC110 - each look is a report
            await asyncio.sleep(0)

    async def current_table(self) -> ServedTable:
        return self.table


def client_of(busy: BusyTable) -> Any:
    server = SimpleNamespace(
        connection=busy, membership=busy, loop=asyncio.get_running_loop(), own_partitions=lambda _: [ZERO]
    )
    return SimpleNamespace(server=server, current_table=busy.current_table, closing=False)


async def test_a_count_of_another_node() -> None:
    busy = BusyTable()
    async with within(10):
        assert await dbsize(client_of(busy), []) == 100
    assert busy.looks == 10, "the first report that holds what was acknowledged before"


async def test_replicas_that_follow_one_write_behind() -> None:
    busy = BusyTable()
    async with within(10):
        assert await wait(client_of(busy), [b"1", b"0"]) == 1
    assert busy.looks <= 22
