"""Staging: the versions of a node's replicas kept in step with the catalog's map.

    in the map, not here         fetch it from where it was built, verify every byte, catch up with the live one
    here, not in the map         close and remove it, when no barrier that lies ahead of the replica can name it
    a barrier names one          fetch it from where the barrier says, though the map has forgotten it, and let the
    that is not here             replica go over it; where that cannot be (it was never built somewhere, its log is
                                 gone) the whole replica is fetched anew from another one

A version that the map has dropped was swapped in before that, if it ever was: its barriers lie below the end that the
log had when the map was seen. A replica keeps the version until it has applied that offset, or a barrier that says that
the version has ended. Else a replica that lags behind two swaps could not pass the first one any more.

A version that could not be fetched for now is tried again as long as the map asks for it: the job that wants it sees
the last trouble. Damaged files are refused and fetched again; a full disk refuses the version, and the live one is
served.

A version that is kept for a rollback and is not here any more is not fetched: it is a second copy of the past. A
rollback that an operator wants first checks that the replicas have the version.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import suppress
from copy import copy
from pathlib import Path
from typing import Any, Final

from log_tier.catalog.catalog import Maps
from log_tier.catalog.cluster_map import ClusterMap, TableEntry, VersionEntry
from log_tier.concurrency.backoff import Backoff
from log_tier.concurrency.broadcast import Broadcast
from log_tier.concurrency.tasks import end_tasks, to_the_end
from log_tier.concurrency.threads import Progress
from log_tier.model.errors import (
    DeadlineExceeded,
    Disconnected,
    DiskFailed,
    DuramenError,
    FolderReadOnly,
    IndexDamaged,
    InvalidRequest,
    LocationRefused,
    OffsetTrimmed,
    ReplicaBehind,
    ShuttingDown,
    SnapshotStoreUnavailable,
    TableNotFound,
    Unavailable,
    UnknownFormat,
)
from log_tier.model.identifiers import Offset, PartitionId
from log_tier.privacy.masked_url import mask_url
from serving_tier.folders import clear_away
from serving_tier.locations.allowed import ANY_LOCAL, AllowedLocations
from serving_tier.locations.opening import open_version
from serving_tier.node.bug_lines import BugLines
from serving_tier.node.node import Node
from serving_tier.replica.replica import Replica
from serving_tier.versions.empty import is_empty, make_empty

__all__ = ["FetchVersion", "Staging", "check_version_of", "fetch_version"]

logger = logging.getLogger(__name__)

FetchVersion = Callable[[str, TableEntry, PartitionId, int, Path, Progress], Awaitable[None]]
"""Brings one partition of the version at a URL into a folder, verified; the index says that it is the version of that
number before it lies there."""

_RETRY_FIRST_S: Final = 0.5
_RETRY_MAX_S: Final = 30.0
# A place or a log that is away may be back at any time.
_RETRY_AWAY_MAX_S: Final = 2.0

_KEEPS_REPLICA: Final = (DiskFailed, FolderReadOnly, LocationRefused, UnknownFormat)
"""Errors that a replica which is fetched anew would meet again, or that only an operator can end."""

# How often a version that may go when the replica has caught up is looked at: it may have failed meanwhile.
_LOOK_S: Final = 1.0

# Versions that are fetched at the same time: one disk and one network serve them all, and reads as well.
_FETCHES_MAX: Final = 2

VersionName = tuple[PartitionId, int]


async def fetch_version(
    url: str,
    table: TableEntry,
    partition: PartitionId,
    number: int,
    folder: Path,
    progress: Progress,
    *,
    allowed: AllowedLocations = ANY_LOCAL,
) -> None:
    """The `FetchVersion` of a node that can reach the versions' store. Raises `LocationRefused` and what
    `VersionStore.fetch` does.
    """
    if is_empty(url):
        await make_empty(url, table, partition, number, folder)
        return
    store = await open_version(url, allowed)
    version = await store.get()
    check_version_of(table, version.table, version.partitions, version.partitioner, url)
    await store.fetch(version, partition.partition, folder, number=number, progress=progress)


def check_version_of(table: TableEntry, table_id: str, partitions: int, partitioner: str, url: str) -> None:
    """Raise `InvalidRequest` where a version is not one of `table` (V3)."""
    if table.definition is not None:
        raise InvalidRequest(
            f"table {table.name} has a definition of its keys and values, and no version of such a table is built "
            "elsewhere as yet: write its rows through a client"
        )
    if (table_id, partitions, partitioner) != (table.id, table.partitions, table.partitioner):
        raise InvalidRequest(
            f"the version at {mask_url(url)} is of table {table_id} with {partitions} partitions by {partitioner}; "
            f"table {table.name} is {table.id}, with {table.partitions} by {table.partitioner}: build it for this table"
        )


def _is_wanted(version: VersionEntry) -> bool:
    """Should every replica have it, fetched from where it was built?"""
    return version.state in ("staging", "staged") and bool(version.url)


class Staging:
    """Keeps the versions of a node's replicas in step with the catalog's map. `compare` is called with every map,
    `close()` ends what is under way.
    """

    def __init__(self, maps: Maps, node: Node, *, replace: Callable[[Replica], None], fetch: FetchVersion) -> None:
        self._maps = maps
        self._node = node
        self._replace = replace
        """Discards a replica and brings it up anew."""
        self._fetch = fetch
        self._tasks: dict[VersionName, asyncio.Task[None]] = {}
        self._bugs = BugLines()
        self._troubles: dict[VersionName, DuramenError] = {}
        self._progress: dict[VersionName, tuple[str, int, int]] = {}
        self._room = asyncio.Semaphore(_FETCHES_MAX)
        self._moved = Broadcast()

    def compare(self, cluster: ClusterMap, names: Iterable[PartitionId] | None = None) -> None:
        """Begin to fetch what is missing, and to remove what nobody wants, of the replicas that are open (of those of
        `names`; None: of all).
        """
        hosted = self._node.hosted()
        for name in hosted if names is None else names:
            table, replica = cluster.tables.get(name[0]), hosted.get(name)
            if table is None or replica is None:
                continue
            numbers = {version.number for version in table.versions} or {1}
            here = replica.versions.here() | {replica.index.version}
            for number in sorted(here - numbers - {replica.index.version}):
                if (name, number) not in self._tasks:
                    self._start((name, number), self._remove(replica, number))
            for version in table.versions:
                if _is_wanted(version) and version.number not in here and (name, version.number) not in self._tasks:
                    self._start((name, version.number), self._stage(replica, table, version.number, version.url))
        for name, number in list(self._troubles):
            table = cluster.tables.get(name[0])
            wanted = None if table is None or name not in hosted else table.version(number)
            if wanted is None or not _is_wanted(wanted):
                del self._troubles[name, number]
                self._bugs.forget((name, number))

    def version_missing(self, replica: Replica) -> None:
        """A replica waits at a barrier: bring the version, or bring the whole replica up anew."""
        barrier = replica.awaited_barrier
        assert barrier is not None, f"{replica.name} waits for no version"
        name, number = replica.id, barrier.version
        if (name, number) in self._tasks:
            return
        table = self._maps.map.tables.get(name[0])
        version = None if table is None else table.version(number)
        url = barrier.url if version is None else version.url
        if table is None or not url:
            logger.warning("%s waits for version %s, which was built nowhere: it is fetched anew", replica.name, number)
            self._replace(replica)
            return
        self._start((name, number), self._stage(replica, table, number, url, needed=True))

    async def wait_level(self, name: PartitionId, number: int, progress: Progress) -> None:
        """Return when a replica is level with a version. Raises what keeps it, as the last try found it."""
        while True:
            replica = self._node.replica(name)
            if number == replica.index.version or number in replica.versions.level:
                return
            self._bring(name, replica, number)
            trouble = self._troubles.get((name, number))
            if trouble is not None:
                raise copy(trouble)
            progress(*self._progress.get((name, number), ("waiting", 0, 0)))
            with suppress(TimeoutError):
                async with asyncio.timeout(_RETRY_FIRST_S):
                    await self._moved.wait()

    def _bring(self, name: PartitionId, replica: Replica, number: int) -> None:
        """Begin to fetch a version that a job asks for, whatever its state."""
        table = self._maps.map.tables.get(name[0])
        version = None if table is None else table.version(number)
        if table is None or version is None:
            raise InvalidRequest(f"version {number} of table {name[0]} no longer exists")
        if number in replica.versions.here() or (name, number) in self._tasks:
            return
        if not version.url:
            raise InvalidRequest(f"version {number} of {table.name} was built nowhere: it cannot be fetched")
        self._start((name, number), self._stage(replica, table, number, version.url))

    def _start(self, name: VersionName, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work, name=f"version {name[1]} of {name[0][0]}/{name[0][1]}")
        self._tasks[name] = task
        task.add_done_callback(lambda _: self._ended(name, task))

    def _ended(self, name: VersionName, task: asyncio.Task[None]) -> None:
        if self._tasks.get(name) is task:
            del self._tasks[name]
        self._progress.pop(name, None)
        if not task.cancelled() and task.exception() is not None:
            logger.error("version %s of %s ended by a bug", name[1], name[0], exc_info=task.exception())
        self._moved.notify_all()

    async def _stage(self, replica: Replica, table: TableEntry, number: int, url: str, *, needed: bool = False) -> None:
        name: VersionName = (replica.id, number)

        def progress(phase: str, done: int, total: int) -> None:
            self._progress[name] = (phase, done, total)

        backoff = Backoff(_RETRY_FIRST_S, _RETRY_MAX_S)
        while self._still(replica, number, needed=needed):
            folder = replica.versions.folder.version(number)
            try:
                async with self._room:
                    if not await asyncio.to_thread(folder.exists):
                        progress("fetching", 0, 0)
                        await self._fetch(url, table, replica.id, number, folder, progress)
                # Outside of `_room`: a version may be ahead of the live one, and the live one may be waiting at a
                # barrier for a version that has to be fetched first.
                progress("catching up", 0, 0)
                await replica.versions.add(number)
                self._troubles.pop(name, None)
                self._bugs.forget(name)
                return
            except (TableNotFound, ShuttingDown):
                return
            except DuramenError as error:
                logger.warning("%s: version %s is not here: %s", replica.name, number, error)
                self._troubles[name] = error
                away = isinstance(error, (Disconnected, DeadlineExceeded, SnapshotStoreUnavailable))
                backoff.max_s = _RETRY_AWAY_MAX_S if away else _RETRY_MAX_S
                if isinstance(error, (IndexDamaged, OffsetTrimmed)):
                    await to_the_end(asyncio.to_thread(clear_away, folder))
                if needed and not error.retryable and not isinstance(error, _KEEPS_REPLICA):
                    self._replace(replica)
                    return
            except Exception as error:  # noqa: BLE001 - the job that wants the version gets it
                self._bugs.note(name, f"bringing version {number} of {replica.name}", error)
                trouble = f"version {number} of {replica.name} could not be brought: {error!r}"
                self._troubles[name] = Unavailable(trouble)
            self._moved.notify_all()
            await backoff.pause()

    def _still(self, replica: Replica, number: int, *, needed: bool = False) -> bool:
        """Is the version still wanted, of a replica that is still here? `needed`: a barrier wants it."""
        name = replica.id
        table = self._maps.map.tables.get(name[0])
        asked = table is not None and (needed or table.version(number) is not None)
        if not asked or self._node.hosted().get(name) is not replica:
            return False
        return number not in replica.versions.here() | {replica.index.version}

    async def _remove(self, replica: Replica, number: int) -> None:
        if number not in replica.versions.ended and not await self._no_barrier_ahead(replica, number):
            return
        # A version that was just given up has left its files where a version that comes later lies.
        places = {index.version: index.path for index in replica.versions.indexes()}
        folder = places.get(number, replica.versions.folder.version(number))
        await replica.versions.drop(number, InvalidRequest(f"version {number} of {replica.topic.name} was deleted"))
        logger.info("%s: version %s was deleted", replica.name, number)
        await to_the_end(asyncio.to_thread(clear_away, folder))

    async def _no_barrier_ahead(self, replica: Replica, number: int) -> bool:
        """Return when the replica has passed every barrier that names a version which the map has dropped already;
        False: the version is the live one now, or one of the two is not here any more. One question to the log.
        """
        backoff = Backoff(_RETRY_FIRST_S, _RETRY_AWAY_MAX_S)
        name = replica.id
        end: Offset | None = None
        while self._node.hosted().get(name) is replica and number in replica.versions.here():
            try:
                end = await replica.progress.log_end() if end is None else end
                await replica.wait_applied(end, timeout=_LOOK_S)
                return number != replica.index.version
            except ReplicaBehind:
                continue
            except (TableNotFound, ShuttingDown):
                return False
            except DuramenError as error:
                logger.info("%s: version %s is not removed yet: %s", replica.name, number, error)
            await backoff.pause()
        return False

    async def forget(self, name: PartitionId) -> None:
        """End what is under way for a replica that goes away, or is put in place anew."""
        await end_tasks(*(task for version, task in self._tasks.items() if version[0] == name))

    async def close(self) -> None:
        """End what is under way. Idempotent."""
        await end_tasks(*self._tasks.values())
