"""An index of one partition, at one offset, as a file that this process may read: where it comes from, and how.

    a snapshot of exactly the wanted offset         read where it lies, if that is a folder of this machine
    a little log before the wanted offset           a snapshot, or the table's beginning, and a replay of what follows
    a live peer's copy                              one transaction of a replica, and a replay of what it lacks
    any older snapshot, the log's beginning         and a long replay

In this order, until one serves; a replay of less than `REPLAY_CHEAP` records takes a second or two and spares the nodes
a copy. The state at an **exact** offset (a token's) is what the log says, so a copy that is beyond it is of no use; for
a read of "now" (not exact) a copy may be as new as it likes.

Every file that was fetched is checked before it is read, piece by piece (`serving_tier.snapshots`). A source that is
bad or away is named and passed over; while one of them was only away or busy, all are tried again until the time is
over. Nodes give two copies at a time, so the tasks of a large read wait here for each other.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from log_tier.concurrency.backoff import Backoff
from log_tier.concurrency.threads import Stop, in_thread
from log_tier.model.batch_cut import cut_batch
from log_tier.model.batch_header import Place, read_header, split_batches
from log_tier.model.errors import (
    DiskFull,
    DuramenError,
    FolderReadOnly,
    HandshakeFailed,
    OffsetTrimmed,
    PermissionDenied,
    TokenAhead,
    Unauthenticated,
    Unavailable,
    VersionMissing,
)
from log_tier.model.identifiers import NOTHING, Offset, Partition
from log_tier.model.log import Bounds, Log
from serving_tier.index.lmdb.lmdb_index import LmdbIndex
from serving_tier.names import DATA_FILE
from serving_tier.service.peer import NodePeer
from serving_tier.snapshots.contents import FileCheck, pieces_of
from serving_tier.snapshots.install import check_copy, check_identity, install_snapshot
from serving_tier.snapshots.manifest import SnapshotManifest
from serving_tier.snapshots.peer_copy import install_copy
from serving_tier.snapshots.snapshot_store import SnapshotStore
from serving_tier.snapshots.source_plan import Choice, Goal, Offered, SourcePlan, plan_sources
from serving_tier.snapshots.store_url import open_place
from spark_bulk.runtime.work_folder import work_folder
from spark_bulk.source.model.table_place import PeerAddress, TablePlace, opened_log

__all__ = ["REPLAY_CHEAP", "IndexCopy", "WantedCopy", "batches_until", "open_index_copy", "plan_of"]

REPLAY_CHEAP: Final = 200_000
"""Up to this many records, a replay is faster than a copy."""

# Between two rounds over all sources: a copy of some hundred MiB is given in a second.
_PAUSE_FIRST_S: Final = 0.1
_PAUSE_MAX_S: Final = 2.0

_OURS: Final = (DiskFull, FolderReadOnly, PermissionDenied, Unauthenticated)


@dataclass(frozen=True, slots=True)
class WantedCopy:
    """Which state of which partition."""

    place: TablePlace
    partition: Partition
    until: Offset
    exact: bool
    snapshots_url: str = ""
    folder: str = ""
    timeout_s: float = 600.0
    prefers_copy: bool = False
    """Prefer a copy to a replay of the log, however short that is."""

    @property
    def name(self) -> str:
        """For people."""
        return f"{self.place.named(self.partition)} at offset {self.until}"


class IndexCopy(NamedTuple):
    """A closed index at a fixed offset."""

    data: Path | None
    """Its LMDB file; None: nothing was written yet."""
    applied: Offset
    log_time_ms: int
    source: str
    """Where it came from, for people."""


def plan_of(wanted: WantedCopy, bounds: Bounds) -> SourcePlan[PeerAddress]:
    """What is tried, in this order, and what is not, with the reason. Pure."""
    place, partition = wanted.place, wanted.partition
    known = place.snapshots[partition]
    blind: tuple[str, ...] = ()
    if known and not wanted.snapshots_url:
        blind = (f"{len(known)} snapshots: the option `snapshots` does not say where their store is",)
        known = ()
    offered = Offered(bounds, place.starts[partition], known, place.peers[partition])
    plan = plan_sources(offered, Goal(until=wanted.until, cheap_records=0 if wanted.prefers_copy else REPLAY_CHEAP))
    return replace(plan, passed_over=blind + plan.passed_over)


@asynccontextmanager
async def open_index_copy(wanted: WantedCopy) -> AsyncIterator[IndexCopy]:
    """Get the index; what it lies in is removed at the end, so map its file before that.

    Raises `PermissionDenied` where the user may not read the whole table, `Unauthenticated` where its proof is void,
    `TokenAhead` where the log does not reach the offset, `OffsetTrimmed` naming every source and its trouble
    where none has it any more, `Unavailable` with the same text where one was only away, `DiskFull`.
    """
    if wanted.until < wanted.place.starts[wanted.partition]:
        yield IndexCopy(None, NOTHING, 0, "nothing was written yet")
        return
    folder = Path(tempfile.mkdtemp(prefix="duramen-read-", dir=wanted.folder or work_folder()))
    try:
        async with opened_log(wanted.place) as log:
            found = await _from_any(wanted, log, folder)
        yield found
    finally:
        await in_thread(lambda _: shutil.rmtree(folder, ignore_errors=True))


async def _from_any(wanted: WantedCopy, log: Log, folder: Path) -> IndexCopy:
    """Try the sources until one serves."""
    deadline_s = asyncio.get_running_loop().time() + wanted.timeout_s
    backoff = Backoff(_PAUSE_FIRST_S, _PAUSE_MAX_S, deadline_s=deadline_s)
    while True:
        tried: list[str] = []
        away = False
        try:
            bounds = await log.bounds(wanted.place.topic.partition(wanted.partition))
            if wanted.until > bounds.latest:
                raise TokenAhead(
                    f"{wanted.name}: its log ends at {bounds.latest}",
                    partition=wanted.partition,
                    asked=wanted.until,
                    latest=bounds.latest,
                )
            plan = plan_of(wanted, bounds)
            tried = list(plan.passed_over)
            for number, step in enumerate(plan.choices):
                below = folder / str(number)
                try:
                    return await _from_one(wanted, step, log, below)
                except _OURS:
                    raise
                except DuramenError as error:
                    # A barrier on the way: what is beyond it only comes from a copy that was made beyond it.
                    away |= error.retryable and not isinstance(error, VersionMissing | HandshakeFailed)
                    tried.append(f"{step}: {error.message}")
                    await in_thread(lambda _, below=below: shutil.rmtree(below, ignore_errors=True))  # type: ignore[misc]
        except Unavailable as error:
            if isinstance(error, _OURS):
                raise
            away = True
            tried.append(f"the log: {error.message}")
        text = f"no source is left for {wanted.name}: {'; '.join(tried) or 'no snapshot, no peer, no log'}"
        if not away:
            raise OffsetTrimmed(f"{text}: read a later token, or bring back what has it", partition=wanted.partition)
        if not await backoff.pause():
            raise Unavailable(f"{text}; tried for {wanted.timeout_s:g} s", partition=wanted.partition)


async def _from_one(wanted: WantedCopy, step: Choice[PeerAddress], log: Log, folder: Path) -> IndexCopy:
    topic, partition = wanted.place.topic, wanted.partition
    if step.snapshot is not None:
        store = SnapshotStore.open(wanted.snapshots_url)
        local = open_place(wanted.snapshots_url, None)
        if step.snapshot.offset == wanted.until and local.local:
            manifest = await store.read_manifest(step.snapshot.path)
            check_identity(manifest, partition=topic.partition(partition))
            data = Path(local.root) / step.snapshot.path / DATA_FILE
            await in_thread(lambda stop: _check_in_place(manifest, data, stop))
            await check_copy(log, data.parent, partition=topic.partition(partition), name=str(step))
            return IndexCopy(data, manifest.offset, manifest.log_time_ms, str(step))
        manifest = await install_snapshot(store, step.snapshot.path, folder, partition=topic.partition(partition))
    elif step.peer is not None:
        peer = NodePeer(step.peer.name, step.peer.target)
        with wanted.place.login.used():
            async with aclosing(peer.copy(topic.partition(partition))) as parts:
                manifest = await install_copy(
                    parts,
                    folder,
                    peer=peer.name,
                    partition=topic.partition(partition),
                    accept=_not_beyond(wanted) if wanted.exact else lambda _: None,
                )
    else:
        return await _replayed(wanted, step, log, folder)
    await check_copy(log, folder, partition=topic.partition(partition), name=str(step))
    if manifest.offset < wanted.until:
        return await _replayed(wanted, step, log, folder)
    return IndexCopy(folder / DATA_FILE, manifest.offset, manifest.log_time_ms, str(step))


def _check_in_place(manifest: SnapshotManifest, data: Path, stop: Stop) -> None:
    """Compare every byte of a stored file with its manifest; it never changes, so it can be mapped afterwards.

    Its pages were looked at before the manifest was written, and LMDB does not open it here: `ClosedIndexFile` does,
    which looks at each page that it reads.
    """
    description = next(file for file in manifest.files if file.name == DATA_FILE)
    check = FileCheck(description, str(data), structure=False)
    with open(data, "rb", buffering=0) as file:
        for piece in pieces_of(file, stop):
            check.feed(piece)
    check.finish()


def _not_beyond(wanted: WantedCopy) -> Callable[[Offset], None]:
    def accept(offset: Offset) -> None:
        if offset > wanted.until:
            raise OffsetTrimmed(
                f"the copy is at {offset}, beyond the wanted {wanted.until}",
                partition=wanted.partition,
                asked=wanted.until,
                earliest=offset,
            )

    return accept


async def _replayed(wanted: WantedCopy, step: Choice[PeerAddress], log: Log, folder: Path) -> IndexCopy:
    """Fold the log into the index in `folder`, up to exactly the wanted offset."""
    place, partition, until = wanted.place, wanted.partition, wanted.until
    start = place.starts[partition]
    opening = partial(LmdbIndex.open, folder, partition=place.topic.partition(partition), start=start)
    # Updates of fields are folded by the table's definition, and what does not fit it is void.
    index = await in_thread(lambda _: opening(definition=place.definition))
    try:
        begun = index.applied
        if begun < until:
            reader: Any = log.read(place.topic.partition(partition), Offset(index.applied + 1), follow=False)
            async with aclosing(reader) as chunks:
                async for chunk in chunks:
                    data = b"".join(batches_until(chunk.data, until, index.place))
                    if data:
                        await in_thread(lambda _, data=data: index.apply(data, index.place))  # type: ignore[misc]
                    if index.applied >= until:
                        break
            bounds = await log.bounds(place.topic.partition(partition))
            if not bounds.leads(begun, until):
                raise OffsetTrimmed(
                    f"the log of {place.named(partition)} was compacted below {bounds.compacted} meanwhile: the state "
                    f"at offset {until} cannot be had from {begun} on",
                    partition=partition,
                    asked=until,
                    earliest=Offset(bounds.compacted - 1),
                )
        applied, log_time_ms = index.applied, index.log_time_ms
    finally:
        await in_thread(lambda _: index.close(clean=False))
    source = f"{step} and the log" if step.kind != "log" else str(step)
    return IndexCopy(folder / DATA_FILE, applied, log_time_ms, source)


def batches_until(data: bytes, until: Offset, place: Place | None = None) -> Iterator[bytes]:
    """The stored batches of a chunk up to an offset, the last one cut where it reaches beyond."""
    for batch in split_batches(data):
        header = read_header(batch)
        if header.base_offset > until:
            return
        yield batch if header.last_offset <= until else cut_batch(batch, until, place)
