"""The reader processes of a RESP endpoint: started, started again where one dies, stopped with the endpoint."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from contextlib import suppress
from functools import partial
from typing import Final

from duramen.server.log_lines.setup import log_format, log_level
from duramen.server.supervisor.parent import PARENT_VARIABLE
from duramen.server.supervisor.stopping import send_signal, stop_process
from log_tier.concurrency.background import run_forever
from log_tier.concurrency.backoff import Backoff
from log_tier.concurrency.tasks import end_tasks, every_step
from log_tier.model.errors import DuramenError
from router.endpoints.resp.readers.reader_process import ReaderTask
from router.endpoints.resp.readers.slow_reads import hear_slow_read
from router.endpoints.resp.server.resp_server import RespServer
from router.endpoints.resp.server.sockets import RespSettings, RespSockets

__all__ = ["Readers"]

logger = logging.getLogger(__name__)

# A reader that was killed is missed at once; one that cannot start is tried every few seconds.
_PAUSE_FIRST_S: Final = 0.05
_PAUSE_MAX_S: Final = 5.0

_START_S: Final = 60.0

# Then it is killed, which harms nothing.
_STOP_S: Final = 5.0


class Readers:
    """The processes of one endpoint. `start()` returns when all of them take connections; `close()` ends them."""

    def __init__(self, resp_server: RespServer, settings: RespSettings, sockets: RespSockets) -> None:
        self._resp_server = resp_server
        self._settings = settings
        self._sockets = [each.fileno() for each in sockets.shared]
        self._processes: dict[int, Process] = {}
        self._keeping: list[asyncio.Task[None]] = []
        self.ended = 0
        """Processes that ended by themselves."""

    @property
    def running(self) -> int:
        """How many processes run."""
        return sum(each.returncode is None for each in self._processes.values())

    @property
    def pids(self) -> list[int]:
        """The process ids of the readers that run, by their number."""
        return [self._processes[number].pid for number in sorted(self._processes)]

    @classmethod
    async def start(cls, resp_server: RespServer, settings: RespSettings, sockets: RespSockets) -> Readers:
        """Raises `DuramenError` where one of them does not start."""
        readers = cls(resp_server, settings, sockets)
        tasks = resp_server.reader_tasks()
        try:
            await asyncio.gather(*(readers._start(task) for task in tasks))
        except BaseException:
            await readers.close()
            raise
        readers._keeping = [run_forever(readers._keep(task), name=f"keep reader {task.number}") for task in tasks]
        return readers

    async def _start(self, task: ReaderTask) -> None:
        settings, listening = self._settings, self._sockets[task.number]
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "duramen.server.roles.reader_process"),
            stdin=PIPE,
            stdout=PIPE,
            env={**os.environ, PARENT_VARIABLE: str(os.getpid())},
            pass_fds=(listening,),
        )
        self._processes[task.number] = process
        assert process.stdin is not None, "it was started with pipes"
        assert process.stdout is not None, "it was started with pipes"
        said = {
            "folder": str(task.folder),
            "number": task.number,
            "readers": task.readers,
            "stall_s": task.stall_s,
            "clients_bytes": task.clients_bytes,
            "handshake_s": task.handshake_s,
            "slow_s": self._resp_server.slow.least_s,
            "socket": listening,
            "tls_certificate": str(settings.tls_certificate or ""),
            "tls_key": str(settings.tls_key or ""),
            "log_level": log_level(),
            "log_format": log_format(),
        }
        with suppress(ConnectionError):
            process.stdin.write(json.dumps(said).encode() + b"\n")
            await process.stdin.drain()
        try:
            async with asyncio.timeout(_START_S):
                ready = await process.stdout.readline()
        except TimeoutError:
            ready = b""
        if not ready:
            send_signal(process, signal.SIGKILL)
            code = await process.wait()
            raise DuramenError(
                f"reader process {task.number} of the RESP endpoint ended with code {code} before it was ready: its "
                "reason is above; start without --resp-readers meanwhile"
            )

    async def _keep(self, task: ReaderTask) -> None:
        """Start it again whenever it ends."""
        backoff = Backoff(_PAUSE_FIRST_S, _PAUSE_MAX_S)
        while True:
            process = self._processes[task.number]
            await self._hear(process)
            code = await process.wait()
            self.ended += 1
            logger.error("reader process %s (pid %s) ended with code %s", task.number, process.pid, code)
            self._resp_server.reader_died()
            while True:
                await backoff.pause()
                try:
                    await self._start(task)
                except (DuramenError, OSError) as error:
                    logger.error("%s", error)
                else:
                    backoff.heard()
                    break

    async def _hear(self, process: Process) -> None:
        """Note the slow reads that it reports, until it ends."""
        assert process.stdout is not None, "it was started with pipes"
        while line := await process.stdout.readline():
            with suppress(ValueError, KeyError, TypeError):
                hear_slow_read(self._resp_server.slow, line)

    async def close(self) -> None:
        """SIGTERM, then SIGKILL. Idempotent."""
        keeping, self._keeping = self._keeping, []
        await every_step(partial(end_tasks, *keeping), self._stop_all, self._processes.clear)

    async def _stop_all(self) -> None:
        await asyncio.gather(*(stop_process(each, timeout_s=_STOP_S) for each in self._processes.values()))
