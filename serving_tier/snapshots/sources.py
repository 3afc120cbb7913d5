"""Where a replica that starts anew gets its content: a plan, which is pure, and its execution.

    the newest good snapshot      if the log goes on where it ends: offset + 1 >= earliest, offset <= latest
    an older one                  on the same condition
    a live peer's copy            the condition is looked at when its manifest is here
    the log's beginning           if the log still has it, compacted or not: earliest is at most the table's start,
                                  which is 0 unless it lies over a topic of others

One after the other; what is bad is logged by name and the next one is tried. A trouble of our own disk ends it at
once: the next source would meet it too.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from log_tier.catalog.cluster_map import SnapshotEntry
from log_tier.concurrency.threads import Progress
from log_tier.model.errors import (
    Damaged,
    DiskFull,
    DuramenError,
    FolderReadOnly,
    InvalidRequest,
    OffsetTrimmed,
    SnapshotStoreUnavailable,
    TableNotFound,
    Unavailable,
)
from log_tier.model.identifiers import FIRST, Offset, Partition
from log_tier.model.log import Bounds, Topic
from serving_tier.snapshots.install import install_snapshot
from serving_tier.snapshots.manifest import SnapshotManifest
from serving_tier.snapshots.peer_copy import CopySource, install_copy
from serving_tier.snapshots.store import SnapshotStore

__all__ = ["SOURCES", "SourcePlan", "bootstrap", "plan_sources"]

logger = logging.getLogger(__name__)

SOURCES: Final = ("auto", "snapshot", "peer", "log")
"""What may be wanted: all of them in order, or one kind alone."""

_OURS: Final = (DiskFull, FolderReadOnly)


@dataclass(frozen=True, slots=True)
class SourcePlan:
    """What is tried, in this order, and what is not, with the reason."""

    snapshots: tuple[SnapshotEntry, ...]
    peers: tuple[CopySource, ...]
    log: bool
    """The log's beginning is the last resort."""
    passed_over: tuple[str, ...]
    start: Offset = FIRST
    """The table's first offset."""


def plan_sources(
    snapshots: Sequence[SnapshotEntry],
    peers: Sequence[CopySource],
    bounds: Bounds,
    *,
    wanted: str = "auto",
    start: Offset = FIRST,
) -> SourcePlan:
    """Pure. `snapshots` of one partition in any order, `peers` in the order in which they shall be asked; `start`: the
    first offset of the table.

    Raises `InvalidRequest` for a source that is none.
    """
    if wanted not in SOURCES:
        raise InvalidRequest(f"{wanted!r} is no source: use {', '.join(SOURCES)}")
    usable, passed_over = [], []
    for entry in sorted(snapshots, key=lambda entry: entry.offset, reverse=True):
        trouble = _no_way_on(entry.offset, bounds)
        if wanted not in ("auto", "snapshot"):
            continue
        if trouble:
            passed_over.append(f"snapshot {entry.id}: {trouble}")
        else:
            usable.append(entry)
    from_log = wanted in ("auto", "log")
    if from_log and bounds.earliest > start:
        lost = f"the table at {start}: what was between" if start else "what was before"
        passed_over.append(f"the log: it begins at {bounds.earliest}, {lost} is trimmed")
    return SourcePlan(
        tuple(usable),
        tuple(peers) if wanted in ("auto", "peer") else (),
        from_log and bounds.earliest <= start,
        tuple(passed_over),
        start,
    )


def _no_way_on(offset: Offset, bounds: Bounds) -> str:
    """Why the log does not go on after `offset`; empty where it does."""
    if offset + 1 < bounds.earliest:
        return f"it ends at {offset}, and the log begins at {bounds.earliest}"
    if offset > bounds.latest:
        return f"it is at {offset}, and the log ends at {bounds.latest}: it is another log's"
    return ""


async def bootstrap(
    plan: SourcePlan,
    *,
    store: SnapshotStore | None,
    topic: Topic,
    partition: Partition,
    bounds: Bounds,
    folder: Path,
    progress: Progress | None = None,
) -> str:
    """Fill the index folder `folder`, which nothing has open; return where the content came from, for people.

    With the log as the source it is left as it is (missing, usually), and the log is folded into it.

    Raises `OffsetTrimmed` naming each source and its trouble where none is left; `Unavailable` with the same text
    where one of them was only away, so that another try can help; `DiskFull`, `FolderReadOnly`.
    """
    name = f"{topic.name}/{partition}"
    tried: list[str] = list(plan.passed_over)
    away = False
    for entry in plan.snapshots:
        try:
            if store is None:
                raise SnapshotStoreUnavailable("this node has no snapshot store: set one in its configuration")
            taken = await install_snapshot(
                store, entry.path, folder, table_id=topic.id, partition=partition, progress=progress
            )
        except _OURS:
            raise
        except (Damaged, Unavailable, InvalidRequest) as error:
            away |= error.retryable
            tried.append(_told(name, f"snapshot {entry.id}", error))
        else:
            return f"snapshot {taken.id} at {taken.offset}"
    for peer in plan.peers:
        try:
            async with aclosing(peer.copy(topic.id, partition)) as parts:
                copied = await install_copy(
                    parts,
                    folder,
                    peer=peer.name,
                    table_id=topic.id,
                    partition=partition,
                    accept=partial(_check_way_on, bounds=bounds),
                    progress=progress,
                )
        except _OURS:
            raise
        except (Damaged, Unavailable, InvalidRequest, TableNotFound, OffsetTrimmed) as error:
            away |= error.retryable
            tried.append(_told(name, f"peer {peer.name}", error))
        else:
            return f"peer {peer.name} at {copied.offset}"
    if plan.log:
        return "log"
    text = (
        f"no source is left for a replica of {name}: "
        + ("; ".join(tried) or "there is no snapshot, no peer, and the log was not wanted")
        + f". The log holds {bounds.earliest} to {bounds.latest}: bring back a node that has it, or a snapshot"
    )
    if away:
        raise Unavailable(text, partition=partition, earliest=bounds.earliest)
    raise OffsetTrimmed(text, partition=partition, asked=plan.start, earliest=bounds.earliest)


def _check_way_on(manifest: SnapshotManifest, bounds: Bounds) -> None:
    """Raise where the log does not go on after a copy. A live peer may be further than the bounds that we heard."""
    if manifest.offset + 1 < bounds.earliest:
        raise OffsetTrimmed(
            f"the copy ends at {manifest.offset}, and the log begins at {bounds.earliest}: use another source",
            partition=manifest.partition,
            asked=manifest.offset + 1,
            earliest=bounds.earliest,
        )


def _told(name: str, source: str, error: DuramenError) -> str:
    logger.warning("%s: %s is not used: %s", name, source, error)
    return f"{source}: {error.message}"
