"""Whose callers a request is traced for: those whose calls it carries, whoever's task began it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextvars import copy_context
from typing import Any, Final, cast

import pytest
from kit.deadlines import until, within

from log_tier.model.batch import Columns
from log_tier.model.errors import Disconnected
from log_tier.model.identifiers import Offset, Partition, TableId
from log_tier.model.table_ref import TableRef
from log_tier.tracing.span import TRACED
from router.data.gather.read_coalescer import ReadCoalescer
from router.data.gather.write_coalescer import WriteCoalescer
from router.data.requests import ReadPart, ReadResult, WritePart, WriteResult

REF: Final = TableRef(TableId("AAAAAAAAAAAAAAAAAAAAAA"), "flights", 2)
ZERO: Final = REF.partition(Partition(0))
READS_UNDER_WAY: Final = 2


class LastingCaller:
    """A caller that is traced, and whose call is not over: what is asked for in its context would be its own."""

    def place(self, partition: int, offset: int) -> None:
        """Where its parts were done is no matter here."""


class NotesCallers:
    """A connection that notes the callers of each request, and answers in step with the test."""

    def __init__(self, *, losses: int = 0) -> None:
        self.callers: list[tuple[tuple[bytes, ...], tuple[Any, ...]]] = []
        """The keys of each request, and its callers."""
        self.answering = asyncio.Event()
        self._losses = losses

    def offsets(self, table: TableRef) -> Sequence[Offset]:
        return [Offset(-1)]

    def saw(self, table: TableRef, partition: Partition, offset: Offset) -> None:
        """It has no session."""

    async def read(self, parts: Sequence[ReadPart], *, timeout: float, patience: float = 0.0) -> list[Any]:
        self.callers.append((tuple(key for part in parts for key in part.keys), TRACED.get()))
        await self.answering.wait()
        if self._losses:
            self._losses -= 1
            return [Disconnected("the server is away") for _ in parts]
        return [ReadResult(Offset(7), list(part.keys), [1] * len(part.keys), None) for part in parts]

    async def write(self, parts: Sequence[WritePart], *, timeout: float, patience: float = 0.0) -> list[Any]:
        self.callers.append(((), TRACED.get()))
        await self.answering.wait()
        return [WriteResult(Offset(7), 0) for _ in parts]


def traced_for(caller: object | None, call: Any) -> asyncio.Future[Any]:
    """What `call` returns in the context of a caller; None: of one that is not traced."""

    def made() -> asyncio.Future[Any]:
        TRACED.set(() if caller is None else (cast("Any", caller),))
        return cast("asyncio.Future[Any]", call())

    return copy_context().run(made)


@pytest.mark.parametrize("after", [None, Offset(3)], ids=["shared", "alone"])
async def test_a_read_that_leaves_when_another_is_back_has_its_own_callers(after: Offset | None) -> None:
    """The task of the later request is begun by that of the earlier one, and inherits its callers."""
    connection = NotesCallers()
    reads = ReadCoalescer(cast("Any", connection), cast("Any", connection))
    deadline = asyncio.get_running_loop().time() + 60

    def ask(key: bytes, caller: object | None, after: Offset | None = None) -> asyncio.Future[Any]:
        wanted: dict[str, Any] = {"after": after, "strong": False, "seen": True, "deadline": deadline}
        return traced_for(caller, lambda: reads.submit(REF, ZERO, (key,), **wanted))

    callers = [LastingCaller() for _ in range(READS_UNDER_WAY)]
    found = []
    for number, caller in enumerate(callers):
        found.append(ask(b"%d" % number, caller, after))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert [each for _, each in connection.callers] == [(caller,) for caller in callers]
    found.append(ask(b"later", None))
    connection.answering.set()
    async with within(20):
        await asyncio.gather(*found)
    await reads.close()
    assert connection.callers[-1] == ((b"later",), ())


async def test_a_read_that_is_asked_again_keeps_its_callers() -> None:
    connection = NotesCallers(losses=1)
    connection.answering.set()
    reads = ReadCoalescer(cast("Any", connection), cast("Any", connection))
    deadline = asyncio.get_running_loop().time() + 60
    caller = LastingCaller()
    async with within(20):
        await traced_for(
            caller,
            lambda: reads.submit(REF, ZERO, (b"k",), after=None, strong=False, seen=True, deadline=deadline),
        )
    await reads.close()
    assert connection.callers == [((b"k",), (caller,))] * 2


async def test_a_write_that_leaves_when_another_is_back_has_its_own_callers() -> None:
    connection = NotesCallers()
    writes = WriteCoalescer(cast("Any", connection), cast("Any", connection), 9)
    deadline = asyncio.get_running_loop().time() + 60

    def put(key: bytes, caller: object | None) -> asyncio.Future[Any]:
        columns = Columns([key], [b"v"])
        return traced_for(caller, lambda: writes.submit(REF, ZERO, columns, outcomes=False, deadline=deadline))

    caller = LastingCaller()
    written = [put(b"first", caller)]
    async with within(20):
        await until(lambda: connection.callers)
    written.append(put(b"later", None))
    connection.answering.set()
    async with within(20):
        await asyncio.gather(*written)
    await writes.close()
    assert [each for _, each in connection.callers] == [(caller,), ()]


async def test_a_request_that_another_has_begun_has_the_callers_that_join_it() -> None:
    connection = NotesCallers()
    connection.answering.set()
    reads = ReadCoalescer(cast("Any", connection), cast("Any", connection))
    writes = WriteCoalescer(cast("Any", connection), cast("Any", connection), 9)
    deadline = asyncio.get_running_loop().time() + 60

    def get(key: bytes) -> asyncio.Future[Any]:
        return reads.submit(REF, ZERO, (key,), after=None, strong=False, seen=True, deadline=deadline)

    def put(key: bytes) -> asyncio.Future[Any]:
        return writes.submit(REF, ZERO, Columns([key], [b"v"]), outcomes=False, deadline=deadline)

    for call in (get, put):
        caller = LastingCaller()
        connection.callers.clear()
        async with within(20):
            begun = traced_for(None, lambda call=call: call(b"begun"))
            await asyncio.gather(begun, traced_for(caller, lambda call=call: call(b"joined")))
        assert [each for _, each in connection.callers] == [(caller,)]
    await reads.close()
    await writes.close()


async def test_a_call_with_several_parts_is_one_caller() -> None:
    connection = NotesCallers()
    connection.answering.set()
    reads = ReadCoalescer(cast("Any", connection), cast("Any", connection))
    deadline = asyncio.get_running_loop().time() + 60
    caller = LastingCaller()

    def get(key: bytes) -> asyncio.Future[Any]:
        return reads.submit(REF, ZERO, (key,), after=None, strong=False, seen=True, deadline=deadline)

    async with within(20):
        await asyncio.gather(*(traced_for(caller, lambda key=key: get(key)) for key in (b"1", b"2", b"3")))
    assert connection.callers == [((b"1", b"2", b"3"), (caller,))]
    await reads.close()
