"""The server's side of `duramen.v1.Console`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import grpc

from log_tier.model.errors import DuramenError
from log_tier.model.log import Log
from log_tier.rpc.problems import abort
from log_tier.rpc.stream_budget import StreamBudget
from log_tier.rpc.time_left import time_left_s
from router.data.seam import Connection
from router.endpoints.grpc.kv.forms import TextForms
from router.endpoints.grpc.pages.entries import form_of, page_of_entries
from router.endpoints.grpc.pages.found_rows import page_of_rows
from router.endpoints.grpc.pages.log_records import records_of_log
from router.endpoints.grpc.pages.one_key import found_entry
from router.proto import console_pb2 as pb
from router.proto import console_pb2_grpc

__all__ = ["ConsoleService"]

_Context = grpc.aio.ServicerContext[Any, Any]

T = TypeVar("T")


class ConsoleService(console_pb2_grpc.ConsoleServicer):
    """One per server. What it is given stays its owner's to close."""

    def __init__(
        self, connect: Callable[[], Awaitable[Connection]], log: Log, forms: TextForms, budget: StreamBudget
    ) -> None:
        """`connect`: opens a way to all of the data. `forms` and `budget`: the server's, which `KVService` has too."""
        self._connect = connect
        self._log = log
        self._forms = forms
        self._budget = budget

    async def Get(self, request: pb.ConsoleGetRequest, context: _Context) -> pb.ConsoleFound:  # noqa: N802
        async def entry(connection: Connection, left_s: float) -> pb.ConsoleFound:
            return await found_entry(connection, request, self._forms, timeout=left_s)

        return await self._answer(context, entry)

    async def Scan(self, request: pb.ConsoleScanRequest, context: _Context) -> pb.ConsolePage:  # noqa: N802
        return await self._answer(context, lambda found, left_s: page_of_entries(found, request, timeout=left_s))

    async def Find(self, request: pb.ConsoleFindRequest, context: _Context) -> pb.ConsolePage:  # noqa: N802
        async def rows(connection: Connection, left_s: float) -> pb.ConsolePage:
            return await page_of_rows(connection, request, self._forms, self._budget, timeout=left_s)

        return await self._answer(context, rows)

    async def Records(self, request: pb.ConsoleRecordsRequest, context: _Context) -> pb.ConsoleRecords:  # noqa: N802
        async def records(connection: Connection, left_s: float) -> pb.ConsoleRecords:
            table = await connection.find_table(request.table, timeout=left_s)
            return await records_of_log(self._log, table, request, await form_of(connection, table, timeout=left_s))

        return await self._answer(context, records)

    async def _answer(self, context: _Context, question: Callable[[Connection, float], Awaitable[T]]) -> T:
        try:
            return await question(await self._connect(), time_left_s(context))
        except DuramenError as error:
            await abort(context, error)
