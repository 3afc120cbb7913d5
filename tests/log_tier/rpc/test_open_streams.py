"""Streams of a server: ended with a reason, and with their clients."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest

from log_tier.model.errors import ShuttingDown
from log_tier.rpc.open_streams import OpenStreams


class Context:
    """Of a call that nobody reads."""

    async def send_initial_metadata(self, _: Any) -> None: ...


CONTEXT: Any = Context()


async def test_a_shutdown_is_sent_inside_the_stream() -> None:
    streams, begun = OpenStreams(), asyncio.Event()

    async def serve() -> None:
        async with streams.served(CONTEXT):
            begun.set()
            await asyncio.Event().wait()

    serving = asyncio.create_task(serve())
    await begun.wait()
    assert len(streams) == 1
    streams.end()
    with pytest.raises(ShuttingDown, match="the server is stopping"):
        await serving
    assert len(streams) == 0
    with pytest.raises(ShuttingDown):
        await serve()


async def test_a_client_that_went_away_ends_its_stream_without_a_traceback() -> None:
    """gRPC's core raises where a message cannot be sent any more."""
    streams = OpenStreams()
    async with streams.served(CONTEXT):
        raise grpc.aio.InternalError("Failed execute_batch")
    assert len(streams) == 0


async def test_another_error_is_not_swallowed() -> None:
    with pytest.raises(RuntimeError):
        async with OpenStreams().served(CONTEXT):
            raise RuntimeError("a bug")
