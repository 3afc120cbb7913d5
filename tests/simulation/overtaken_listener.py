"""Who listens to notifications of a simulated cluster while the log drops what its server has not read yet.

The router is cut off until its watch is given up. Meanwhile keys are written at a node, and the log is trimmed. When
the router is back, its listener has heard of every key, or its connection has ended: it never goes on behind a gap.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from typing import Final

from duramen.testing.machine.resp_words import RawError
from duramen.testing.machine.simulated_wire import WireClient, WireCut
from log_tier.model.identifiers import Offset
from log_tier.rpc.channel import CUT_NOTICED_S
from router.endpoints.resp.data.served_tables import DEFAULT_TABLE
from simulation.book import Broken
from simulation.cluster_jobs import newest_map
from simulation.cluster_world import NODES, ClusterWorld

__all__ = ["check_overtaken"]

_CUT_OFF: Final = "router"
_PREFIX: Final = b"overtaken:"
_KEYS: Final = 40
_HEARD_S: Final = 20.0
"""Within which a server that can be reached again has told its listeners everything, or has ended them."""


async def check_overtaken(world: ClusterWorld) -> None:
    """When nothing is at fault, in runs whose logs get shorter. Raises `Broken`."""
    if world.plan.trims is None:
        return
    chance = random.Random(f"overtaken {world.plan.seed}")
    listener, writer = await world.connected(chance, _CUT_OFF), await world.connected(chance, chance.choice(NODES))
    try:
        (reply,) = await listener.call([(b"PSUBSCRIBE", b"__keyspace@0__:" + _PREFIX + b"*")])
        if isinstance(reply, RawError):
            raise Broken("ends", f"nobody may listen when nothing is at fault: {reply.text}")
        await _write_unheard(world, writer)
        await _judge(world, listener)
    finally:
        listener.close()
        writer.close()


async def _write_unheard(world: ClusterWorld, writer: WireClient) -> None:
    """Write keys, and drop the log's oldest segments, while the router is cut off."""
    links = [pair for name in (*NODES, "log") for pair in ((name, _CUT_OFF), (_CUT_OFF, name))]
    for source, target in links:
        world.network.cut(source, target)
    size = min(world.plan.segment_bytes // 8, 1024)  # a run with large segments drops nothing
    for number in range(_KEYS):
        (reply,) = await writer.call([(b"SET", b"%b%d" % (_PREFIX, number), b"v" * size)])
        if isinstance(reply, RawError):
            raise Broken("ends", f"a write failed when only the router was cut off: {reply.text}")
    await asyncio.sleep(CUT_NOTICED_S + 1)
    table = newest_map(world).named(DEFAULT_TABLE)
    assert table is not None, "its clients have made it"
    assert world.log is not None, "its process is up"
    for place in table.partition_ids():
        bounds = await world.log.bounds(place)
        await world.log.trim(place, Offset(bounds.latest))
    for source, target in links:
        world.network.heal(source, target)


async def _judge(world: ClusterWorld, listener: WireClient) -> None:
    heard: set[bytes] = set()
    with suppress(TimeoutError):
        async with asyncio.timeout_at(world.loop.time() + _HEARD_S):
            try:
                while len(heard) < _KEYS:
                    _, _, channel, _ = await listener.heard()
                    heard.add(channel)
            except WireCut:
                world.story.met["a listener that was overtaken has ended"] += 1
                return
    if len(heard) < _KEYS:
        raise Broken("notified", f"a listener goes on that has heard of {len(heard)} of {_KEYS} keys")
    world.story.met["a listener heard everything"] += 1
