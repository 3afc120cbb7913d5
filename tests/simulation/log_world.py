"""A log on a machine that fails: its clients, its readers, and whoever starts it again."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any, Final, TypeVar

from duramen.testing.machine.fault import FaultKind, MachineFault
from duramen.testing.machine.kernel_disk import KernelDisk
from duramen.testing.machine.simulated_clock import SimulatedClock
from duramen.testing.machine.simulated_disk import FaultyDisk
from duramen.testing.machine.simulated_loop import SimulatedLoop, SimulatedWorkers
from duramen.testing.machine.story import RunStory
from log_tier.embedded import EmbeddedLog, EngineSettings
from log_tier.model.batch_header import split_batches
from log_tier.model.errors import (
    DuramenError,
    LogStopped,
    OffsetTrimmed,
    TokenAhead,
    WriteUnknown,
)
from log_tier.model.identifiers import Offset
from log_tier.model.log import Appended, Topic
from simulation.book import Book, Broken, SentBatch, newest_date, records_in
from simulation.clean_close import CleanClose
from simulation.log_damage import LogDamage
from simulation.plan import Call, Plan
from simulation.planned_machine import set_clocks
from simulation.topic_book import TopicBook

__all__ = ["LogWorld"]

HOME: Final = Path("/data/log")
TABLE: Final = "flights"

# A call that takes longer, in virtual time and on a log that is up, will never end.
_CALL_S: Final = 60.0
_RESTART_S: Final = 0.2
_STARTS_MAX: Final = 100  # a plan has fewer faults: what keeps a log closed so often will keep it closed

T = TypeVar("T")


class LogWorld:
    """One run of a plan; `run` raises `Broken`."""

    def __init__(self, plan: Plan, loop: SimulatedLoop) -> None:
        self.plan, self.loop = plan, loop
        self.story = RunStory(loop.time)
        self.book, self.topics = Book(), TopicBook()
        self._clean_close = CleanClose(self.story)
        self.clock = SimulatedClock(loop.time)
        self.broken: asyncio.Future[None] = loop.create_future()
        self._died = asyncio.Event()
        # A disk that lies has no kernel that hides things too: each is held to by itself.
        first = None if plan.damages else KernelDisk.of(plan.seed)
        self.disk = FaultyDisk(self.story, self._died.set, first)
        self.damage = LogDamage(self.disk, HOME)
        self._up = asyncio.Event()
        self._log: EmbeddedLog | None = None
        self._topic: Topic | None = None
        self._chance = random.Random(f"world {plan.seed}")
        self._life = 0
        self._settings = EngineSettings(
            segment_bytes=plan.segment_bytes,
            index_every_bytes=300,
            journal_bytes=plan.journal_bytes,
            tail_bytes_max=plan.tail_bytes,
            open_segments_max=plan.open_segments,
            quick_commit_s=10.0 if plan.quick else 0.0,
            tombstone_ms=1,
            summary_partitions_min=1 if plan.seed % 4 else 256,
            random_bytes=self._chance.randbytes,
            workers=SimulatedWorkers(loop, quick_s=0.0),
            stopwatch_s=loop.time,
        )

    async def run(self) -> None:
        """Everything, to the end of the plan; then the faults are over, and the log is looked at."""
        tasks = [asyncio.create_task(self._restarting())]
        tasks += [asyncio.create_task(self._client(number)) for number in sorted({c.client for c in self.plan.calls})]
        readers = [asyncio.create_task(self._reader(number)) for number in range(self.plan.partitions)]
        faults = [asyncio.create_task(self._fail(fault)) for fault in (*self.plan.faults, *self.plan.damages)]
        faults.append(asyncio.create_task(set_clocks(self.plan, self.story, 1.0, lambda name: self.clock)))
        everything = [*tasks, *readers, *faults]
        try:
            await self._all(tasks[1:] + faults, everything)
            self.story.tell("world", "the faults are over")
            everything.append(asyncio.create_task(self._last_look()))
            await self._all(everything[-1:], everything)
        finally:
            for task in everything:
                task.cancel()
            await asyncio.gather(*everything, return_exceptions=True)
            if self._log is not None:
                with suppress(DuramenError):
                    await self._log.close()

    async def _all(self, wanted: list[asyncio.Task[Any]], everything: list[asyncio.Task[Any]]) -> None:
        left = set(wanted)
        while left:
            watched = [*left, *(task for task in everything if task not in left and not task.done())]
            done, _ = await asyncio.wait(watched, return_when="FIRST_COMPLETED")
            for task in done:
                task.result()
            left -= done

    # --- the machine and its operator

    async def _restarting(self) -> None:
        """Start the log, and start it again whenever it has died or stopped."""
        failed = 0
        while True:
            try:
                await self._begin()
            except DuramenError as error:
                self.story.tell("operator", f"cannot open the log: {type(error).__name__}: {error.message}")
                self._check_open_error(error)
                if (failed := failed + 1) > _STARTS_MAX:
                    raise Broken("ends", f"the log does not open, {failed} times: {error.message}") from error
            else:
                self._up.set()
                await self._died.wait()
            self._up.clear()
            await self._end_life()
            await asyncio.sleep(_RESTART_S)

    def _check_open_error(self, error: DuramenError) -> None:
        """Only what a plan does to a disk keeps a log from opening; after a failure it is tried again."""
        self.damage.check(error, "the log does not open")
        if self.damage.excuses(error):
            self.story.met["damage keeps the log closed"] += 1
            self.damage.put_right_for(error)

    async def _begin(self) -> None:
        self._died.clear()
        disk = self.disk.now if self.disk.survivor is None else self.disk.restart()
        self._life += 1
        self.damage.before_open(disk)
        self._clean_close.begin()
        meant = [] if self.plan.damages else [each for each in self.plan.openings if each.at_s == self._life]
        with self.disk.armed(meant):
            opening = EmbeddedLog.open(HOME, disk=disk, clock=self.clock.wall_ms, settings=self._settings)
            self._log = await self._in_time(opening, "open")
        assert self._log is not None
        recovery = self._log.recovery
        self.story.tell("log", f"life {self._life} begins: {recovery}".replace("\n", "; "))
        self.damage.opened(recovery, self.book)
        if not self.plan.damages:
            self._clean_close.check(recovery)
        topics = await self._log.topics()
        self.topics.check(topic.id for topic in topics)
        found = [topic for topic in topics if topic.name == TABLE]
        self._topic = found[0] if found else None
        if self._topic is None:
            if self.book.sent:
                raise Broken("acknowledged", "the topic is gone")
            self._topic = await self._log.create_topic(TABLE, partitions=self.plan.partitions)
        await self._look(self._log, self._topic)

    async def _end_life(self) -> None:
        """The process is gone: what it still held in memory ends with it."""
        log, self._log = self._log, None
        if log is not None:
            with suppress(DuramenError):
                await self._in_time(log.close(), "close")
                self._clean_close.closed(is_alive=self.disk.survivor is None)
        if self.disk.survivor is None:
            # It did not open, or it was closed. The next process finds what the kernel has; or the machine restarts.
            kind: FaultKind = "power" if self._chance.random() < 0.5 else "kill"
            self.disk.die(MachineFault(0, kind, 0, seed=self._chance.getrandbits(32)), "restart")
        self._died.clear()

    async def _fail(self, fault: MachineFault) -> None:
        await asyncio.sleep(fault.at_s)
        self.story.tell("fault", f"{fault.kind}, after {fault.steps} steps")
        if fault.kind == "slow":
            self.loop.slow_threads(fault.seconds)
        elif fault.kind == "full":
            self._clean_close.was_full = True
            self.disk.now.space = fault.seed % 3000
            await asyncio.sleep(fault.seconds)
            self.disk.now.space = None
            if self.disk.survivor is not None:
                self.disk.survivor.space = None
        else:
            self.disk.arm(fault)
            await asyncio.sleep(1.0)
            self.disk.force(fault)

    # --- clients

    async def _client(self, number: int) -> None:
        for call in self.plan.calls:
            if call.client == number:
                await asyncio.sleep(max(0.0, call.at_s - self.loop.time()))
                await self._up.wait()
                await self._call(call)

    async def _call(self, call: Call) -> None:
        log, topic = self._log, self._topic
        if log is None or topic is None:
            return
        who = f"client {call.client}"
        try:
            if call.kind in ("append", "together", "gathered"):
                await self._write(who, log, topic, call)
            else:
                await self._in_time(self._change(log, topic, call), call.kind)
                self.story.tell(who, f"{call.kind} {call.number} done")
        except DuramenError as error:
            self._meet(who, f"{call.kind} {call.number}", error)

    async def _change(self, log: EmbeddedLog, topic: Topic, call: Call) -> None:
        name, where = f"other{call.number % 3}", topic.partition(call.partitions[0])
        if call.kind == "create":
            self.topics.created((await log.create_topic(name, partitions=2)).id)
        elif call.kind == "delete":
            found = [each for each in await log.topics() if each.name == name]
            if found:
                self.topics.deleting(found[0].id)
                await log.delete_topic(found[0].id)
                self.topics.deleted(found[0].id)
        elif call.kind == "trim":
            await log.trim(where, Offset((await log.bounds(where)).latest * (call.number % 4) // 4))
        elif call.kind == "compact":
            below = (await log.bounds(where)).latest
            before = self.book.compacted[topic.id, where.partition]
            self.book.compacted[topic.id, where.partition] = max(before, below)
            await log.compact(where, below)
        elif call.kind == "restart":
            self._died.set()  # closes it cleanly

    async def _write(self, who: str, log: EmbeddedLog, topic: Topic, call: Call) -> None:
        batches = [self.book.batch_of(call, topic.id, partition) for partition in call.partitions]
        again = call.number % 3 == 0
        for attempt in range(2 if again else 1):
            for batch in batches:
                batch.copies += 1
            answers = await self._in_time(self._answers(log, topic, batches, call), call.kind)
            left: list[SentBatch] = []
            for batch, answer in zip(batches, answers, strict=True):
                if isinstance(answer, Appended):
                    batch.offsets.add(answer.base_offset)
                    outcome = f"acknowledged at {answer.base_offset}"
                else:
                    outcome = type(answer).__name__
                    self._meet(who, f"{call.kind} {call.number} to {batch.partition}", answer)
                    if isinstance(answer, WriteUnknown):
                        left.append(batch)
                    else:
                        batch.copies -= 1
                self.story.tell(who, f"{call.kind} {call.number}.{attempt} to {batch.partition}: {outcome}")
            if not left:
                return
            batches = left  # the same bytes again, in the next life
            self._died.set()
            await asyncio.sleep(2 * _RESTART_S)
            await self._up.wait()
            if self._log is None:
                return
            log = self._log

    async def _answers(
        self, log: EmbeddedLog, topic: Topic, batches: list[SentBatch], call: Call
    ) -> list[Appended | DuramenError]:
        parts = [(topic.partition(batch.partition), batch.data) for batch in batches]
        if call.kind != "append":
            return await log.append_many(parts, gathered=call.kind == "gathered")
        try:
            return [await log.append(*parts[0])]
        except DuramenError as error:
            return [error]

    def _meet(self, who: str, what: str, error: DuramenError) -> None:
        self.story.met[f"answer {type(error).__name__}"] += 1
        self.story.tell(who, f"{what}: {type(error).__name__}")
        if isinstance(error, LogStopped | WriteUnknown):
            self._died.set()  # the operator restarts a log that stopped
        elif error.code == "error":
            raise Broken("damage", f"{what} is answered {error!r}")
        self.damage.check(error, f"{what} is answered")

    async def _in_time(self, work: Awaitable[T], what: str) -> T:
        try:
            async with asyncio.timeout_at(self.loop.time() + _CALL_S):
                return await work
        except TimeoutError as error:
            if isinstance(error, DuramenError):
                raise
            raise Broken("ends", f"{what} has not ended after {_CALL_S} s") from error
        except (OSError, AssertionError, KeyError, IndexError, ValueError, RuntimeError) as error:
            if isinstance(error, Broken):
                raise
            raise Broken("typed", f"{what} ended with {error!r}") from error

    # --- readers

    async def _reader(self, partition: int) -> None:
        """Follow a partition through all lives."""
        at, newest_ms = Offset(0), 0
        while True:
            await self._up.wait()
            log, topic = self._log, self._topic
            assert log is not None
            assert topic is not None
            try:
                async with aclosing(log.read(topic.partition(partition), at, follow=True)) as chunks:
                    async for chunk in chunks:
                        stored = list(split_batches(chunk.data))
                        records = records_in(stored)
                        self.book.show(topic.id, partition, records)
                        newest_ms = newest_date(stored, newest_ms)
                        at = Offset(max([at - 1, *records]) + 1)
            except OffsetTrimmed as error:
                at = Offset(int(str(error.fields["earliest"])))
            except TokenAhead as error:
                if (topic.id, partition) in self.damage.cut:
                    at, newest_ms = Offset((await log.bounds(topic.partition(partition))).latest + 1), 0
                    continue
                raise Broken("shown", f"a reader at {partition}@{at} is answered {error.message}") from error
            except (DuramenError, OSError) as error:
                if isinstance(error, DuramenError):
                    self.damage.check(error, f"a reader at {partition}@{at} is answered")
                if isinstance(error, OSError) and self.disk.survivor is None:
                    raise Broken("typed", f"a reader ended with {error!r}") from error
                await asyncio.sleep(_RESTART_S)

    # --- what is there

    async def _look(self, log: EmbeddedLog, topic: Topic) -> None:
        """Read everything, and hold it against the book."""
        for partition in range(self.plan.partitions):
            where = topic.partition(partition)
            bounds = await log.bounds(where)
            try:
                found, refused = await self.damage.read(log, topic, partition, self.book)
            except OSError:
                return  # the machine died meanwhile
            if refused:
                self.story.met["damage is refused"] += 1
            if self.disk.survivor is None:
                self.book.check(topic.id, partition, found, bounds.earliest, bounds.latest, refused)
                if not self.plan.damages:
                    self.book.show(topic.id, partition, found)

    async def _last_look(self) -> None:
        """Without faults: the log opens, takes a write in each partition, and holds what it should. A
        verification names damage before it is put right.
        """
        if self.plan.damages:
            self.damage.verify(self._settings)
            await self._restarted("kill", "the look at rest")
            self.damage.check_unnamed(self.book)
            self.damage.put_right()
            await self._restarted("kill", "the damage was put right")
        for number in range(self.plan.partitions):
            call = Call(0, 99, "append", 10_000 + number, (number,))
            for _ in range(20):
                await self._in_time(self._up.wait(), "the last start")
                if self._log is None or self._topic is None:
                    continue
                sent = self.book.batch_of(call, self._topic.id, number)
                sent.copies = 1
                answer = (await self._in_time(self._answers(self._log, self._topic, [sent], call), "the last write"))[0]
                if isinstance(answer, Appended):
                    sent.offsets.add(answer.base_offset)
                    break
                self._meet("world", "the last write", answer)
                if self.damage.excuses(answer):
                    break  # a checkpoint that was put right knows of a commit that was cut
                await asyncio.sleep(2 * _RESTART_S)
            else:
                raise Broken("ends", "the log takes no write after the faults")
        ends: tuple[FaultKind, ...] = ("kill", "power")
        for kind in ends:
            await self._restarted(kind, "the end")

    async def _restarted(self, kind: FaultKind, after: str) -> None:
        await self._in_time(self._up.wait(), f"a start before {after}")
        self.disk.die(MachineFault(0, kind, 0, seed=self.plan.seed), after)
        self._up.clear()
        await self._in_time(self._up.wait(), f"the start after {after}")
