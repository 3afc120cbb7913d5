"""The connections of a reader process share the turns of its event loop."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Hashable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kit.resp.raw_client import packed

from log_tier.model.errors import Disconnected
from router.endpoints.resp.bounds.connections_memory import ConnectionsMemory
from router.endpoints.resp.data.local_reads import LocalReads
from router.endpoints.resp.data.openings import Openings
from router.endpoints.resp.data.trust_cell import TrustCell
from router.endpoints.resp.readers.proxy import ProxyConnection
from router.endpoints.resp.readers.slow_reads import SlowReads


class OverTurns:
    """A turn whose time is over as soon as the test says so."""

    def __init__(self) -> None:
        self.over = False
        self.waiting: list[Callable[[], None]] = []

    def is_over(self, size: int, user: Hashable) -> bool:
        return self.over

    def wait(self, work: Callable[[], None], user: Hashable) -> None:
        self.waiting.append(work)


class Pipe(asyncio.Transport):
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""

    def write(self, data: Any) -> None:
        self.written += bytes(data)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    def pause_reading(self) -> None:
        """The test sends what it likes."""

    def resume_reading(self) -> None:
        """The same."""

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Everything is taken."""

    def close(self) -> None:
        """Nobody listens."""


@pytest.fixture
def turns() -> OverTurns:
    return OverTurns()


@pytest.fixture
async def proxy(turns: OverTurns, tmp_path: Path) -> AsyncIterator[tuple[ProxyConnection, Pipe]]:
    loop = asyncio.get_running_loop()
    process: Any = SimpleNamespace(
        loop=loop,
        memory=ConnectionsMemory(1 << 30, tuple, loop.time),
        reads=LocalReads(lambda: 0, Openings(loop.call_soon)),
        turns=turns,
        now_s=loop.time,
        connections=set(),
        stall_s=60.0,
        upstream_path=tmp_path / "none",
        trust=TrustCell(tmp_path),
        slow=SlowReads(math.inf, loop.time, lambda line: None),
        clock_ms=lambda: 0,
    )
    connection, upstream = ProxyConnection(process), Pipe()
    connection.connection_made(Pipe())
    connection.upstream_connected(SimpleNamespace(transport=upstream, full=False))  # type: ignore[arg-type]
    upstream.written = b""
    yield connection, upstream
    connection.connection_lost(Disconnected("the test is over"))


async def test_what_comes_when_the_turn_is_over_waits_for_a_later_one(
    proxy: tuple[ProxyConnection, Pipe], turns: OverTurns
) -> None:
    connection, upstream = proxy
    connection.data_received(packed("SET", "a", "1"))
    assert packed("SET", "a", "1") in upstream.written
    turns.over, upstream.written = True, b""
    connection.data_received(packed("SET", "b", "1"))
    connection.data_received(packed("SET", "c", "1"))
    assert upstream.written == b""
    assert len(turns.waiting) == 1, "a connection waits once"
    turns.over = False
    turns.waiting.pop()()
    assert packed("SET", "b", "1") + packed("SET", "c", "1") in upstream.written
