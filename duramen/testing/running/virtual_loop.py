"""The event loop of a test in virtual time: it refuses sockets, programs and threads, and says who waits for ever."""

from __future__ import annotations

import asyncio
import os
import random
import threading
from collections.abc import Callable
from typing import Any, Final

from duramen.testing.machine.simulated_loop import SimulatedLoop, Stuck
from duramen.testing.machine.simulated_network import Network
from duramen.testing.machine.story import RunStory
from duramen.testing.running.errors import NotSimulated, TooLong
from duramen.testing.running.run_observer import RunObserver

__all__ = ["VirtualLoop", "virtual_loop"]

_CANCELLED_S: Final = 60.0
"""What is cancelled at the end has so long to end."""

_TASKS_SHOWN: Final = 12
"""People read the first few."""


def _refused(what: str) -> Callable[..., Any]:
    def refused(self: VirtualLoop, *_: Any, **__: Any) -> Any:
        raise NotSimulated(
            f"{what} belongs to the real machine, and this test runs in virtual time: it would wait for ever. Talk to "
            "`duramen.testing.Cluster` over its simulated network, replace what is behind the socket, or test in real "
            "time with `duramen.testing.Server`"
        )

    return refused


class VirtualLoop(SimulatedLoop):
    """A `SimulatedLoop` with a network, for one run."""

    def __init__(self, seed: int, limit_s: float) -> None:
        self._thread = threading.get_ident()
        super().__init__(random.Random(f"loop {seed}"))
        self.seed, self._limit_s = seed, limit_s
        self.story = RunStory(self.time)
        self.network = Network(self, random.Random(f"network {seed}"), self.story)
        """Of all clusters of the run."""
        self.observer = RunObserver()
        """Of the clients that are made in the run."""
        self.process_names: dict[str, None] = {}
        """Of their processes: two clusters at once have different ones."""
        self.test: asyncio.Task[Any] | None = None
        """The test itself."""

    def _run_once(self) -> None:
        if self.time() > self._limit_s:
            limit_s, self._limit_s = self._limit_s, self.time() + _CANCELLED_S
            where = "" if self.test is None else f"; it waits in {_place_of(self.test.get_coro())}"
            raise TooLong(
                f"the test has not ended after {limit_s:g} s of virtual time: something is retried for ever, nobody "
                f"does what it waits for, or limit_s is too little{where}"
            )
        try:
            super()._run_once()
        except Stuck:
            raise Stuck(_who_waits(self)) from None

    def call_soon_threadsafe(self, callback: Any, *args: Any, context: Any = None) -> Any:  # type: ignore[override]
        if threading.get_ident() != self._thread:
            raise NotSimulated(
                f"the thread {threading.current_thread().name!r} hands work to a loop in virtual time, whose clock "
                "does not wait for threads: use asyncio.to_thread, which has its turns there, or test in real time"
            )
        return super().call_soon_threadsafe(callback, *args, context=context)

    create_connection = _refused("a connection over a socket")
    create_server = _refused("a server on a socket")
    create_unix_connection = _refused("a connection over a Unix socket")
    create_unix_server = _refused("a server on a Unix socket")
    create_datagram_endpoint = _refused("a datagram socket")
    connect_accepted_socket = _refused("a socket")
    sock_connect = _refused("a socket")
    sock_accept = _refused("a socket")
    sock_recv = _refused("a socket")
    sock_recv_into = _refused("a socket")
    sock_sendall = _refused("a socket")
    getaddrinfo = _refused("a look-up of a host's name")
    getnameinfo = _refused("a look-up of a host's name")
    add_reader = _refused("a file that is waited for")  # type: ignore[assignment]
    add_writer = _refused("a file that is waited for")  # type: ignore[assignment]
    connect_read_pipe = _refused("a pipe")
    connect_write_pipe = _refused("a pipe")
    subprocess_exec = _refused("a program in a process of its own")
    subprocess_shell = _refused("a program in a process of its own")


def virtual_loop() -> VirtualLoop:
    """The loop of the run that the caller is in. Raises `NotSimulated` outside of one."""
    loop = asyncio.get_running_loop()
    if not isinstance(loop, VirtualLoop):
        raise NotSimulated(
            f"this runs on {type(loop).__name__}, in real time: begin the test with `duramen.testing.run(main)`, or "
            "mark it `@duramen.testing.simulated`"
        )
    return loop


def _place_of(coroutine: Any) -> str:
    """Where a coroutine waits: the innermost function that is not asyncio's."""
    place = "?"
    while (frame := getattr(coroutine, "cr_frame", None) or getattr(coroutine, "ag_frame", None)) is not None:
        code = frame.f_code
        if f"{os.sep}asyncio{os.sep}" not in code.co_filename:
            place = f"{code.co_qualname} at {code.co_filename}:{frame.f_lineno}"
        coroutine = getattr(coroutine, "cr_await", None) or getattr(coroutine, "ag_await", None)
    return place


def _who_waits(loop: VirtualLoop) -> str:
    tasks = sorted(asyncio.all_tasks(loop), key=lambda each: each.get_name())
    waiting = [f"  {task.get_name()}: {_place_of(task.get_coro())}" for task in tasks]
    more = [f"  and {len(waiting) - _TASKS_SHOWN} more"] if len(waiting) > _TASKS_SHOWN else []
    return "\n".join(
        ["everybody waits, and no timer will wake anybody; these wait:", *waiting[:_TASKS_SHOWN], *more],
    )
