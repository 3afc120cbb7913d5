"""Copies of replicas that a node gives to others: how many at a time, and where they lie meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import Final

from log_tier.concurrency.disk_errors import disk_refusal
from log_tier.concurrency.tasks import going_on
from log_tier.model.errors import Overloaded
from serving_tier.disk import NODE_DISK
from serving_tier.replica.replica import Replica
from serving_tier.snapshots.peer_copy import CopyPart, send_copy

__all__ = ["COPIES_MAX", "TURN_S", "Copies"]

# Each reads a whole index and takes its size of the disk for as long as the receiver needs. Two keep a node that lost a
# peer busy enough; more would take the disk from the reads.
COPIES_MAX: Final = 2

# A copy that waits for another one to end begins at once then: who is sent away asks again after a pause. So many may
# wait, and so long.
_WAITING_MAX: Final = 16
TURN_S: Final = 5.0


class Copies:
    """Gives copies. `folder` is for this alone: what an earlier process left there is removed before the first one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._room = asyncio.Semaphore(COPIES_MAX)
        self._waiting = 0
        self._tidied: asyncio.Future[None] | None = None

    async def send(self, replica: Replica) -> AsyncGenerator[CopyPart, None]:
        """A copy of a live replica, made when it is its turn. Close it with `aclose()`, which removes the copy from the
        disk.

        Raises `Overloaded` where its turn does not come in some seconds, what `send_copy` raises, and why the replica
        was closed.
        """
        await self._take_turn()
        try:
            if self._tidied is None:
                self._tidied = asyncio.ensure_future(self._empty())
            await going_on(self._tidied)
            parts = send_copy(replica.reading, table_name=replica.topic.name, work_folder=self._folder)
            async with aclosing(parts):
                async for part in parts:
                    yield part
        finally:
            self._room.release()

    async def _take_turn(self) -> None:
        if self._waiting < _WAITING_MAX:
            self._waiting += 1
            try:
                async with asyncio.timeout(TURN_S):
                    await self._room.acquire()
                return
            except TimeoutError:
                pass
            finally:
                self._waiting -= 1
        raise Overloaded(f"this node gives {COPIES_MAX} copies already: ask another one, or later", limit=COPIES_MAX)

    async def _empty(self) -> None:
        """Empty the folder, once. Raises as `disk_refusal` says; then the next copy tries it again."""
        try:
            await asyncio.to_thread(_emptied, self._folder)
        except OSError as error:
            self._tidied = None
            what = f"the folder {self._folder} for copies cannot be emptied"
            raise disk_refusal(error, what, path=self._folder, effect="ask another node, or later") from error


def _emptied(folder: Path) -> None:
    if folder.exists():
        NODE_DISK.get().remove_tree(folder)
    NODE_DISK.get().make_folder(folder)
