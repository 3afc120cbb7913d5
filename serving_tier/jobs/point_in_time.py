"""Point-in-time restore: a partition's past, written into another table while the live one serves.

A snapshot at or before the wanted offset (or nothing, where the log still has its beginning), replayed to exactly that
offset, in a folder of its own; then everything in it, in key order, is **put into the new table's log**. So the new
table is one like any other: its replicas fold it from its own log, and what is restored is itself durable.

The puts carry a producer id made from the job and the task, and sequences that count the records. If the node dies in
between, the next attempt writes the same records with the same numbers, and what was there already is void (J1).

A barrier is not passed: what lies behind it was decided by another version, so the snapshot must be of since then.

What is not carried over: versions (the new table's offsets are its own) and who had written what. Expiries are.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any, Final

from log_tier.concurrency.tasks import to_the_end
from log_tier.model.batch import Columns, encode_batch
from log_tier.model.batch_cut import cut_run
from log_tier.model.errors import DuramenError, OffsetTrimmed, TokenAhead, VersionMissing
from log_tier.model.identifiers import Offset, PartitionId, TableId
from log_tier.model.log import Log
from log_tier.model.record import Expiry, Operation, attribute_of
from serving_tier.folders import clear_away, discard
from serving_tier.index.index import ScanPage
from serving_tier.index.lmdb.lmdb_index import LmdbIndex
from serving_tier.jobs.snapshotting import NodeSnapshots
from serving_tier.jobs.worker import TaskRun
from serving_tier.names import past_folder
from serving_tier.node.hosting import Hosting
from serving_tier.snapshots.install import check_copy
from serving_tier.snapshots.peer_copy import CopySource
from serving_tier.snapshots.source_plan import Goal, Offered, plan_sources

__all__ = ["copy_partition"]

# A batch of the copy: large enough to share its sync, small enough to be applied in a few milliseconds.
_BATCH_RECORDS: Final = 2_000
_BATCH_BYTES: Final = 2 * 1024 * 1024


async def copy_partition(run: TaskRun, log: Log, hosting: Hosting, snapshots: NodeSnapshots | None) -> str:
    """Do one `copy` task. Raises `OffsetTrimmed` where the past is gone, or lies behind a barrier without a snapshot in
    between, and `TokenAhead` where it is yet to come.
    """
    arguments = run.task.arguments
    table = run.cluster.table(TableId(str(arguments["source_table"])))
    partition = table.partition(int(arguments["source_partition"]))
    start = table.start(partition.partition)
    until = Offset(int(arguments["offset"]))
    folder = past_folder(hosting.node.folder, run.job.id, run.number)
    await asyncio.to_thread(discard, folder)
    try:
        if until >= start:  # else the table had no records yet
            await _fill(run, log, snapshots, partition, start, until, folder)
        index = await to_the_end(
            asyncio.to_thread(LmdbIndex.open, folder, partition=partition, start=start, definition=table.definition),
            undo=lambda opened: asyncio.to_thread(opened.close, clean=False),
        )
        try:
            try:
                begun = index.applied
                await _replay(run, log, partition, index, until)
                await _check_compaction(run, log, partition, begun, until)
            except VersionMissing as error:
                name, version, since = run.cluster.name_of(partition), error.fields["version"], error.fields["offset"]
                raise OffsetTrimmed(
                    f"{name} cannot be restored at offset {until}: version {version} of it went live at offset "
                    f"{since}, and no good snapshot lies between: choose another point; from "
                    f"the next snapshot on (`duramen admin snapshot {table.name}`) every one can be restored",
                    partition=partition.partition,
                    asked=until,
                    earliest=since,
                ) from error
            return await _write(run, log, index)
        finally:
            await to_the_end(asyncio.to_thread(index.close, clean=False))
    finally:
        await asyncio.to_thread(clear_away, folder)


async def _fill(
    run: TaskRun,
    log: Log,
    snapshots: NodeSnapshots | None,
    partition: PartitionId,
    start: Offset,
    until: Offset,
    folder: Path,
) -> None:
    """Begin with the newest snapshot that is not too new; with an empty folder where there is none."""
    name, bounds = run.cluster.name_of(partition), await log.bounds(partition)
    if until > bounds.latest:
        raise TokenAhead(
            f"{name} is to be restored at offset {until}, its log ends at {bounds.latest}",
            partition=partition.partition,
            asked=until,
            latest=bounds.latest,
        )
    entries = () if snapshots is None else run.cluster.snapshots_of(partition)
    offered: Offered[CopySource] = Offered(bounds, start, entries)
    plan = plan_sources(offered, Goal(until=until))
    tried = list(plan.passed_over)
    for choice in plan.choices:
        entry = choice.snapshot
        if entry is None or snapshots is None:
            return
        try:
            run.progress(f"fetching {choice}", 0, entry.bytes)
            await snapshots.fetch(entry, folder, progress=run.progress)
            await check_copy(log, folder, partition=partition, name=f"{choice} of {name}")
            return
        except DuramenError as error:
            tried.append(f"{entry.path}: {error.message}")
            await asyncio.to_thread(discard, folder)
    raise OffsetTrimmed(
        f"{name} cannot be restored at offset {until}: its log begins at {bounds.earliest}, and no good snapshot lies "
        f"between: {'; '.join(tried)}",
        partition=partition.partition,
        asked=until,
        earliest=bounds.earliest,
    )


async def _replay(run: TaskRun, log: Log, partition: PartitionId, index: LmdbIndex, until: Offset) -> None:
    if index.applied >= until:
        return
    reader: Any = log.read(partition, Offset(index.applied + 1), follow=False)
    async with aclosing(reader) as chunks:
        async for chunk in chunks:
            data = cut_run(chunk.data, until, index.place)
            if data:
                await asyncio.to_thread(index.apply, data, index.place)
            run.progress("replaying", index.applied + 1, until + 1)
            if index.applied >= until:
                return
    # A compaction removed the last records: what they wrote was written again below its limit.


async def _check_compaction(run: TaskRun, log: Log, partition: PartitionId, begun: Offset, until: Offset) -> None:
    """Raise `OffsetTrimmed` where a compaction may have dropped records before the replay read them."""
    bounds = await log.bounds(partition)
    if not bounds.leads(begun, until):
        raise OffsetTrimmed(
            f"{run.cluster.name_of(partition)} cannot be restored at offset {until}: its log was compacted below "
            f"{bounds.compacted} meanwhile, so what lies between {begun} and {until} is not all there",
            partition=partition.partition,
            asked=until,
            earliest=Offset(bounds.compacted - 1),
        )


async def _write(run: TaskRun, log: Log, index: LmdbIndex) -> str:
    """Put everything that is in the index into the new table."""
    target = run.task.partition_id
    name = f"{target.table} {target.partition} {run.job.id} {run.number}".encode()
    producer_id = (int.from_bytes(hashlib.blake2b(name, digest_size=8).digest(), "little") >> 1) | 1
    total = await asyncio.to_thread(index.count)
    written = 0
    pages = _pages(index)
    while page := await asyncio.to_thread(next, pages, None):
        batch = encode_batch(_columns(page), producer_id=producer_id, sequence=written)
        await log.append(target, batch)
        written += len(page.keys)
        run.progress("writing", written, total)
    return f"{written} keys of offset {index.applied}"


def _pages(index: LmdbIndex) -> Iterator[ScanPage]:
    start = b""
    while True:
        page = index.scan(start, None, limit=_BATCH_RECORDS, bytes_max=_BATCH_BYTES)
        if page.keys:
            yield page
        if not page.more or not page.keys:
            return
        start = page.keys[-1] + b"\x00"


def _columns(page: ScanPage) -> Columns:
    if page.expiries is None:
        return Columns(page.keys, page.values)
    plain, expiring = attribute_of(Operation.PUT), attribute_of(Operation.PUT, expiry=Expiry.AT)
    attributes = [expiring if expiry else plain for expiry in page.expiries]
    return Columns(page.keys, page.values, attributes, expiries=page.expiries)
