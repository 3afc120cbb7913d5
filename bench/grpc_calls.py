"""Callers of `duramen.aio` as a program of its own: `bench/processor.py` starts it with each checkout's own Python.

    python -P bench/grpc_calls.py HOST:PORT put|get CALLERS CALLS

It fills a table and prints `ready`. For each line that it reads, it makes CALLS calls by CALLERS callers and prints how
many microseconds of its own processor time a call took. It ends with its input. It imports nothing of this folder, so
it measures the client of the checkout whose Python runs it.
"""

from __future__ import annotations

import asyncio
import random
import sys
import time
from collections.abc import Awaitable, Callable

from duramen import aio

__all__: list[str] = []

_PARTITIONS = 4
_KEYS = 2000
_VALUE_BYTES = 100


async def _call_all(call: Callable[[bytes], Awaitable[object]], *, callers: int, calls: int) -> None:
    rng = random.Random(calls)
    left = iter([b"key:%012d" % rng.randrange(_KEYS) for _ in range(calls)])

    async def caller() -> None:
        for key in left:
            await call(key)

    async with asyncio.TaskGroup() as group:
        for _ in range(callers):
            group.create_task(caller())


async def _main(address: str, verb: str, callers: int, calls: int) -> None:
    database = await aio.connect(address)
    table = await database.create_table(f"{verb}-{callers}", partitions=_PARTITIONS)
    value = random.Random(1).randbytes(_VALUE_BYTES)
    await table.put_many([(b"key:%012d" % number, value) for number in range(_KEYS)])
    call: Callable[[bytes], Awaitable[object]] = table.get if verb == "get" else lambda key: table.put(key, value)
    await _call_all(call, callers=callers, calls=max(callers, calls // 10))  # warms up
    print("ready", flush=True)
    while await asyncio.to_thread(sys.stdin.readline):
        began_s = time.process_time()
        await _call_all(call, callers=callers, calls=calls)
        print((time.process_time() - began_s) / calls * 1e6, flush=True)
    await database.close()


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
