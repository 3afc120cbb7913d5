"""A user who floods a server by gRPC and heeds no refusal, in a process of its own.

`python -m bench.drivers.grpc_floods puts HOST PORT USER CA`, with the user's token as a line of standard input. It ends
when its standard input does, and prints how many calls were answered, and how many refused. It prints `ready` when
each of its connections has had an answer.

    puts         16 connections, each with 32 Put of 100 bytes under way

Its calls are bare bytes: what it sends was serialized once, and what it gets is not parsed.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import grpc

from router.proto import kv_pb2

__all__ = ["FLOODED_TABLE", "GRPC_FLOODS"]

FLOODED_TABLE: Final = "flooded"
_METHOD: Final = "/duramen.v1.KV/Put"


class _Flood(NamedTuple):
    connections: int
    under_way: int
    request: bytes


GRPC_FLOODS: Final = {
    "puts": _Flood(
        16, 32, kv_pb2.KVPutRequest(table=FLOODED_TABLE, key=b"flood", value=bytes(100)).SerializeToString()
    ),
}


class _Counts:
    def __init__(self) -> None:
        self.answered = self.refused = 0


async def _caller(call: Any, request: bytes, metadata: Any, counts: _Counts, heard: asyncio.Event) -> None:
    while True:
        try:
            await call(request, metadata=metadata)
            counts.answered += 1
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.RESOURCE_EXHAUSTED:
                raise
            counts.refused += 1
        heard.set()


async def _all_of(events: Sequence[asyncio.Event]) -> None:
    for event in events:
        await event.wait()


async def _flood(kind: str, host: str, port: int, ca: bytes) -> None:
    metadata = (("authorization", f"Bearer {sys.stdin.readline().strip()}"),)
    flood, counts = GRPC_FLOODS[kind], _Counts()
    credentials = grpc.ssl_channel_credentials(ca)
    options = (("grpc.use_local_subchannel_pool", 1), ("grpc.enable_retries", 0))
    heard = [asyncio.Event() for _ in range(flood.connections)]
    channels = [grpc.aio.secure_channel(f"{host}:{port}", credentials, options=options) for _ in heard]
    work: list[asyncio.Task[None]] = []
    for channel, event in zip(channels, heard, strict=True):
        call = channel.unary_unary(_METHOD, None, None)
        callers = (_caller(call, flood.request, metadata, counts, event) for _ in range(flood.under_way))
        work += [asyncio.create_task(each) for each in callers]
    ready = asyncio.create_task(_all_of(heard))
    await asyncio.wait([*work, ready], return_when=asyncio.FIRST_COMPLETED)
    assert ready.done(), f"the flood ended with {[task.exception() for task in work if task.done()]}"
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    ended = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
    done, _ = await asyncio.wait([*work, ended], return_when=asyncio.FIRST_COMPLETED)
    answered, refused = counts.answered, counts.refused
    for task in work:
        task.cancel()
    for task in done - {ended}:
        task.result()
    sys.stdout.write(f"{answered} {refused}\n")


if __name__ == "__main__":
    kind, host, port, _, ca = sys.argv[1:]
    asyncio.run(_flood(kind, host, int(port), Path(ca).read_bytes()))
