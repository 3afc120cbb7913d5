"""The simulated network: a connection is in order, whatever its link does."""

from __future__ import annotations

import asyncio
import random

from duramen.testing.machine.simulated_loop import SimulatedLoop
from duramen.testing.machine.simulated_network import NetConnection, Network
from duramen.testing.machine.story import RunStory


def test_what_was_under_way_at_a_cut_arrives_before_what_was_sent_into_it() -> None:
    loop = SimulatedLoop(random.Random(1))
    network = Network(loop, random.Random(1), RunStory(loop.time))
    arrived: list[int] = []

    async def send() -> None:
        direction = NetConnection(network, "n1", "log").to_server
        network.link("n1", "log").late_s = 1.0
        direction.send(arrived.append, 0)
        network.cut("n1", "log")
        direction.send(arrived.append, 1)
        await asyncio.sleep(2)
        assert arrived == [], "nothing passes a cut link"
        network.heal("n1", "log")
        await asyncio.sleep(3)

    loop.run_until_complete(send())
    loop.close()
    assert arrived == [0, 1]


def test_what_a_short_cut_held_arrives_before_what_was_sent_after_it() -> None:
    loop = SimulatedLoop(random.Random(1))
    network = Network(loop, random.Random(1), RunStory(loop.time))
    arrived: list[int] = []

    async def send() -> None:
        direction = NetConnection(network, "n1", "log").to_server
        direction.send(arrived.append, 0)
        network.link("n1", "log").late_s = 4.0
        for number in range(1, 6):
            direction.send(arrived.append, number)
        for _ in range(10):
            network.cut("n1", "log")
            await asyncio.sleep(0.2)
            network.heal("n1", "log")
            await asyncio.sleep(0.2)
        await asyncio.sleep(10)

    loop.run_until_complete(send())
    loop.close()
    assert arrived == [0, 1, 2, 3, 4, 5]
