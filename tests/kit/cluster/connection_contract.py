"""What every `Connection` promises: one suite, run against each implementation (`test_connections.py`)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import pytest

from kit.cluster.one_machine import DEADLINE_S, NO_TABLE, ZERO, puts
from kit.deadlines import within
from log_tier.model.errors import Disconnected, DuramenError
from log_tier.model.identifiers import NOTHING, Offset
from router.data.local_data import LocalData
from router.data.requests import Connection, OutcomesPart, ReadPart, ScanRequest, WritePart

__all__ = ["ConnectionContract"]

# What the calls below may take. The suite waits for `DEADLINE_S` before it says that they took longer.
TIMEOUT_S: Final = 0.3

Call = Callable[[Connection], Awaitable[object]]

CALLS: Final[dict[str, Call]] = {
    "read": lambda it: it.read([ReadPart(NO_TABLE, ZERO, [b"k"], NOTHING)], timeout=TIMEOUT_S),
    "write": lambda it: it.write([WritePart(NO_TABLE, ZERO, puts((b"k", b"v")), outcomes=True)], timeout=TIMEOUT_S),
    "outcomes": lambda it: it.outcomes([OutcomesPart(NO_TABLE, ZERO, Offset(0), 1_000, 1)], timeout=TIMEOUT_S),
    "scan": lambda it: it.scan(ScanRequest(NO_TABLE), timeout=TIMEOUT_S),
    "producer": lambda it: it.producer(NO_TABLE, 7, timeout=TIMEOUT_S),
    "create_table": lambda it: it.create_table("new", partitions=1, timeout=TIMEOUT_S),
    "find_table": lambda it: it.find_table("missing", timeout=TIMEOUT_S),
    "list_tables": lambda it: it.list_tables(timeout=TIMEOUT_S),
    "describe_table": lambda it: it.describe_table("flights", timeout=TIMEOUT_S),
    "drop_table": lambda it: it.drop_table("missing", timeout=TIMEOUT_S),
}


class ConnectionContract:
    """Derive from it, with a fixture `connection` over the fixture `data_plane`."""

    @pytest.mark.parametrize("name", CALLS)
    async def test_a_timeout_covers_the_call(
        self, connection: Connection, data_plane: LocalData, name: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The log does not answer. The call ends all the same, with an error of ours, in good time."""
        await data_plane.create_table("flights", partitions=1, timeout=DEADLINE_S)

        ended = asyncio.Event()

        async def silent(*_: object, **__: object) -> None:
            await ended.wait()
            raise Disconnected("the log was away")

        for owner, method in (
            (data_plane.catalog, "refresh"),
            (data_plane.log, "bounds"),
            (data_plane.log, "all_bounds"),
        ):
            monkeypatch.setattr(owner, method, silent)
        monkeypatch.setattr(data_plane.catalog, "submit", silent)
        loop = asyncio.get_running_loop()
        begun = loop.time()
        async with within(DEADLINE_S):
            try:
                results = await CALLS[name](connection)
            except DuramenError:
                results = []
        assert isinstance(results, list)
        assert all(isinstance(result, DuramenError) for result in results), "it cannot know"
        assert loop.time() - begun < DEADLINE_S
        monkeypatch.undo()
        ended.set()
        assert (await connection.find_table("flights", timeout=DEADLINE_S)).partitions == 1

    async def test_tables(self, connection: Connection, data_plane: LocalData) -> None:
        made = await connection.create_table("flights", partitions=2, timeout=DEADLINE_S)
        assert await connection.find_table("flights", timeout=DEADLINE_S) == made
        assert await connection.list_tables(timeout=DEADLINE_S) == [made]
        assert (await connection.describe_table("flights", timeout=DEADLINE_S)).table == made
        await connection.drop_table("flights", timeout=DEADLINE_S)
        assert await connection.list_tables(timeout=DEADLINE_S) == []
