"""What can happen to the three brokers of a Kafka log, as faults that `duramen.verification.chaos` causes."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from deploy.kafka.brokers import Brokers
from duramen.verification.chaos import ChaosFault, within
from duramen.verification.cluster import StartedCluster

__all__ = ["broker_faults", "kill_all", "lost_index", "restart_all"]

# A broker that is slow: it is stopped for most of the time, and never for so long that anybody gives it up.
_STILL_S = 0.12
_GOES_S = 0.03

# A broker starts in some three seconds; on a machine that is busy with more than these tests it has taken a minute.
_READY_S = 180.0


def broker_faults(brokers: Brokers, namespace: str) -> list[ChaosFault]:
    """Faults of the brokers that lead partitions of `namespace`, of the controller, and of all at once."""

    async def leader(chance: random.Random) -> int | None:
        return await asyncio.to_thread(_leader, brokers, namespace, chance)

    async def controller(chance: random.Random) -> int | None:
        return await asyncio.to_thread(brokers.controller)

    async def anyone(chance: random.Random) -> int | None:
        return chance.choice(brokers.running)

    async def kill(number: int, chance: random.Random, stop: asyncio.Event) -> None:
        await asyncio.to_thread(brokers.kill, number)
        await within(stop, chance.uniform(0.2, 5))
        await asyncio.to_thread(brokers.restart, number)
        await asyncio.to_thread(brokers.wait_ready, deadline_s=_READY_S)

    async def pause(number: int, chance: random.Random, stop: asyncio.Event) -> None:
        await asyncio.to_thread(brokers.pause, number)
        try:
            await within(stop, chance.uniform(1, 8))
        finally:
            brokers.resume(number)

    async def slow(number: int, chance: random.Random, stop: asyncio.Event) -> None:
        end = asyncio.get_running_loop().time() + chance.uniform(3, 8)
        while asyncio.get_running_loop().time() < end:
            brokers.pause(number)
            try:
                stopped = await within(stop, _STILL_S)
            finally:
                brokers.resume(number)
            if stopped or await within(stop, _GOES_S):
                return

    async def everyone(chance: random.Random, stop: asyncio.Event) -> bool:
        await asyncio.to_thread(kill_all, brokers)
        await within(stop, chance.uniform(0.5, 4))
        await asyncio.to_thread(restart_all, brokers)
        return True

    def to_one(
        what: str,
        whom: str,
        weight: float,
        choose: Callable[[random.Random], Awaitable[int | None]],
        act: Callable[[int, random.Random, asyncio.Event], Awaitable[None]],
    ) -> ChaosFault:
        async def cause(chance: random.Random, stop: asyncio.Event) -> bool:
            number = await choose(chance)
            if number is None:
                return False
            await act(number, chance, stop)
            return True

        return ChaosFault(what, whom, weight, cause)

    return [
        to_one("killed", "leader", 4, leader, kill),
        to_one("paused", "leader", 4, leader, pause),
        to_one("killed", "controller", 1.5, controller, kill),
        to_one("slowed", "broker", 1, anyone, slow),
        ChaosFault("killed", "all brokers", 1, everyone),
    ]


def _leader(brokers: Brokers, namespace: str, chance: random.Random) -> int | None:
    """Who leads some partition of ours; None while nobody does, or no broker says."""
    client = AdminClient({"bootstrap.servers": ",".join(map(brokers.address, brokers.running)), "log_level": 0})
    try:
        topics = client.list_topics(timeout=5).topics
    except KafkaException:
        return None
    leaders = [
        partition.leader
        for name, topic in sorted(topics.items())
        if name.startswith(f"{namespace}.")
        for _, partition in sorted(topic.partitions.items())
        if partition.leader in brokers.running
    ]
    return chance.choice(leaders) if leaders else None


def kill_all(brokers: Brokers) -> None:
    """SIGKILL, one right after the other."""
    for number in brokers.numbers:
        brokers.kill(number)


def restart_all(brokers: Brokers) -> None:
    """Start all, and wait until they take requests."""
    for number in brokers.numbers:
        brokers.restart(number)
    brokers.wait_ready(deadline_s=_READY_S)


def lost_index(cluster: StartedCluster, data: Path) -> ChaosFault:
    """A node is killed and everything that it had applied is gone: it applies the log from its beginning."""

    async def cause(chance: random.Random, stop: asyncio.Event) -> bool:
        nodes = sorted(name for name, child in cluster.children.items() if child["role"] == "node")
        if not nodes:
            return False
        name = chance.choice(nodes)
        pid = int(cluster.children[name]["pid"])
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)  # what is done to its folder is done to a process that does nothing
            await asyncio.to_thread(shutil.rmtree, data / "nodes" / name / "index")
            os.kill(pid, signal.SIGKILL)
        return True

    return ChaosFault("lost", "index", 1, cause)
