"""A stream whose client does not read holds one message, and goes on behind it when the client reads again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from kit.virtual_loop import run_virtually

from log_tier.model.errors import LogDamaged, ShuttingDown
from log_tier.rpc.open_streams import STALLED_S, OpenStreams
from log_tier.rpc.stream_budget import HeldPage


class Numbered:
    """A message of a service, by number."""

    def __init__(self, number: int) -> None:
        self.number = number

    def ByteSize(self) -> int:  # noqa: N802
        return 1_000 + self.number


class SlowClient:
    """The context of a call whose client takes each message `pauses_s` after the one before."""

    def __init__(self, pauses_s: list[float]) -> None:
        self._pauses_s = pauses_s
        self.taken: list[int] = []

    async def send_initial_metadata(self, _: Any) -> None: ...

    async def write(self, message: Numbered) -> None:
        await asyncio.sleep(self._pauses_s.pop(0))
        self.taken.append(message.number)


class Numbers:
    """A source that yields numbers and goes on behind the last one."""

    def __init__(self, end: int, *, failing: bool = False) -> None:
        self._next, self._end, self._failing = 0, end, failing
        self.opened = self.closed = 0

    async def messages(self, held: HeldPage) -> AsyncGenerator[Numbered, None]:
        self.opened += 1
        try:
            while self._next < self._end:
                self._next += 1
                held.hold(1 << 20)
                yield Numbered(self._next)
                held.release()
        finally:
            await asyncio.sleep(0.1)  # as a watch does, which ends its followers
            self.closed += 1
            if self._failing:
                raise LogDamaged("byte 7")


def test_a_client_that_reads_has_one_source() -> None:
    async def run() -> None:
        streams, client, source = OpenStreams(), SlowClient([STALLED_S / 2] * 5), Numbers(5)
        context: Any = client
        await streams.send_on(context, source.messages)
        assert client.taken == [1, 2, 3, 4, 5]
        assert (source.opened, source.closed, streams.budget.held_bytes) == (1, 1, 0)

    run_virtually(run())


@asynccontextmanager
async def stalled(source: Numbers, pauses_s: list[float]) -> Any:
    """A stream whose client has just stalled in its second message."""
    streams, client = OpenStreams(), SlowClient(pauses_s)
    context: Any = client
    sending = asyncio.create_task(streams.send_on(context, source.messages))
    await asyncio.sleep(STALLED_S + 0.05)
    assert streams.budget.held_bytes == 1_002, "the message, and not what its source held"
    yield streams, client, sending
    assert streams.budget.held_bytes == len(streams) == 0
    assert source.opened == source.closed


def test_one_that_stalls_misses_nothing_and_gets_nothing_twice() -> None:
    async def run() -> None:
        source = Numbers(4)
        async with stalled(source, [0.0, 5.0, 3.0, 0.0]) as (_, client, sending):
            await asyncio.sleep(0.2)
            assert source.closed == 1
            await sending
            assert client.taken == [1, 2, 3, 4]
            assert source.opened == 3

    run_virtually(run())


@pytest.mark.parametrize("later_s", [0.0, 1.0])
def test_a_client_that_leaves_while_it_is_stalled(later_s: float) -> None:
    """While its source is being closed, and after that."""

    async def run() -> None:
        source = Numbers(4)
        async with stalled(source, [0.0, 1e6]) as (_, _, sending):
            await asyncio.sleep(later_s)
            sending.cancel()
            with pytest.raises(asyncio.CancelledError):
                await sending
            assert (source.opened, source.closed) == (1, 1)

    run_virtually(run())


@pytest.mark.parametrize("later_s", [0.0, 1.0])
def test_a_shutdown_reaches_a_stalled_stream(later_s: float) -> None:
    async def run() -> None:
        async with stalled(Numbers(4), [0.0, 1e6]) as (streams, _, sending):
            await asyncio.sleep(later_s)
            streams.end()
            with pytest.raises(ShuttingDown):
                await sending

    run_virtually(run())


def test_an_error_of_a_source_that_is_closed_ends_the_stream() -> None:
    async def run() -> None:
        async with stalled(Numbers(4, failing=True), [0.0, 5.0]) as (_, _, sending):
            with pytest.raises(LogDamaged):
                await sending

    run_virtually(run())
