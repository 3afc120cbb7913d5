"""A call of the KV service is bounded by its caller's deadline, however many requests the service makes for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any, Final

import grpc
import pytest
from kit.virtual_loop import run_virtually

from log_tier.model.errors import DeadlineExceeded, Disconnected, TableNotFound
from log_tier.model.identifiers import TableId, table_id_from_bytes
from log_tier.model.table_ref import TableRef
from log_tier.rpc.stream_budget import StreamBudget
from router.data.requests import TableDescription
from router.endpoints.grpc.kv.plane import Plane
from router.endpoints.grpc.kv.service import KVService
from router.endpoints.grpc.kv.watches import ChangeStream
from router.proto import kv_pb2 as kv

TIMEOUT_S: Final = 10.0
STEP_S: Final = 6.0
CITIES: Final = TableRef(table_id_from_bytes(bytes(16)), "cities", 1)


class SlowPlane:
    """A connection that takes `STEP_S` for each question, and on which the table is gone for reads."""

    async def find_table(self, name: str, *, timeout: float) -> TableRef:
        await self._take(timeout)
        return CITIES

    async def describe_table(self, name: str, *, timeout: float) -> TableDescription:
        await self._take(timeout)
        return TableDescription(CITIES, [])

    async def read(self, parts: Any, *, timeout: float, patience: float = 0.0) -> Any:
        return [TableNotFound("dropped just now")] * len(parts)

    async def watch(self, table_id: TableId, start: Any, partitions: Any = ()) -> AsyncGenerator[Any, None]:
        raise Disconnected("nobody serves it")
        yield

    async def _take(self, timeout: float) -> None:
        await asyncio.sleep(min(STEP_S, timeout))
        if timeout < STEP_S:
            raise DeadlineExceeded(f"not within {timeout:g} s")


class Aborted(Exception):
    """The call has ended with a status."""


class TimedCaller:
    """The context of a call with a deadline."""

    def time_remaining(self) -> float:
        return TIMEOUT_S

    async def abort(self, code: grpc.StatusCode, details: str = "", trailing_metadata: Any = ()) -> None:
        raise Aborted(code.name)


def test_the_name_of_a_table_that_was_dropped_meanwhile_is_looked_up_in_time() -> None:
    async def run() -> None:
        connection: Any = SlowPlane()
        plane = Plane(connection)

        async def opened() -> Plane:
            return plane

        caller: Any = TimedCaller()
        with pytest.raises(Aborted, match="DEADLINE_EXCEEDED"):
            await KVService(opened).Get(kv.KVGetRequest(table="cities", key=b"k"), caller)
        assert asyncio.get_running_loop().time() <= TIMEOUT_S

    run_virtually(run())


def test_a_plane_that_opens_slowly_leaves_the_rest_to_its_questions() -> None:
    async def run() -> None:
        connection: Any = SlowPlane()

        async def opened() -> Plane:
            await asyncio.sleep(STEP_S)
            return Plane(connection)

        caller: Any = TimedCaller()
        with pytest.raises(Aborted, match="DEADLINE_EXCEEDED"):
            await KVService(opened).EndToken(kv.KVEndTokenRequest(table="cities"), caller)
        assert asyncio.get_running_loop().time() <= TIMEOUT_S

    run_virtually(run())


def test_a_watch_that_cannot_begin_gives_up_in_time() -> None:
    """The look for the earliest offsets and the tries that follow it share the time."""

    async def run() -> None:
        connection: Any = SlowPlane()
        request = kv.KVWatchRequest(table="cities", start=kv.KV_WATCH_START_EARLIEST)
        with pytest.raises(Disconnected), StreamBudget().stream() as held:
            await anext(ChangeStream(connection, CITIES, request, TIMEOUT_S).messages(held))
        assert asyncio.get_running_loop().time() <= TIMEOUT_S

    run_virtually(run())
