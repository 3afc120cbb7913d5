"""The engine: a `Log` over files of this machine."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeVar

from log_tier.concurrency.clocks import SYSTEM_CLOCK
from log_tier.concurrency.persistent_map import PersistentMap
from log_tier.concurrency.tasks import going_on, to_the_end
from log_tier.concurrency.threads import in_own_thread
from log_tier.embedded.closing import close_files
from log_tier.embedded.commit.batch_checks import BatchChecks
from log_tier.embedded.commit.committer import Committer, tell
from log_tier.embedded.recovery.data_folder import DataFolder
from log_tier.embedded.recovery.open_topics import OpenTopic, TopicOpener
from log_tier.embedded.segments.memory_blocks import keep_freed_blocks
from log_tier.embedded.segments.partition_log import PartitionLog
from log_tier.embedded.segments.reader import read_partition
from log_tier.embedded.statistics import EngineStatistics
from log_tier.embedded.storage.disk import Disk, LocalDisk
from log_tier.embedded.storage.refusal import refusal_of
from log_tier.embedded.storage.settings import TOPICS_MAX, ClockMs, EngineSettings
from log_tier.embedded.upkeep.compactor import compact_partition
from log_tier.embedded.upkeep.trim import retain_partition, trim_partition
from log_tier.measures.long_work import LongCommit, LongWork
from log_tier.model.batch import checked_span
from log_tier.model.errors import (
    DuramenError,
    InvalidRequest,
    LimitExceeded,
    LogStopped,
    ShuttingDown,
    TableExists,
    TableNotFound,
)
from log_tier.model.identifiers import PARTITIONS_MAX, Offset, PartitionId, TableId, check_name
from log_tier.model.log import Appended, Bounds, ReadChunk, Topic
from log_tier.model.retention import Retention, check_retention

__all__ = ["EmbeddedLog"]

# Threads that read files. Reads wait for the device and check bytes; two keep a slow device from holding up a fast one,
# and more would only take turns at the interpreter's lock.
_READ_THREADS: Final = 2

_T = TypeVar("_T")

_logger = logging.getLogger(__name__)


class EmbeddedLog:
    """The embedded log engine; `open` makes one.

    Every method may be called from any event loop of the process, also from several at once: a call's result arrives in
    the loop that made it.
    """

    def __init__(self, folder: DataFolder, disk: Disk, clock: ClockMs, settings: EngineSettings) -> None:
        self._folder, self._disk, self._clock, self._settings = folder, disk, clock, settings
        self._opener = TopicOpener(folder, disk, settings)
        self.moves = self._opener.moves
        self._committer = Committer(settings, clock)
        self._checks = BatchChecks(self._partition, self._committer)
        self._topics: PersistentMap[TableId, OpenTopic] = PersistentMap()
        self._names: set[str] = set()
        """The names of all topics. Only the keeper's thread uses them."""
        self._closing = threading.Lock()
        self._refusal: ShuttingDown | None = None
        self._closed: Future[None] = Future()
        """Done when the folder is free again."""
        # Whatever changes which files there are happens in one thread, one thing at a time.
        self._keeper = ThreadPoolExecutor(1, thread_name_prefix="duramen-log-keeper")
        self._readers = ThreadPoolExecutor(_READ_THREADS, thread_name_prefix="duramen-log-reader")
        self.recovery = self._opener.report
        """The findings of recovery when the log was opened; empty after a clean close."""

    @classmethod
    async def open(
        cls,
        path: str | Path,
        *,
        disk: Disk | None = None,
        clock: ClockMs = SYSTEM_CLOCK.wall_ms,
        settings: EngineSettings | None = None,
    ) -> EmbeddedLog:
        """Open the log in a folder, or begin one in an empty one; recover what a crash left.

        Raises `FolderInUse`, `ForeignFolder`, `FolderReadOnly`, `UnknownFormat`, `DiskFull`, and `LogDamaged` for a
        topic's own file; a damaged partition does not keep the others from opening: see `recovery`. Reads about 64 KiB
        a segment.
        """
        keep_freed_blocks()
        disk, settings = disk or LocalDisk(), settings or EngineSettings()

        def work() -> EmbeddedLog:
            folder = DataFolder.open(disk, Path(path).absolute(), random_bytes=settings.random_bytes)
            log = cls(folder, disk, clock, settings)
            try:
                log._load()
            except BaseException:
                log._abandon()
                raise
            return log

        # A thread of its own: the log's threads exist only once the folder is ours. A cancelled caller gets its error
        # when the folder is free again.
        name = "duramen-log-open"
        log = await to_the_end(in_own_thread(work, name=name), undo=lambda log: in_own_thread(log._abandon, name=name))
        log._committer.start()
        return log

    def _load(self) -> None:
        try:
            known = self._opener.take_summary()
            topics = self._folder.topics(self.recovery, known=known)
            # First of all: recovery must see what had been acknowledged through the journal.
            self._committer.journal = self._opener.open_journal()
            for opened in self._opener.open_topics(topics):
                self._topics = self._topics.with_entry(opened.topic.id, opened)
                self._names.add(opened.topic.name)
        except OSError as error:
            raise refusal_of(error, self._folder.path) from error

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Commit what was accepted, end all readers with `ShuttingDown`, leave the folder clean. A caller that is
        cancelled gets its error when the log is closed.

        Idempotent: every call returns when the folder is free. What fails, the first call raises.
        """
        with self._closing:
            is_first = self._refusal is None
            refusal = self._refusal = self._refusal or ShuttingDown(
                "the log is closed; open it again, or use another replica"
            )
        if is_first:
            # A thread of its own again: this one outlives the log's threads.
            await to_the_end(in_own_thread(lambda: self._close(refusal), name="duramen-log-close"))
        else:
            await to_the_end(asyncio.wrap_future(self._closed))

    def _close(self, refusal: ShuttingDown) -> None:
        try:
            self._keeper.shutdown(wait=True)
            self._checks.close()
            self._committer.close()
            for opened in self._topics.values():
                for partition in opened.partitions:
                    self._refuse(partition, refusal)
            self._readers.shutdown(wait=True)
            partitions = [each for opened in self._topics.values() for each in opened.partitions]
            close_files(partitions, self._committer, self._folder.path)
            self._summarize()
        finally:
            try:
                self._folder.close()
            finally:
                self._closed.set_result(None)

    def _summarize(self) -> None:
        """After a clean close: the next open goes by what is written down here. It is not needed, so nothing raises."""
        journal = self._committer.journal
        if self._committer.stopped is None and journal is not None:
            try:
                self._opener.write_summary(self._topics.values(), journal)
            except OSError as error:
                _logger.warning("%s: the next open looks at all partitions", error)

    def _abandon(self) -> None:
        """Let go of everything: the log was not opened. Blocks."""
        if self._committer.journal is not None:
            self._committer.journal.close(settle=False)
        self._folder.close()

    @staticmethod
    def _refuse(partition: PartitionLog, refusal: DuramenError) -> None:
        for waiter in partition.refuse(refusal):
            tell(waiter.get_loop(), [(waiter, None)])

    @property
    def long_commits(self) -> LongWork[LongCommit]:
        """The commits of late that took long, of all partitions."""
        return self._committer.long_commits

    def statistics(self) -> EngineStatistics:
        """Counts since the open."""
        committer = self._committer
        return EngineStatistics(
            topics=len(self._topics),
            appends=committer.appends,
            commits=committer.commits,
            syncs=committer.syncs,
            bytes=committer.bytes,
            tail_bytes=self._opener.memory.bytes,
            queued=committer.queued,
            queued_bytes=committer.queued_bytes,
            queue_age_s=committer.queue_age_s,
            commit_s=committer.commit_s.read(),
            commit_bytes=committer.commit_bytes.read(),
            stopped=None if committer.stopped is None else committer.stopped.message,
            recovery=self.recovery,
        )

    async def _keep(self, work: Callable[[], _T]) -> _T:
        """Run in the keeper's thread. What was begun there is finished, also if the caller is cancelled."""
        for reason in (self._refusal, self._committer.stopped):
            if reason is not None:
                raise reason

        def guarded() -> _T:
            try:
                return work()
            except LogStopped as error:
                self._committer.stop(error)
                raise
            except OSError as error:
                failure = refusal_of(error, self._folder.path)
                if isinstance(failure, LogStopped):
                    self._committer.stop(failure)
                raise failure from error

        return await going_on(asyncio.get_running_loop().run_in_executor(self._keeper, guarded))

    def _in_writer(self, errand: Callable[[], None]) -> None:
        """Have the writer thread do something, and wait for it. Not from an event loop's thread."""
        self._committer.run(errand)

    # --- topics ---

    async def create_topic(self, name: str, *, partitions: int) -> Topic:
        """Create a topic: one folder per partition, and five syncs."""
        check_name(name, what="topic")
        if not 1 <= partitions <= PARTITIONS_MAX:
            raise LimitExceeded(
                f"a topic has 1 to {PARTITIONS_MAX} partitions, not {partitions}", limit=PARTITIONS_MAX, size=partitions
            )

        def work() -> Topic:
            if name in self._names:
                raise TableExists(f"there is a topic {name!r} already: choose another name, or delete it first")
            if len(self._topics) >= TOPICS_MAX:
                message = f"a log holds at most {TOPICS_MAX} topics: delete one first"
                raise LimitExceeded(message, limit=TOPICS_MAX, size=len(self._topics))
            topic = self._folder.create(name, partitions)
            try:
                (opened,) = self._opener.open_topics([topic])
            except OSError:
                self._folder.take_back(topic.id)
                raise
            self._topics = self._topics.with_entry(topic.id, opened)
            self._names.add(name)
            return topic

        return await self._keep(work)

    async def adopt_topic(self, name: str) -> Topic:
        """Raises `InvalidRequest`: an embedded log holds only topics that it made itself."""
        raise InvalidRequest(
            f"topic {name!r} cannot be adopted: an embedded log has no topics of others, a Kafka log has "
            "(`--log kafka://…`); without it, create a table of its own"
        )

    async def delete_topic(self, topic: TableId) -> None:
        """Delete a topic; its readers and writers get `TableNotFound`. If the disk refuses, the topic stays."""

        def work() -> None:
            opened = self._topic(topic)
            gone = TableNotFound(f"topic {opened.topic.name!r} ({topic}) was deleted")
            for partition in opened.partitions:
                self._refuse(partition, gone)

            def retire() -> None:
                for partition in opened.partitions:
                    partition.release()
                self._folder.delete(topic)

            try:
                # The writer thread closes the files: it may be in the middle of a write to one of them.
                self._in_writer(retire)
            except (OSError, DuramenError):
                for partition in opened.partitions:
                    partition.readmit()
                raise
            self._topics = self._topics.without(topic)
            self._names.discard(opened.topic.name)
            self._folder.sweep(topic)

        await self._keep(work)

    async def topics(self) -> list[Topic]:
        """All topics, by name."""
        if self._refusal is not None:
            raise self._refusal
        return sorted((opened.topic for opened in self._topics.values()), key=lambda topic: topic.name)

    def _topic(self, topic: TableId) -> OpenTopic:
        if self._refusal is not None:
            raise self._refusal
        opened = self._topics.get(topic)
        if opened is None:
            raise TableNotFound(
                f"no table has the id {topic} in this log: it was dropped, or it is another log's", table=topic
            )
        return opened

    def _partition(self, partition: PartitionId) -> PartitionLog:
        topic, number = partition
        opened = self._topic(topic)
        if not 0 <= number < len(opened.partitions):
            raise TableNotFound(
                f"topic {opened.topic.name!r} has partitions 0 to {len(opened.partitions) - 1}, not {number}"
            )
        return opened.partitions[number]

    # --- records ---

    async def append(self, partition: PartitionId, batch: bytes) -> Appended:
        """Append a batch: one write and one sync, shared with whatever else waits."""
        log = self._partition(partition)
        if self._checks.at_once([(partition, batch)]):
            (result,) = await self._committer.submit([(log, batch, checked_span(batch))])
        else:
            (result,) = await self._checks.append([(partition, batch)], gathered=False)
        if isinstance(result, DuramenError):
            raise result
        return result

    def append_many(
        self, parts: Sequence[tuple[PartitionId, bytes]], *, gathered: bool = False
    ) -> Awaitable[list[Appended | DuramenError]]:
        """Append batches of several partitions: one write each, and one sync for all where they are small.

        If they are `gathered`, or calls have come one at a time of late, the disk is quick and nothing else is being
        written, the call commits in its own thread and returns a future that is done.
        """
        return self._checks.append(parts, gathered=gathered)

    async def read(
        self, partition: PartitionId, start: Offset, *, follow: bool, chunk_bytes: int = 1 << 20
    ) -> AsyncGenerator[ReadChunk, None]:
        """Stored batches from memory or from the files, each checked when it comes from a file."""
        log = self._partition(partition)
        chunks = read_partition(log, start, follow=follow, chunk_bytes=chunk_bytes, threads=self._readers)
        async with contextlib.aclosing(chunks):
            async for chunk in chunks:
                yield chunk

    async def bounds(self, partition: PartitionId) -> Bounds:
        """The earliest and the latest offset; in a damaged partition, up to the damage at its end."""
        return self.bounds_now(partition)

    def bounds_now(self, partition: PartitionId) -> Bounds:
        """As `bounds`, without a coroutine: what a `LocalLog` offers."""
        return self._partition(partition).bounds()

    async def all_bounds(self, topic: TableId) -> list[Bounds]:
        """The `bounds` of every partition. O(partitions)."""
        return [partition.bounds() for partition in self._topic(topic).partitions]

    async def trim(self, partition: PartitionId, before: Offset) -> Offset:
        """Remove the segments that lie wholly below `before`. Two syncs."""
        log = self._partition(partition)
        return await self._keep(lambda: trim_partition(log, before, in_writer=self._in_writer))

    async def retain(self, partition: PartitionId, retention: Retention, *, below: Offset) -> Offset:
        """Removes whole segments; the newest one stays. Two syncs where it removes any. Ages are by the log's clock."""
        log = self._partition(partition)
        check_retention(retention)
        return await self._keep(
            lambda: retain_partition(log, retention, now_ms=self._clock(), below=below, in_writer=self._in_writer)
        )

    async def compact(self, partition: PartitionId, below: Offset) -> int:
        """Drop void records from sealed segments; as `log_tier.embedded.upkeep.compaction` decides. Rewrites them."""
        log = self._partition(partition)
        return await self._keep(
            lambda: compact_partition(
                log,
                below,
                now_ms=self._clock(),
                tombstone_ms=self._settings.tombstone_ms,
                in_writer=self._in_writer,
            )
        )
