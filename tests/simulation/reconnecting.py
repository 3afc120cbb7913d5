"""A connection of the Python API to a database that dies and lives again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from log_tier.model.errors import DatabaseClosed, Disconnected, DuramenError, LogStopped, ShuttingDown, WriteUnknown
from router.data.local_data import LocalData
from simulation.database_world import DatabaseWorld

__all__ = ["Reconnecting"]


class Reconnecting:
    """A `Connection` to whatever life the server has: a call under way when it dies ends as a lost connection does."""

    def __init__(self, world: DatabaseWorld) -> None:
        self._world = world

    def __getattr__(self, name: str) -> Any:
        if name == "watch":
            return self._watch

        async def call(*args: Any, **kwargs: Any) -> Any:
            plane, life = self._plane(), self._world.life
            running = asyncio.ensure_future(getattr(plane, name)(*args, **kwargs))
            dying = asyncio.ensure_future(self._world.died.wait())
            try:
                await asyncio.wait([running, dying], return_when="FIRST_COMPLETED")
                if not running.done():
                    raise Disconnected("the server died")
                result = running.result()
            except DuramenError as error:
                raise self._as_seen(error, life) from error
            finally:
                for task in (running, dying):
                    task.cancel()
                await asyncio.gather(running, dying, return_exceptions=True)
            for each in result if isinstance(result, list) else ():
                if isinstance(each, LogStopped | WriteUnknown):
                    self._world.stop()
            return result

        return call

    def _plane(self) -> LocalData:
        plane = self._world.plane
        if plane is None or not self._world.up.is_set():
            raise Disconnected("no server answers", sent=0)
        return plane

    async def _watch(self, *args: Any) -> AsyncIterator[Any]:
        plane, life = self._plane(), self._world.life
        events = plane.watch(*args)
        try:
            async for event in events:
                yield event
        except DuramenError as error:
            raise self._as_seen(error, life) from error
        finally:
            await events.aclose()

    def _as_seen(self, error: DuramenError, life: int) -> DuramenError:
        """A client of a dead server sees a lost connection, whatever the dead one's disk says."""
        dead = self._world.died.is_set() or self._world.life != life
        if dead or isinstance(error, ShuttingDown | DatabaseClosed):
            return Disconnected(f"the server ends: {error.message}")
        return error

    async def close(self) -> None:
        """Nothing is held."""
