"""AsyncEmbedded: a database inside the test's process, for programs with an event loop, in virtual time."""

from __future__ import annotations

from contextlib import suppress
from types import TracebackType
from typing import Final

from duramen.client.context import TIMEOUT_DEFAULT_S
from duramen.client.database import Database
from duramen.client.transport.observer import CLIENT_OBSERVER
from duramen.server.wiring.single_machine import open_local_data
from duramen.testing.embedded.database_machine import DatabaseMachine
from duramen.testing.machine.disk_faults import DiskFaults
from duramen.testing.machine.simulated_clock import SimulatedClock
from duramen.testing.machine.simulated_loop import SimulatedWorkers
from duramen.testing.recording.call_recorder import CallRecorder
from duramen.testing.recording.evidence import local_evidence
from duramen.testing.recording.judging import Judged, judge
from duramen.testing.running.errors import ClusterEnded
from duramen.testing.running.virtual_loop import virtual_loop
from log_tier.model.errors import DuramenError
from router.data.local_data import LocalData

__all__ = ["AsyncEmbedded"]

_QUICK_S: Final = 10.0
"""The loop does small work itself, as on a machine with a quick disk."""


class AsyncEmbedded:
    """A database of the test's own: `async with duramen.testing.AsyncEmbedded() as embedded:`.

    It is what `duramen.aio.open` gives, but in virtual time, and with a log whose disk is in memory and fails as the
    test says (`faults`). It lives on the loop of `duramen.testing.run`.
    """

    def __init__(self, *, timeout: float = TIMEOUT_DEFAULT_S) -> None:
        """`timeout`: the default of every call, in virtual seconds."""
        self._timeout = timeout
        self._machine: DatabaseMachine | None = None
        self._database: Database | None = None
        self._plane: LocalData | None = None
        self._recorder: CallRecorder | None = None

    async def __aenter__(self) -> AsyncEmbedded:
        loop = virtual_loop()
        machine = DatabaseMachine(
            loop.seed, clock=SimulatedClock(loop.time), workers=SimulatedWorkers(loop, quick_s=_QUICK_S)
        )
        loop.at_close.append(machine.close)
        self._recorder = CallRecorder(None, lambda: int(loop.time() * 1e9))
        try:
            await self._begin(machine, self._recorder)
        except BaseException:
            machine.close()
            raise
        self._machine = machine
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        machine = self._open_machine()
        try:
            await self._close()
        finally:
            self._machine = None
            machine.close()

    @property
    def database(self) -> Database:
        """The open database; another one after `restart`."""
        if self._database is None:
            raise ClusterEnded("this database is not open: use `async with duramen.testing.AsyncEmbedded()`")
        return self._database

    @property
    def faults(self) -> DiskFaults:
        """What the test lets fail."""
        return self._open_machine().faults

    async def restart(self, *, keep_indexes: bool = True) -> Database:
        """As `Embedded.restart`."""
        machine = self._open_machine()
        machine.die()
        await self._close()
        machine.begin_again(keep_indexes=keep_indexes)
        assert self._recorder is not None, "it came with the machine"
        await self._begin(machine, self._recorder)
        return self.database

    async def check(self) -> Judged:
        """Did Duramen keep its promises? Reads log and index, and holds each reply of `database` against them, also
        those of earlier lives. As `Cluster.check`; raises `PromiseBroken`, `NotJudged`, and what reading raises.
        """
        self._open_machine()
        assert self._recorder is not None, "it came with the machine"
        assert self._plane is not None, "the database is open"
        return await judge(self._recorder, local_evidence(self._plane))

    async def _begin(self, machine: DatabaseMachine, recorder: CallRecorder) -> None:
        plane = await open_local_data(machine.folder / "data", machine=machine.parts)
        before = CLIENT_OBSERVER.set(recorder)
        try:
            self._plane, self._database = plane, Database(plane, timeout=self._timeout)
        finally:
            CLIENT_OBSERVER.reset(before)

    def _open_machine(self) -> DatabaseMachine:
        if self._machine is None:
            raise ClusterEnded("this database is not open: use `async with duramen.testing.AsyncEmbedded()`")
        return self._machine

    async def _close(self) -> None:
        database, self._database = self._database, None
        if database is not None:
            with suppress(DuramenError, OSError):  # the disk may be what has failed
                await database.close()
