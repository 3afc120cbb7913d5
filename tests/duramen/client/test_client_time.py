"""A client's call of several requests gives each of them what the requests before it left of its timeout."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Any, Final

import pytest
from kit.virtual_loop import run_virtually

from duramen.client.database import Database
from log_tier.model.errors import DeadlineExceeded, DuramenError, TableExists
from log_tier.model.identifiers import TableId
from log_tier.model.table_ref import TableRef
from router.data.requests import TableDescription

TIMEOUT_S: Final = 10.0
STEP_S: Final = 6.0
FLIGHTS: Final = TableRef(TableId("AAAAAAAAAAAAAAAAAAAAAA"), "flights", 1)


class SlowServer:
    """Every request takes `STEP_S`. A name leads to a table, and a table exists already; nothing else is answered
    well."""

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        if name.startswith("_"):
            raise AttributeError(name)

        async def call(*parts: Any, timeout: float, **_: object) -> Any:
            await asyncio.sleep(min(STEP_S, timeout))
            late = DeadlineExceeded(f"{name} was not answered within {timeout:g} s")
            if name == "find_table" and timeout > STEP_S:
                return FLIGHTS
            if name == "describe_table" and timeout > STEP_S:
                return TableDescription(FLIGHTS, [])
            if name == "create_table" and timeout > STEP_S:
                raise TableExists("there is one", table="flights")
            if name in ("read", "write") and isinstance(parts[0], Sequence):
                await asyncio.sleep(max(0.0, timeout - STEP_S))
                return [late] * len(parts[0])
            await asyncio.sleep(max(0.0, timeout - STEP_S))
            raise late

        return call

    async def watch(self, *_: object) -> AsyncGenerator[Any, None]:
        await asyncio.Event().wait()
        yield None

    async def close(self) -> None:
        pass


async def _pages(database: Database) -> None:
    async for _ in database.table("flights").scan_pages(timeout=TIMEOUT_S):
        pass


async def _written(database: Database) -> None:
    async with database.table("flights").writer("w") as writer:
        await writer.put(b"k", b"v")


CALLS: Final[dict[str, Callable[[Database], Awaitable[object]]]] = {
    "get": lambda it: it.table("flights").get(b"k", timeout=TIMEOUT_S),
    "get_many": lambda it: it.table("flights").get_many([b"k", b"l"], timeout=TIMEOUT_S),
    "put": lambda it: it.table("flights").put(b"k", b"v", timeout=TIMEOUT_S),
    "put_many": lambda it: it.table("flights").put_many([(b"k", b"v")], timeout=TIMEOUT_S),
    "delete": lambda it: it.table("flights").delete(b"k", timeout=TIMEOUT_S),
    "scan": _pages,
    "watch from the end": lambda it: anext(it.table("flights").watch_runs(timeout=TIMEOUT_S)),
    "watch from the beginning": lambda it: anext(it.table("flights").watch_runs(start="earliest", timeout=TIMEOUT_S)),
    "writer": _written,
    "create_table": lambda it: it.create_table("flights", if_missing=True, timeout=TIMEOUT_S),
    "tables": lambda it: it.tables(timeout=TIMEOUT_S),
    "describe_table": lambda it: it.describe_table("flights", timeout=TIMEOUT_S - STEP_S),
    "set_retention": lambda it: it.set_retention("flights", retention_ms=1, timeout=TIMEOUT_S),
    "drop_table": lambda it: it.drop_table("flights", timeout=TIMEOUT_S),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_takes_no_longer_than_its_timeout(name: str) -> None:
    async def run() -> None:
        server: Any = SlowServer()
        with pytest.raises(DuramenError):
            await CALLS[name](Database(server, timeout=TIMEOUT_S))
        assert asyncio.get_running_loop().time() <= TIMEOUT_S + 0.01

    run_virtually(run())
