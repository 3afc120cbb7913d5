"""Embedded: a database inside the test's process, for programs that block, in real time."""

from __future__ import annotations

from contextlib import suppress
from types import TracebackType

from duramen import blocking
from duramen.client.context import TIMEOUT_DEFAULT_S
from duramen.client.database import Database
from duramen.server.wiring.single_machine import open_local_data
from duramen.testing.embedded.database_machine import DatabaseMachine
from duramen.testing.machine.disk_faults import DiskFaults
from duramen.testing.running.errors import ClusterEnded
from log_tier.model.errors import DuramenError
from router.data.direct_reads import DirectReads

__all__ = ["Embedded"]


class Embedded:
    """A database of the test's own: `with duramen.testing.Embedded() as embedded:`, and `embedded.database`.

    It is what `duramen.open` gives, but that its log's disk is in memory and fails as the test says (`faults`).
    """

    def __init__(self, *, seed: int = 0, timeout: float = TIMEOUT_DEFAULT_S) -> None:
        """`seed`: of what a loss of power takes. `timeout`: the default of every call, in seconds."""
        self._seed, self._timeout = seed, timeout
        self._machine: DatabaseMachine | None = None
        self._database: blocking.Database | None = None

    def __enter__(self) -> Embedded:
        self._machine = DatabaseMachine(self._seed)
        try:
            self._database = self._opened(self._machine)
        except BaseException:
            self._machine.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        machine = self._open_machine()
        try:
            self._close()
        finally:
            self._machine = None
            machine.close()

    @property
    def database(self) -> blocking.Database:
        """The open database; another one after `restart`."""
        if self._database is None:
            raise ClusterEnded("this database is not open: use `with duramen.testing.Embedded() as embedded`")
        return self._database

    @property
    def faults(self) -> DiskFaults:
        """What the test lets fail."""
        return self._open_machine().faults

    def restart(self, *, keep_indexes: bool = True) -> blocking.Database:
        """The process dies, if no fault has ended it, and the next one opens what the disk kept.

        Returns the new `database`; the old one and its tables raise `DatabaseClosed`. `keep_indexes` False: the folder
        of the indexes is lost as well, and they are built anew from the log. After a loss of power they always are.
        Raises what `duramen.open` raises, a full disk for instance.
        """
        machine = self._open_machine()
        machine.die()
        self._close()
        machine.begin_again(keep_indexes=keep_indexes)
        self._database = self._opened(machine)
        return self._database

    def _open_machine(self) -> DatabaseMachine:
        if self._machine is None:
            raise ClusterEnded("this database is not open: use `with duramen.testing.Embedded() as embedded`")
        return self._machine

    def _opened(self, machine: DatabaseMachine) -> blocking.Database:
        async def make() -> Database:
            return await _database_over(machine, self._timeout)

        return blocking.start(make, isolated=True)

    def _close(self) -> None:
        database, self._database = self._database, None
        if database is not None:
            with suppress(DuramenError, OSError):  # the disk may be what has failed
                database.close()


async def _database_over(machine: DatabaseMachine, timeout: float) -> Database:
    """Open the database of a machine, as `duramen.open` opens that of a folder."""
    plane = await open_local_data(machine.folder / "data", machine=machine.parts)
    return Database(
        plane, timeout=timeout, direct=lambda name, session: DirectReads(plane, name, session.offsets, session.saw)
    )
