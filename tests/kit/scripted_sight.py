"""A server that is looked at on the clock of the running loop, and says what a test has it say."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from duramen.server.sight.observed import Observed, PartitionStatus
from kit.whole_server import observed_whole

__all__ = ["ScriptedSight"]


class ScriptedSight:
    """`Sees` for a keeper: what it sees are `partitions`, and `looks` counts how often it was asked."""

    def __init__(self, *partitions: PartitionStatus) -> None:
        self.partitions = partitions
        self.looks = 0
        self.failing: Exception | None = None

    async def observed_lately(self) -> Observed:
        self.looks += 1
        if self.failing is not None:
            raise self.failing
        return replace(observed_whole(), partitions=self.partitions, uptime_s=self.uptime_s())

    def uptime_s(self) -> float:
        return asyncio.get_running_loop().time()
