"""Processes of a cluster, forked by a process that has imported what all of them need.

That process is `duramen.cli.servers.fork_server`, which says why; this is the supervisor's side of it.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from duramen.server.supervisor.fork_wire import receive_message, send_message, socket_pair
from duramen.server.supervisor.parent import PARENT_VARIABLE
from log_tier.concurrency.tasks import every_step
from log_tier.model.errors import DuramenError
from log_tier.privacy.private_files import private_opener

__all__ = ["ForkServer", "ForkedProcess"]

_UNKNOWN_CODE: Final = 255
"""The exit code of a process whose fork server was gone before it: nobody knows it. As asyncio reports one."""


class ForkedProcess:
    """A process that a fork server has forked: `pid`, `stdout`, `returncode` and `wait` as those of asyncio."""

    def __init__(self, pid: int, handle: int) -> None:
        """`handle`: its pidfd, which is this object's to close."""
        self.pid = pid
        self.stdout = asyncio.StreamReader()
        self.returncode: int | None = None
        """None while it runs."""
        self._handle = handle
        self._ended = asyncio.Event()

    def send_signal(self, number: signal.Signals) -> None:
        """Signal it, if it has not ended."""
        if self.returncode is None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, number)

    async def wait(self) -> int:
        """Its exit code, when it has ended: minus the signal's number where one ended it."""
        await self._ended.wait()
        assert self.returncode is not None, "it has ended"
        return self.returncode

    def ended(self, code: int) -> None:
        """Say that it has ended. Once."""
        self.returncode = code
        os.close(self._handle)
        self._ended.set()

    async def ended_unseen(self) -> None:
        """Wait for its end by itself: who would have reported it is gone."""
        loop, seen = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self._handle, seen.set)
        try:
            await seen.wait()
        finally:
            loop.remove_reader(self._handle)
        self.ended(_UNKNOWN_CODE)


class ForkServer:
    """Forks processes, and hears how they end. It is started with the first one, and again after its own end.

    Invariant: every process is in `_running` from the answer that names it to its end.
    """

    def __init__(self, output: Path) -> None:
        """`output`: the file of its standard error."""
        self._output = output
        self._process: Process | None = None
        self._socket: socket.socket | None = None
        self._starting = asyncio.Lock()
        self._requests = 0
        self._answers: dict[int, asyncio.Future[ForkedProcess]] = {}
        """By request: what somebody waits for."""
        self._running: dict[int, ForkedProcess] = {}
        self._orphans: set[asyncio.Task[None]] = set()
        self._pipes: list[asyncio.BaseTransport] = []
        """Of the standard outputs. One is closed with its other end, which something that a process left may hold."""

    async def fork(self, arguments: Sequence[str], *, environment: Mapping[str, str], errors: int) -> ForkedProcess:
        """Start `duramen ARGUMENTS`. `environment`: variables in addition to this process' own; `errors`: a descriptor
        of its standard error, still the caller's. Raises `DuramenError` where the fork server does not start.
        """
        async with self._starting:
            asks = self._socket if self._socket is not None else await self._start()
        self._requests += 1
        request = self._requests
        answer: asyncio.Future[ForkedProcess] = asyncio.get_running_loop().create_future()
        self._answers[request] = answer
        reading, writing = os.pipe()
        try:
            message = {"request": request, "arguments": [*arguments], "environment": {**environment}}
            with suppress(ConnectionError):  # it is gone: the answer says so
                send_message(asks, message, [writing, errors])
        finally:
            os.close(writing)
        file = os.fdopen(reading, "rb", 0)
        try:
            process = await answer
        except BaseException:
            file.close()
            raise
        loop = asyncio.get_running_loop()
        pipe, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(process.stdout), file)
        self._pipes = [*(each for each in self._pipes if not each.is_closing()), pipe]
        return process

    async def close(self) -> None:
        """End it, and whatever it has forked that still runs. Idempotent."""
        if self._socket is not None:
            self._lost(self._socket)
        orphans = [*self._orphans]
        await every_step(
            lambda: None if self._process is None else self._process.wait(),
            lambda: asyncio.gather(*orphans),
            self._close_pipes,
        )

    async def _close_pipes(self) -> None:
        for pipe in self._pipes:
            pipe.close()
        await asyncio.sleep(0)  # a loop that ends at once would leave them open

    async def _start(self) -> socket.socket:
        ours, theirs = socket_pair()
        with theirs, open(self._output, "ab", opener=private_opener) as errors:  # noqa: ASYNC230 - some µs
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "duramen.cli.servers.fork_server", str(theirs.fileno())),
                stdin=DEVNULL,
                stdout=DEVNULL,
                stderr=errors,
                env={**os.environ, PARENT_VARIABLE: str(os.getpid())},
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        ours.setblocking(False)
        self._socket = ours
        asyncio.get_running_loop().add_reader(ours.fileno(), self._hear, ours)
        return ours

    def _hear(self, asks: socket.socket) -> None:
        """Take what it says."""
        with suppress(BlockingIOError):
            while True:
                try:
                    message, descriptors = receive_message(asks)
                except ConnectionError:
                    message, descriptors = None, []
                if message is None:
                    self._lost(asks)
                    return
                self._take(message, descriptors)

    def _take(self, message: dict[str, Any], descriptors: list[int]) -> None:
        pid = int(message["pid"])
        if "code" in message:
            self._running.pop(pid).ended(int(message["code"]))
            return
        process = self._running[pid] = ForkedProcess(pid, *descriptors)
        answer = self._answers.pop(message["request"])
        if answer.cancelled():
            process.send_signal(signal.SIGKILL)  # nobody wants it any more
        else:
            answer.set_result(process)

    def _lost(self, asks: socket.socket) -> None:
        """It has ended, or is to end: what it has forked gets SIGTERM from the kernel."""
        asyncio.get_running_loop().remove_reader(asks.fileno())
        asks.close()
        self._socket = None
        error = DuramenError(f"the process that starts the others has ended (what it said: {self._output})")
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(error)
        self._answers.clear()
        for process in self._running.values():
            task = asyncio.create_task(process.ended_unseen(), name=f"end of {process.pid}")
            self._orphans.add(task)
            task.add_done_callback(self._orphans.discard)
        self._running.clear()
