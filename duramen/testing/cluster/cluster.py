"""Cluster: log, nodes and router in one test, in virtual time, with the faults that the test chooses."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Coroutine
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, TypeVar

from duramen import aio
from duramen.client.transport.observer import CLIENT_OBSERVER
from duramen.testing.cluster.cluster_processes import ClusterProcesses
from duramen.testing.cluster.faults import ClusterFaults
from duramen.testing.cluster.levelling import LEVEL_S, wait_level
from duramen.testing.cluster.program import Program
from duramen.testing.machine.simulated_grpc import SimulatedTransport
from duramen.testing.recording.call_recorder import CallRecorder
from duramen.testing.recording.evidence import served_evidence
from duramen.testing.recording.judging import Judged, judge
from duramen.testing.running.errors import ClusterEnded, UnknownProcess
from duramen.testing.running.run import CLIENT
from duramen.testing.running.virtual_loop import virtual_loop
from log_tier.model.errors import DuramenError
from log_tier.rpc.transport import TRANSPORT

__all__ = ["Cluster"]

T = TypeVar("T")

NODES_MAX: Final = 16
"""Each node costs a folder, and some milliseconds of processor for each virtual second."""

_STORY_LINES: Final = 25
"""Of a failed test so many are shown: people read the end."""


class Cluster:
    """A cluster of its own for a test: `async with duramen.testing.Cluster(nodes=3) as cluster:`.

    It lives on the loop of `duramen.testing.run`, and follows from its seed. Nothing of it outlives the block: its disk
    is in memory, its folder is removed.
    """

    def __init__(self, nodes: int = 3, *, name: str | None = None) -> None:
        """`nodes`: how many hold replicas. `name`: for two clusters at once: `Cluster(name="eu")` has `eu-n1`, …"""
        if not 1 <= nodes <= NODES_MAX:
            raise ValueError(f"a cluster has 1 to {NODES_MAX} nodes, not {nodes}")
        self._nodes, self._prefix = nodes, f"{name}-" if name else ""
        self._processes: ClusterProcesses | None = None
        self._faults: ClusterFaults | None = None
        self._programs: dict[str, Program[Any]] = {}
        self._earlier_programs: list[Program[Any]] = []
        """Of names that others have now."""
        self._databases: list[aio.Database] = []
        self._story: list[str] = []
        self._recorder: CallRecorder | None = None

    async def __aenter__(self) -> Cluster:
        loop = virtual_loop()
        if self._faults is not None:
            raise ClusterEnded("this cluster was open before: make another one")
        processes = ClusterProcesses(loop, self._nodes, self._prefix)
        taken = [name for name in processes.names if name in loop.process_names]
        if taken:
            processes.machine.close()
            raise UnknownProcess(f"{taken[0]} is there already: give this cluster a name: Cluster(name='other')")
        loop.process_names |= dict.fromkeys(processes.names)
        self._processes = processes
        self._recorder = CallRecorder(processes.names, lambda: int(loop.time() * 1e9))
        loop.observer.add(self._recorder)
        self._faults = ClusterFaults(processes, loop.network, self._clients, self._check_open)
        try:
            processes.begin()
            await processes.up()
        except BaseException:
            await self._end(processes)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        processes = self._check_open()
        await self._end(processes)
        if error is not None:
            error.add_note("\n".join(["what happened in the cluster:", *self.story[-_STORY_LINES:]]))
            return
        if processes.broken.done():
            processes.broken.result()
        for program in [*self._earlier_programs, *self._programs.values()]:
            if (failure := program.unheard_failure()) is not None:
                failure.add_note(f"the program {program.name!r} ended with this, and nobody awaited it")
                raise failure

    async def _end(self, processes: ClusterProcesses) -> None:
        self._processes = None
        for program in list(self._programs.values()):
            await program.end()
        for database in self._databases:
            with suppress(DuramenError):
                await database.close()
        await processes.end()
        loop = virtual_loop()
        if self._recorder is not None:
            loop.observer.remove(self._recorder)
        self._story = list(loop.story.lines)
        for name in processes.names:
            loop.process_names.pop(name, None)

    def _check_open(self) -> ClusterProcesses:
        if self._processes is None:
            raise ClusterEnded(
                "this cluster has ended" if self._faults is not None else "this cluster is not open: use `async with`"
            )
        return self._processes

    def _clients(self) -> list[str]:
        return [CLIENT, *self._programs]

    # --- what a test calls

    @property
    def nodes(self) -> tuple[str, ...]:
        """The names of its nodes: `n1`, …"""
        return self._check_open().node_names

    @property
    def addresses(self) -> list[str]:
        """What a program passes to `duramen.aio.connect`: the router first, then every node."""
        processes = self._check_open()
        return [f"{name}:7070" for name in (processes.router_name, *processes.node_names)]

    @property
    def faults(self) -> ClusterFaults:
        """What the test lets fail."""
        if self._faults is None:
            raise ClusterEnded("this cluster is not open: use `async with`")
        return self._faults

    @property
    def story(self) -> list[str]:
        """What has happened in this run so far, line by line, with virtual times: lives, faults."""
        return self._story if self._processes is None else list(virtual_loop().story.lines)

    async def connect(
        self, at: str | None = None, *, timeout: float = 10.0, direct: bool = True, compress: bool = False
    ) -> aio.Database:
        """A database of the test's own, as `duramen.aio.connect` makes one, with a session of its own; the cluster
        closes it. `at`: the process to connect to; None: the first that answers. The other arguments are `connect`'s.

        Raises `Disconnected` where nobody answers, `UnknownProcess` where `at` serves no clients.
        """
        processes = self._check_open()
        if at is not None and at not in (*processes.node_names, processes.router_name):
            raise UnknownProcess(
                f"{at!r} serves no clients: {', '.join((processes.router_name, *processes.node_names))} do"
            )
        targets = self.addresses if at is None else [f"{at}:7070"]
        database = await aio.connect(targets, timeout=timeout, direct=direct, compress=compress)
        self._databases.append(database)
        return database

    async def check(self, within_s: float = LEVEL_S) -> Judged:
        """Did Duramen keep its promises to everybody who has connected to this cluster? Waits until it is level, reads
        the log and every replica, and holds each reply against them.

        Every client of the cluster is recorded, also those that a program makes by itself. Returns how many tables,
        calls and records of the log were looked at. Raises `NotLevel`; `PromiseBroken`, which names the invariants (I1
        to I7, see `docs/RELIABILITY.md`); `NotJudged` where a program wrote fractions.
        """
        processes = self._check_open()
        await self.level(within_s)
        assert self._recorder is not None, "it came with the processes"
        context = contextvars.copy_context()
        network = virtual_loop().network
        context.run(TRANSPORT.set, SimulatedTransport(network, f"{self._prefix}checker"))
        context.run(CLIENT_OBSERVER.set, None)
        judging = self._judged(self._recorder, f"{processes.router_name}:7070", processes.log_url)
        return await asyncio.get_running_loop().create_task(judging, context=context)

    @staticmethod
    async def _judged(recorder: CallRecorder, server: str, log_url: str) -> Judged:
        async with served_evidence(server, log_url) as evidence:
            return await judge(recorder, evidence)

    def start(self, name: str, work: Coroutine[Any, Any, T]) -> Program[T]:
        """Begin a program of the test, as a process of its own on the network: `cluster.start("shop", serve(address))`.

        What it connects to with `duramen.aio` goes over its own links, so faults can name it. `kill` ends it in the
        middle. Raises `UnknownProcess` where the name is taken. A program that fails, and that nobody awaits, fails the
        test at the end of the block.
        """
        try:
            self._check_open()
            known = self._programs.get(name)
            if name == CLIENT or name in virtual_loop().process_names or (known is not None and not known.has_ended):
                raise UnknownProcess(f"there is a process {name!r} already")
        except BaseException:
            work.close()
            raise
        program = Program(name, work, virtual_loop().network)
        if known is not None:
            self._earlier_programs.append(known)
        self._programs[name] = program
        self.faults.joined(name)
        return program

    async def level(self, within_s: float = LEVEL_S) -> None:
        """Wait until every process runs, has the newest map, and every replica has applied what the log holds.

        `within_s`: virtual seconds. Raises `NotLevel`, which says what is missing and which faults go on; at once where
        a process was killed and not started.
        """
        processes = self._check_open()
        await wait_level(processes, self.faults, within_s)
        if processes.broken.done():
            processes.broken.result()
