"""A program of the test as a process of its own: it can be cut off, and killed in the middle of whatever it does."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Coroutine, Generator
from typing import Any, Final, Generic, TypeVar

from duramen.testing.machine.simulated_grpc import SimulatedTransport
from duramen.testing.machine.simulated_network import Network
from duramen.testing.running.errors import Killed
from log_tier.rpc.transport import TRANSPORT

__all__ = ["Program"]

T = TypeVar("T")

_END_S: Final = 10.0
"""Virtual seconds in which a program that was cancelled ends, but one that waits for ever in a `finally`."""


class Program(Generic[T]):
    """What `cluster.start` returns. `await program` gives its result, or raises what it ended with."""

    def __init__(self, name: str, work: Coroutine[Any, Any, T], network: Network) -> None:
        self.name = name
        self._network = network
        self._killed = self._heard = False
        context = contextvars.copy_context()
        context.run(TRANSPORT.set, SimulatedTransport(network, name))
        self._task = asyncio.get_running_loop().create_task(work, name=name, context=context)
        self._task.add_done_callback(self._done)

    @property
    def is_running(self) -> bool:
        """Has it neither ended nor been killed?"""
        return not self._task.done() and not self._killed

    @property
    def has_ended(self) -> bool:
        """Is its name free again? A program that was killed ends at the next turn of the loop."""
        return self._task.done()

    def kill(self) -> None:
        """End it as `kill -9` does: nothing that it does after this gets out, its `finally` blocks included.

        Nothing happens where it has ended.
        """
        if not self.is_running:
            return
        self._killed = True
        self._network.die(self.name)
        self._task.cancel()

    def __await__(self) -> Generator[Any, None, T]:
        return self._result().__await__()

    async def _result(self) -> T:
        self._heard = True
        await asyncio.wait([self._task])
        if self._killed:
            raise Killed(f"{self.name} was killed")
        return self._task.result()

    def unheard_failure(self) -> BaseException | None:
        """What it ended with, where nobody has awaited it."""
        if self._heard or self._killed or not self._task.done() or self._task.cancelled():
            return None
        return self._task.exception()

    async def end(self) -> None:
        """Kill it, and wait until its task has ended, or until it will not by itself: the end of the run ends it."""
        self.kill()
        await asyncio.wait([self._task], timeout=_END_S)
        if self._task.done() and not self._task.cancelled():
            self._task.exception()  # was looked at

    def _done(self, task: asyncio.Task[T]) -> None:
        self._network.drop(self.name)
        self._network.dead.discard(self.name)
