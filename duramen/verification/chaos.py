"""Faults: one after the other, chosen at random by a seed. The caller gives the list of what can be broken.

`child_faults` are those of a cluster's own processes, killed (-9) or paused (SIGSTOP). A caller that runs the brokers
of a Kafka log adds theirs (`tests/kit/kafka/broker_faults.py`): a fault is a name and a coroutine function.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from duramen.verification.cluster import HEAL_S, StartedCluster

__all__ = ["ChaosFault", "FaultEvent", "Faults", "break_children", "child_faults", "within"]

# Between two faults, in seconds: long enough that something happens, short enough that many meet a restart under way.
_CALM_S: Final = (0.2, 1.5)
_PAUSED_S: Final = (0.1, 2.5)

# Of the faults of a process, these are kills.
_KILLS: Final = 0.6


@dataclass(frozen=True, slots=True)
class ChaosFault:
    """Something that can be broken."""

    what: str
    """killed, paused, …"""
    whom: str
    """node, router, leader, …"""
    weight: float
    """How often it is chosen, against the others."""
    cause: Callable[[random.Random, asyncio.Event], Awaitable[bool]]
    """Breaks it, and returns when it is mended or mends by itself; soon, where the event is set. False: there was
    nothing to break."""


@dataclass(frozen=True, slots=True)
class FaultEvent:
    """A fault that happened, on the clock of the history."""

    what: str
    whom: str
    start_ns: int
    end_ns: int


class Faults:
    """Causes one fault at a time until it is stopped, and counts them."""

    def __init__(self, faults: Sequence[ChaosFault], *, seed: str, calm_s: tuple[float, float] = _CALM_S) -> None:
        """`calm_s`: the least and the most seconds between two."""
        self._faults = list(faults)
        self._random = random.Random(f"{seed}/faults")
        self._calm_s = calm_s
        self.happened: list[FaultEvent] = []

    @property
    def counts(self) -> dict[str, dict[str, int]]:
        """What was done to whom, how often; also what never was."""
        found: dict[str, dict[str, int]] = {}
        for fault in self._faults:
            found.setdefault(fault.what, {})[fault.whom] = 0
        for happened in self.happened:
            found[happened.what][happened.whom] += 1
        return found

    async def run(self, stop: asyncio.Event) -> None:
        """Until `stop` is set. What a fault has broken is mended by then."""
        weights = [fault.weight for fault in self._faults]
        while not await within(stop, self._random.uniform(*self._calm_s)):
            (fault,) = self._random.choices(self._faults, weights)
            start_ns = time.monotonic_ns()
            if await fault.cause(self._random, stop):
                self.happened.append(FaultEvent(fault.what, fault.whom, start_ns, time.monotonic_ns()))


def child_faults(cluster: StartedCluster) -> list[ChaosFault]:
    """Kills and pauses of the processes that a cluster has now. One that is killed is started again by its parent."""
    roles = [str(child["role"]) for child in cluster.children.values()]

    def of(role: str, chance: random.Random) -> int | None:
        alive = sorted((name, int(child["pid"])) for name, child in cluster.children.items() if child["role"] == role)
        return chance.choice(alive)[1] if alive else None

    def kill(role: str) -> ChaosFault:
        async def cause(chance: random.Random, stop: asyncio.Event) -> bool:
            pid = of(role, chance)
            if pid is not None:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            return pid is not None

        return ChaosFault("killed", role, _KILLS * roles.count(role), cause)

    def pause(role: str) -> ChaosFault:
        async def cause(chance: random.Random, stop: asyncio.Event) -> bool:
            pid = of(role, chance)
            if pid is None:
                return False
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
                try:
                    await within(stop, chance.uniform(*_PAUSED_S))
                finally:
                    os.kill(pid, signal.SIGCONT)
            return True

        return ChaosFault("paused", role, (1 - _KILLS) * roles.count(role), cause)

    return [make(role) for role in dict.fromkeys(roles) for make in (kill, pause)]


async def break_children(cluster: StartedCluster, faults: Faults, stop: asyncio.Event) -> None:
    """Run faults of a cluster's children; return when every child runs."""
    everybody = set(cluster.children)
    await faults.run(stop)
    await cluster.wait_for(lambda: everybody <= set(cluster.children), seconds=HEAL_S)


async def within(stop: asyncio.Event, seconds: float) -> bool:
    """Wait so long; True as soon as `stop` is set."""
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        return False
    return True
