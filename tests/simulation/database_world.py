"""A whole database on the machine of a plan: log, catalog, hosting, indexes, data plane and client.

The workload, its history and the checker are those of `duramen check` (`duramen.verification`).
"""

from __future__ import annotations

import asyncio
import random
import secrets
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from duramen.client.database import Database
from duramen.verification.checker import check_history
from duramen.verification.run import run_check
from duramen.verification.workload import WorkloadShape
from log_tier.catalog.catalog import Catalog
from log_tier.catalog.commands import RegisterNode
from log_tier.catalog.map_follower import MapFollower
from log_tier.embedded import EmbeddedLog, EngineSettings
from log_tier.model.errors import DatabaseClosed, Disconnected, DuramenError, LogStopped, ShuttingDown, WriteUnknown
from router.data.local_data import LocalData
from router.data.tables import Tables
from serving_tier.node.hosting import Hosting
from serving_tier.node.node import Node
from simulation.book import Broken
from simulation.plan import Fault, FaultKind, Plan
from simulation.simulated_disk import FaultyDisk
from simulation.simulated_loop import SimulatedLoop, SimulatedWorkers
from simulation.story import RunStory

__all__ = ["DatabaseWorld"]

HOME: Final = Path("/data/log")
_SECONDS: Final = 6.0
_RESTART_S: Final = 0.2
_END_S: Final = 600.0
"""Virtual time after which a run that has not ended never will."""


class DatabaseWorld:
    """One run of a plan; `run` raises `Broken`."""

    def __init__(self, plan: Plan, loop: SimulatedLoop) -> None:
        self.plan, self.loop = plan, loop
        self.story = RunStory(loop.time)
        self.up = asyncio.Event()
        self.died = asyncio.Event()
        self.plane: LocalData | None = None
        self.disk = FaultyDisk(self.story, self._end)
        self._chance = random.Random(f"database {plan.seed}")
        self.life = 0
        memory = Path("/dev/shm")
        self._folder = Path(tempfile.mkdtemp(prefix="duramen-simulation-", dir=memory if memory.is_dir() else None))
        self._workers = SimulatedWorkers(loop)
        self._settings = EngineSettings(
            segment_bytes=max(4096, plan.segment_bytes),
            index_every_bytes=300,
            journal_bytes=max(4096, plan.journal_bytes),
            tail_bytes_max=plan.tail_bytes,
            quick_commit_s=10.0 if plan.quick else 0.0,
            random_bytes=self._chance.randbytes,
            workers=self._workers,
            stopwatch_s=loop.time,
        )

    def _end(self) -> None:
        self.up.clear()
        self.died.set()

    async def run(self) -> None:
        """The workload under the plan's faults, then the checker."""
        living = asyncio.create_task(self._living())
        checking = asyncio.create_task(self._check())
        try:
            with _seeded(self.plan.seed):
                async with asyncio.timeout_at(self.loop.time() + _END_S):
                    await asyncio.wait([living, checking], return_when="FIRST_COMPLETED")
        except TimeoutError as error:
            raise Broken("ends", f"the run has not ended after {_END_S} s") from error
        finally:
            for task in (living, checking):
                if not task.done():
                    task.cancel()
            await asyncio.gather(living, checking, return_exceptions=True)
            await self._close()
            shutil.rmtree(self._folder, ignore_errors=True)
        for task in (living, checking):
            if not task.cancelled():
                task.result()

    # --- the machine and its operator

    async def _living(self) -> None:
        while True:
            disk = self.disk.now if self.disk.survivor is None else self.disk.restart()
            self.died.clear()
            self.life += 1
            try:
                self.plane = await self._opened(disk)
            except DuramenError as error:
                self.story.tell("operator", f"cannot start: {type(error).__name__}: {error.message}")
                if error.code in ("log_damaged", "index_damaged", "foreign_folder", "unknown_format"):
                    raise Broken("damage", f"it does not start: {error.message}") from error
            else:
                self.story.tell("server", f"life {self.life} begins")
                self.up.set()
                await self.died.wait()
            self.up.clear()
            await self._close()
            if self.disk.survivor is None:
                kind: FaultKind = "power" if self._chance.random() < 0.5 else "kill"
                self.disk.die(Fault(0, kind, 0, seed=self._chance.getrandbits(32)), "restart")
            if self._chance.random() < 0.5:
                # After a loss of power an index is not trusted; a node without one folds the log from its start.
                shutil.rmtree(self._folder / "node", ignore_errors=True)
                self.story.tell("machine", "the indexes are gone")
            await asyncio.sleep(_RESTART_S)

    async def _opened(self, disk: Any) -> LocalData:
        async with AsyncExitStack() as opened:
            log = await EmbeddedLog.open(HOME, disk=disk, clock=self._wall_ms, settings=self._settings)
            opened.push_async_callback(log.close)
            if log.recovery.damages:
                raise Broken("damage", f"recovery says {log.recovery}")
            catalog = await Catalog.open(log)
            opened.push_async_callback(catalog.close)
            await catalog.submit(RegisterNode("n1", "", "single", take_over=True))
            await Tables(log, catalog).reconcile()
            node = await Node.open(log, self._folder / "node", clock_ms=self._wall_ms, workers=self._workers)
            opened.push_async_callback(node.close)
            hosting = await Hosting.open(MapFollower(catalog), node, node_id="n1", identity="single")
            opened.push_async_callback(hosting.close)
            return LocalData(log, catalog, hosting, resources=opened.pop_all())
        raise AssertionError("not reached")

    def _wall_ms(self) -> int:
        return int(self.loop.time() * 1000) + 1_700_000_000_000

    async def _close(self) -> None:
        plane, self.plane = self.plane, None
        if plane is not None:
            with suppress(DuramenError):
                await plane.close()

    # --- the clients

    async def _check(self) -> None:
        shape = WorkloadShape(
            clients=self._chance.choice((1, 3, 6)),
            watchers=self._chance.choice((0, 1)),
            hot_keys=self._chance.choice((2, 12)),
            cold_keys=40,
            pause_s=self._chance.choice((0.01, 0.1)),
        )
        history = await run_check(
            self._connect,
            seconds=_SECONDS,
            seed=str(self.plan.seed),
            shape=shape,
            partitions=self.plan.partitions,
            faults=self._faults,
            clock=lambda: int(self.loop.time() * 1e9),
        )
        for call in history.calls:
            self.story.tell(f"client {call.client}", f"{call.kind} {call.arguments} {call.outcome} {call.reply}")
            self.story.met[f"answer {call.outcome}"] += 1
        for violation in check_history(history):
            raise Broken(violation.invariant, f"{violation.what} (calls {violation.calls})")

    async def _connect(self) -> Database:
        await self.up.wait()
        return Database(_Reconnecting(self), timeout=5.0)

    async def _faults(self, stop: asyncio.Event) -> None:
        began_s = self.loop.time()
        for fault in self.plan.faults:
            await asyncio.sleep(max(0.0, began_s + fault.at_s / 2 - self.loop.time()))
            self.story.tell("fault", f"{fault.kind}, after {fault.steps} steps")
            if fault.kind == "slow":
                self.loop.slow_threads(fault.seconds)
            elif fault.kind != "full":
                self.disk.arm(fault)
                await asyncio.sleep(0.2)
                self.disk.force(fault)
        await stop.wait()
        self.disk.calm()


class _Reconnecting:
    """A `Connection` to whatever life the server has: a call under way when it dies ends as a lost connection does."""

    def __init__(self, world: DatabaseWorld) -> None:
        self._world = world

    def __getattr__(self, name: str) -> Any:
        if name == "watch":
            return self._watch

        async def call(*args: Any, **kwargs: Any) -> Any:
            plane, life = self._plane(), self._world.life
            running = asyncio.ensure_future(getattr(plane, name)(*args, **kwargs))
            dying = asyncio.ensure_future(self._world.died.wait())
            try:
                await asyncio.wait([running, dying], return_when="FIRST_COMPLETED")
                if not running.done():
                    raise Disconnected("the server died")
                result = running.result()
            except DuramenError as error:
                raise self._as_seen(error, life) from error
            finally:
                for task in (running, dying):
                    task.cancel()
                await asyncio.gather(running, dying, return_exceptions=True)
            for each in result if isinstance(result, list) else ():
                if isinstance(each, LogStopped | WriteUnknown):
                    self._world.died.set()
                    self._world.up.clear()
            return result

        return call

    def _plane(self) -> LocalData:
        plane = self._world.plane
        if plane is None or not self._world.up.is_set():
            raise Disconnected("no server answers", sent=0)
        return plane

    async def _watch(self, *args: Any) -> AsyncIterator[Any]:
        plane, life = self._plane(), self._world.life
        events = plane.watch(*args)
        try:
            async for event in events:
                yield event
        except DuramenError as error:
            raise self._as_seen(error, life) from error
        finally:
            await events.aclose()

    def _as_seen(self, error: DuramenError, life: int) -> DuramenError:
        """A client of a dead server sees a lost connection, whatever the dead one's disk says."""
        dead = self._world.died.is_set() or self._world.life != life
        if dead or isinstance(error, ShuttingDown | DatabaseClosed):
            return Disconnected(f"the server ends: {error.message}")
        return error

    async def close(self) -> None:
        """Nothing is held."""


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Whatever draws at random in this process draws from the seed."""
    chance = random.Random(f"secrets {seed}")
    real = secrets.randbits, secrets.token_hex
    random.seed(seed)
    secrets.randbits = chance.getrandbits  # type: ignore[assignment]
    secrets.token_hex = lambda nbytes=None: chance.randbytes(nbytes or 32).hex()
    try:
        yield
    finally:
        secrets.randbits, secrets.token_hex = real
