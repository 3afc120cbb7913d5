"""A process of a cluster: its end of the network, and its lives."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack, suppress
from typing import Any, TypeVar

from log_tier.model.errors import DuramenError
from log_tier.rpc.transport import TRANSPORT
from simulation.simulated_grpc import SimulatedServer, SimulatedTransport
from simulation.simulated_machine import RESTART_S, SimulatedMachine
from simulation.simulated_network import Network

__all__ = ["Life", "SimulatedProcess"]

T = TypeVar("T")

Life = Callable[["SimulatedProcess", AsyncExitStack], Coroutine[Any, Any, None]]
"""Opens what a process has, onto the stack that closes it."""


class SimulatedProcess:
    """It lives until it is told to end, and again, until the world ends."""

    def __init__(
        self,
        name: str,
        machine: SimulatedMachine,
        network: Network,
        *,
        broke: Callable[[str, Exception], None],
        buried: Callable[[SimulatedProcess], None],
    ) -> None:
        """`broke`: a handler ended with what it may not end with. `buried`: a life and its files are closed."""
        self.name = name
        self._machine, self._network, self._broke, self._buried = machine, network, broke, buried
        self.context = contextvars.copy_context()
        self.context.run(TRANSPORT.set, SimulatedTransport(network, name))
        self.up = asyncio.Event()
        self._ending: asyncio.Future[bool] | None = None
        """Set to True for a clean end, to False for a kill."""
        self._down_s = RESTART_S
        self._server: SimulatedServer | None = None
        self.lives = 0

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """A task of this process."""
        return self.context.run(asyncio.get_running_loop().create_task, work)

    def new_server(self) -> SimulatedServer:
        """Of this life; it does not listen yet."""
        self._server = SimulatedServer(self._network, self.name, self.context, self._machine.clock, self._broke)
        return self._server

    def end(self, *, politely: bool, down_s: float = RESTART_S) -> bool:
        """End this life. False where there is none."""
        if self._ending is None or self._ending.done():
            return False
        self._down_s = down_s
        self.up.clear()
        self._ending.set_result(politely)
        return True

    async def live(self, life: Life) -> None:
        """Life after life."""
        while True:
            self._ending = asyncio.get_running_loop().create_future()
            self.lives += 1
            politely = False
            opened = AsyncExitStack()
            try:
                try:
                    await life(self, opened)
                except DuramenError as error:
                    self._machine.cannot_start(self.name, error)
                else:
                    self._machine.story.tell(self.name, f"life {self.lives} begins")
                    self.up.set()
                    politely = await self._ending
            finally:
                self.up.clear()
                await self._end_of_life(opened, politely=politely)
            await asyncio.sleep(self._down_s)
            self._down_s = RESTART_S

    async def _end_of_life(self, opened: AsyncExitStack, *, politely: bool) -> None:
        server, self._server = self._server, None
        if not politely:
            self._network.die(self.name)
        if server is not None:
            await server.stop(politely=politely)
        with suppress(DuramenError):
            await opened.aclose()
        self._network.die(self.name)
        self._network.dead.discard(self.name)
        self._buried(self)
