"""A peer in this process that gives copies of a live index, as they should be or changed on their way."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from pathlib import Path

from kit.index.live_index import LiveIndex
from log_tier.model.errors import (
    DuramenError,
)
from log_tier.model.identifiers import PartitionId
from serving_tier.snapshots import CopyPart, send_copy


@dataclass
class Peer:
    """A peer in this process; `trouble` changes what it sends."""

    name: str
    live: LiveIndex
    folder: Path
    trouble: Callable[[list[CopyPart]], list[CopyPart]] | DuramenError | None = None
    asked: int = 0

    async def copy(self, partition: PartitionId) -> AsyncGenerator[CopyPart, None]:
        self.asked += 1
        if isinstance(self.trouble, DuramenError):
            raise self.trouble
        parts = [part async for part in send_copy(self.live.reading, table_name="flights", work_folder=self.folder)]
        for part in parts if self.trouble is None else self.trouble(parts):
            yield part


def flip_data(parts: list[CopyPart]) -> list[CopyPart]:
    """A piece of which one bit is another one."""
    broken = bytearray(parts[1].data)
    broken[9000] ^= 4
    return [parts[0], parts[1]._replace(data=bytes(broken)), *parts[2:]]
