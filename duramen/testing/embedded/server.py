"""Server: one server process' whole content in a thread of the test, on real sockets of loopback, in real time."""

from __future__ import annotations

from contextlib import suppress
from types import TracebackType
from typing import Final

from duramen.client.transport.loop_thread import LoopThread
from duramen.server.roles.all_in_one import SingleServer
from duramen.testing.embedded.database_machine import DatabaseMachine
from duramen.testing.machine.disk_faults import DiskFaults
from duramen.testing.running.errors import ClusterEnded, UnknownProcess
from log_tier.model.errors import DuramenError
from router.endpoints.resp.server.sockets import RespSettings

__all__ = ["Server"]

_HOST: Final = "127.0.0.1"


class Server:
    """`duramen up` in the test's process: `with duramen.testing.Server() as server:`.

    `address` is for `duramen.connect` and gRPC clients, `redis_url` for Redis clients. Both stay the same through every
    restart. It has the whole database on a disk that fails as the test says (`faults`).
    """

    def __init__(self, *, seed: int = 0) -> None:
        """`seed`: of what a loss of power takes."""
        self._seed = seed
        self._machine: DatabaseMachine | None = None
        self._loop: LoopThread | None = None
        self._server: SingleServer | None = None
        self._port = self._redis_port = 0

    def __enter__(self) -> Server:
        self._machine = DatabaseMachine(self._seed)
        # gRPC cannot do without a loop that it has met once: the one of this process, which clients use as well.
        self._loop = LoopThread(shared=True)
        try:
            self._open(self._machine)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open_machine()
        self._end()

    @property
    def address(self) -> str:
        """host:port, for `duramen.connect`."""
        self._open_machine()
        return f"{_HOST}:{self._port}"

    @property
    def redis_port(self) -> int:
        """The port of the Redis protocol, at 127.0.0.1."""
        self._open_machine()
        return self._redis_port

    @property
    def redis_url(self) -> str:
        """For clients of the Redis protocol that take a URL."""
        return f"redis://{_HOST}:{self.redis_port}"

    @property
    def faults(self) -> DiskFaults:
        """What the test lets fail."""
        return self._open_machine().faults

    @property
    def is_running(self) -> bool:
        """Has it been started, and not stopped or killed since?"""
        return self._server is not None

    def kill(self) -> None:
        """The server's process dies: connections end, what was not answered stays so. Raises `UnknownProcess` where it
        does not run.
        """
        machine = self._open_machine()
        self._check_running()
        machine.die()
        self._close()

    def stop(self) -> None:
        """Stop it as an operator does: calls under way may end. Raises `UnknownProcess` where it does not run."""
        self._check_running()
        self._close()
        self._open_machine().die()

    def start(self, *, keep_indexes: bool = True) -> None:
        """Start it again, at the same ports, on what the disk kept. Raises `UnknownProcess` where it runs.

        `keep_indexes` False: the indexes are lost as well, and built anew. After a loss of power they always are.
        """
        machine = self._open_machine()
        if self._server is not None:
            raise UnknownProcess("the server runs: kill or stop it before it is started again")
        machine.begin_again(keep_indexes=keep_indexes)
        self._open(machine)

    def restart(self, *, keep_indexes: bool = True) -> None:
        """`kill`, and `start`."""
        self.kill()
        self.start(keep_indexes=keep_indexes)

    def _check_running(self) -> None:
        self._open_machine()
        if self._server is None:
            raise UnknownProcess("the server is down: start it first")

    def _open_machine(self) -> DatabaseMachine:
        if self._machine is None:
            raise ClusterEnded("this server is not open: use `with duramen.testing.Server() as server`")
        return self._machine

    def _open(self, machine: DatabaseMachine) -> None:
        assert self._loop is not None, "it is made before"
        server = self._loop.run(
            lambda: SingleServer.open(
                machine.folder / "data",
                host=_HOST,
                port=self._port,
                resp_endpoint=RespSettings(port=self._redis_port),
                machine=machine.parts,
            )
        )
        self._port, self._redis_port, self._server = server.port, server.resp_port, server

    def _close(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            assert self._loop is not None, "the server runs on it"
            with suppress(DuramenError, OSError):  # the disk may be what has failed
                self._loop.run(server.close)

    def _end(self) -> None:
        machine, loop = self._machine, self._loop
        try:
            self._close()
        finally:
            self._machine = self._loop = None
            if loop is not None:
                loop.stop()
            if machine is not None:
                machine.close()
