"""How fast virtual time passes: seconds of a three-node cluster for each second of a processor, by what its callers do.

An idle cluster has its status streams, its watches and its long reads to keep. Each call costs what it costs in a real
cluster, less the network, so a rate of calls is part of the figure. The worlds of this package are denser than any of
these lines: hundreds of messages in each virtual second, servers that start anew, and checkers.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import NamedTuple

from duramen import testing
from duramen.aio import Table

__all__ = ["Pace", "paces"]

_KEYS = 50


class Pace(NamedTuple):
    """One line of the table."""

    calls_a_second: int
    """One caller's, puts and gets in turn; virtual seconds."""
    calls: int
    virtual_s: float
    processor_s: float

    def __str__(self) -> str:
        return (
            f"{self.calls_a_second:4} calls in a virtual second: {self.virtual_s / self.processor_s:4.0f} virtual "
            f"seconds in a second of a processor ({self.calls} calls in {self.virtual_s:.0f} s)"
        )


def paces(rates: tuple[int, ...], *, virtual_s: float, nodes: int = 3) -> Iterator[Pace]:
    """Measure each rate on a cluster of its own."""
    for rate in rates:
        yield testing.run(_measured, rate, virtual_s, nodes)


async def _measured(rate: int, virtual_s: float, nodes: int) -> Pace:
    async with testing.Cluster(nodes=nodes) as cluster:
        database = await cluster.connect()
        table = await database.create_table("pace", partitions=4)
        await cluster.level()
        loop = asyncio.get_running_loop()
        began_s, from_s = time.process_time(), loop.time()
        calls = await _call(table, rate, from_s + virtual_s)
        return Pace(rate, calls, loop.time() - from_s, time.process_time() - began_s)


async def _call(table: Table, rate: int, until_s: float) -> int:
    loop, calls = asyncio.get_running_loop(), 0
    while rate and loop.time() + 1 / rate < until_s:
        key = b"%d" % (calls // 2 % _KEYS)
        if calls % 2 == 0:
            await table.put(key, b"value")
        else:
            assert await table.get(key) == b"value"
        calls += 1
        await asyncio.sleep(1 / rate)
    await asyncio.sleep(max(0.0, until_s - loop.time()))
    return calls
