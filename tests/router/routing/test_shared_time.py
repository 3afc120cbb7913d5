"""A call of several steps gives each of them what the steps before it left of its timeout."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from types import SimpleNamespace
from typing import Any, Final

import pytest
from kit.virtual_loop import run_virtually

from log_tier.catalog.catalog import MapFeed
from log_tier.catalog.cluster_map import Assignment, ClusterMap, TableEntry
from log_tier.concurrency.persistent_map import PersistentMap
from log_tier.model.errors import DeadlineExceeded, Disconnected, DuramenError
from log_tier.model.identifiers import NOTHING, Offset, Partition, PartitionId, TableId
from log_tier.rows.table_spec import TableSpec
from router.data.requests import OutcomesPart, ReadPart, ScanRequest
from router.routing.failover import FailoverConnection
from router.routing.local_first import LocalFirstConnection
from router.routing.routed_connection import RoutedConnection
from router.routing.tables import RemoteChanges

TIMEOUT_S: Final = 10.0
STEP_S: Final = 6.0
TABLE: Final = TableId("AAAAAAAAAAAAAAAAAAAAAA")
ENTRY: Final = TableEntry(TABLE, "flights", 1, 1, ((Assignment("n1", "member"),),))
PART: Final = PartitionId(TABLE, Partition(0))


class SlowConnection:
    """Any method of it takes `STEP_S`, and ends with `error` if it is given, or after `timeout`."""

    def __init__(self, result: object = None, error: DuramenError | None = None) -> None:
        self.result = result
        self.error = error

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        if name.startswith("_"):
            raise AttributeError(name)

        async def call(*_: object, timeout: float, **__: object) -> Any:
            await asyncio.sleep(min(STEP_S, timeout))
            if timeout < STEP_S:
                raise DeadlineExceeded(f"{name} was not answered within {timeout:g} s")
            if self.error is not None:
                raise self.error
            return self.result

        return call


class SlowLog:
    """A log whose bounds take `STEP_S`."""

    async def all_bounds(self, _: TableId) -> Sequence[object]:
        await asyncio.sleep(STEP_S)
        return ()


def routed(maps: MapFeed, server: Any) -> RoutedConnection:
    """Its map learns of the table after `STEP_S`, by a refresh. Nothing is served but by `server`."""

    async def refresh() -> None:
        await asyncio.sleep(STEP_S)
        show(maps)

    membership: Any = SimpleNamespace(members={}, failures=lambda: (), wait_for=server.wait_for)
    log: Any = SlowLog()
    feed: Any = maps
    return RoutedConnection(feed, membership, changes=RemoteChanges(server), log=log, fallback=server, refresh=refresh)


def show(maps: MapFeed) -> None:
    maps.advance(ClusterMap(version=Offset(maps.map.version + 1), tables=PersistentMap({TABLE: ENTRY})))


async def took_s(call: Awaitable[object]) -> float:
    """The seconds until the call ends with an error of ours, which it must."""
    loop = asyncio.get_running_loop()
    begun = loop.time()
    with pytest.raises(DuramenError):
        await call
    return loop.time() - begun


ROUTED: Final[dict[str, Callable[[Any], Awaitable[object]]]] = {
    "scan": lambda it: it.scan(ScanRequest(TABLE), timeout=TIMEOUT_S),
    "producer": lambda it: it.producer(TABLE, 7, timeout=TIMEOUT_S),
    "describe_table": lambda it: it.describe_table("flights", timeout=TIMEOUT_S),
    "set_retention": lambda it: it.set_retention("flights", ms=1, size=None, timeout=TIMEOUT_S),
    "drop_table": lambda it: it.drop_table("flights", timeout=TIMEOUT_S),
}


@pytest.mark.parametrize("name", ROUTED)
def test_a_routed_call(name: str) -> None:
    async def run() -> None:
        connection = routed(MapFeed(), SlowConnection(ENTRY.ref))
        assert await took_s(ROUTED[name](connection)) == pytest.approx(TIMEOUT_S)

    run_virtually(run())


LAST: Final[dict[str, Callable[[Any], Awaitable[object]]]] = {
    "create_table": lambda it: it.create_table(TableSpec("flights", 1), timeout=STEP_S + 0.5),
    "set_retention": lambda it: it.set_retention("flights", ms=1, size=None, timeout=STEP_S + 0.5),
    "drop_table": lambda it: it.drop_table("flights", timeout=STEP_S + 0.5),
}


@pytest.mark.parametrize("name", LAST)
def test_a_change_that_no_map_shows(name: str) -> None:
    """It was made, just in time: the wait for the map has what is left."""

    async def run() -> None:
        maps = MapFeed()
        if name != "create_table":
            show(maps)
        connection = routed(maps, SlowConnection(ENTRY.ref))
        await LAST[name](connection)
        assert asyncio.get_running_loop().time() == pytest.approx(STEP_S + 0.5)

    run_virtually(run())


NEAREST: Final[dict[str, Callable[[Any], Awaitable[object]]]] = {
    "read": lambda it: it.read([ReadPart(PART, [b"k"]), ReadPart(PART, [b"k"])], timeout=TIMEOUT_S),
    "outcomes": lambda it: it.outcomes(
        [OutcomesPart(PART, Offset(0), 0, Offset(0)), OutcomesPart(PART, Offset(0), 0, Offset(0))], timeout=TIMEOUT_S
    ),
}


@pytest.mark.parametrize("name", NEAREST)
def test_a_call_that_is_half_here(name: str) -> None:
    """One part is asked here, the other elsewhere."""

    async def run() -> None:
        here: Any = SlowConnection([object()])
        answers = iter([SimpleNamespace(failure=None, state="ready"), SimpleNamespace(failure=None, state="closed")])
        here.node = SimpleNamespace(replica=lambda _: next(answers))
        connection: Any = LocalFirstConnection(here, SlowConnection([object()]))  # type: ignore[arg-type]
        loop = asyncio.get_running_loop()
        await NEAREST[name](connection)
        assert loop.time() == STEP_S, "both at the same time: a part that waits takes no time from the others"

    run_virtually(run())


SEVERAL: Final[dict[str, Callable[[Any], Awaitable[object]]]] = {
    **ROUTED,
    "read": lambda it: it.read([ReadPart(PART, [b"k"])], timeout=TIMEOUT_S),
    "outcomes": lambda it: it.outcomes([OutcomesPart(PART, NOTHING, 0, NOTHING)], timeout=TIMEOUT_S),
    "find_table": lambda it: it.find_table("flights", timeout=TIMEOUT_S),
    "list_tables": lambda it: it.list_tables(timeout=TIMEOUT_S),
    "create_table": lambda it: it.create_table(TableSpec("flights", 1), timeout=TIMEOUT_S),
}


@pytest.mark.parametrize("name", SEVERAL)
def test_a_call_whose_server_is_lost_late(name: str) -> None:
    """The next server has what the lost one left."""

    async def run() -> None:
        lost: Any = SlowConnection(error=Disconnected("lost after a while", sent=0))
        connection = FailoverConnection([lost, lost, lost], return_s=60.0)
        assert await took_s(SEVERAL[name](connection)) <= TIMEOUT_S

    run_virtually(run())
