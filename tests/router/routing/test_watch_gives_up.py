"""A watch whose nodes take a partition and lose it at once ends; one that is followed in between goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Any, Final

import pytest
from kit.cluster.scripted_members import TABLE, ScriptedCluster
from kit.virtual_loop import run_virtually

from log_tier.model.errors import Disconnected
from log_tier.model.identifiers import Offset, Partition
from router.data.requests import WatchEvent
from router.routing.watches import watch_nodes

ZERO: Final = Partition(0)


def watched(
    cluster: ScriptedCluster, stream: Callable[[], AsyncGenerator[WatchEvent, None]]
) -> AsyncGenerator[Any, None]:
    for member in cluster.nodes.values():
        member.follow = lambda _: stream()  # type: ignore[attr-defined]
    return watch_nodes(cluster.routes, TABLE, {})


def test_nodes_that_lose_every_stream_at_once() -> None:
    async def run() -> None:
        async def lost() -> AsyncGenerator[WatchEvent, None]:
            raise Disconnected("lost at once")
            yield

        with pytest.raises(Disconnected):
            await anext(watched(ScriptedCluster(1), lost))
        assert 0.5 < asyncio.get_running_loop().time() < 5.0

    run_virtually(run())


def test_streams_that_were_followed_for_a_while_begin_again_for_ever() -> None:
    async def run() -> None:
        streams = 0

        async def followed() -> AsyncGenerator[WatchEvent, None]:
            nonlocal streams
            streams += 1
            yield WatchEvent(ZERO, b"", (), Offset(-1), {ZERO: Offset(7)})
            await asyncio.sleep(0.9)
            raise Disconnected("lost after a while")

        watch = watched(ScriptedCluster(1), followed)
        assert (await anext(watch)).positions == {ZERO: 7}
        going_on = asyncio.ensure_future(anext(watch))
        await asyncio.sleep(60.0)
        assert not going_on.done()
        assert streams > 30
        going_on.cancel()
        with pytest.raises(asyncio.CancelledError):
            await going_on
        await watch.aclose()

    run_virtually(run())
