"""A process of a cluster: its end of the network, and its lives."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack, suppress
from typing import Any, TypeVar

from duramen.testing.machine.simulated_grpc import SimulatedTransport
from duramen.testing.machine.simulated_machine import RESTART_S, SimulatedMachine
from duramen.testing.machine.simulated_network import Network
from duramen.testing.machine.simulated_server import SimulatedServer
from log_tier.concurrency.tasks import to_the_end
from log_tier.model.errors import DuramenError
from log_tier.rpc.transport import TRANSPORT

__all__ = ["Life", "SimulatedProcess"]

T = TypeVar("T")

Life = Callable[["SimulatedProcess", AsyncExitStack], Coroutine[Any, Any, None]]
"""Opens what a process has, onto the stack that closes it."""


class SimulatedProcess:
    """It lives until somebody ends it, and again, until the world ends."""

    def __init__(
        self,
        name: str,
        machine: SimulatedMachine,
        network: Network,
        *,
        broke: Callable[[str, Exception], None],
        cannot_start: Callable[[SimulatedMachine, str, DuramenError], None],
        buried: Callable[[SimulatedProcess], None],
    ) -> None:
        """`broke`: a handler ended with what it may not end with. `cannot_start`: a life does not open, for a reason.
        `buried`: a life and its files are closed.
        """
        self.name = name
        self._machine, self._network, self._broke, self._buried = machine, network, broke, buried
        self._cannot_start = cannot_start
        self.context = contextvars.copy_context()
        self.context.run(TRANSPORT.set, SimulatedTransport(network, name))
        self.up = asyncio.Event()
        self._ending: asyncio.Future[bool] | None = None
        """Set to True for a clean end, to False for a kill."""
        self._down_s: float | None = RESTART_S
        self._again = asyncio.Event()
        self.why_down = ""
        """Why the last life did not begin; empty where it did."""
        self._server: SimulatedServer | None = None
        self.lives = 0

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """A task of this process."""
        return self.context.run(asyncio.get_running_loop().create_task, work)

    def new_server(self) -> SimulatedServer:
        """Of this life; it does not listen yet."""
        self._server = SimulatedServer(self._network, self.name, self.context, self._machine.clock, self._broke)
        return self._server

    def end(self, *, politely: bool, down_s: float | None = RESTART_S) -> bool:
        """End this life. `down_s`: when the next one begins; None: with `begin_again`. False where there is none."""
        if self._ending is None or self._ending.done():
            return False
        self._down_s = down_s
        self._again.clear()
        self.up.clear()
        self._ending.set_result(politely)
        return True

    def begin_again(self) -> None:
        """Begin the next life of a process that stays down."""
        self._again.set()

    @property
    def stays_down(self) -> bool:
        """Does nothing begin its next life but `begin_again`?"""
        return self._down_s is None and not self._again.is_set()

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
                    self.why_down = f"{type(error).__name__}: {error.message}"
                    self._cannot_start(self._machine, self.name, error)
                else:
                    self._machine.story.tell(self.name, f"life {self.lives} begins")
                    self.why_down = ""
                    self.up.set()
                    politely = await self._ending
            finally:
                self.up.clear()
                # The end of a run may come in the middle of the end of a life, which nothing cuts short.
                await to_the_end(self._end_of_life(opened, politely=politely))
            if self._down_s is not None:
                await asyncio.sleep(self._down_s)
            if self._down_s is None:
                await self._again.wait()
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
