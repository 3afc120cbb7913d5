"""Where a replica that starts anew gets its content: the choices of a plan (`source_plan.py`), one after the other.

What is bad is logged by name and the next one is tried. A trouble of our own disk or process ends it at once: the next
source would meet it too, and the log, which comes last, costs the fold of all of it.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Final

import lmdb

from log_tier.concurrency.threads import Progress, in_thread
from log_tier.model.errors import (
    Damaged,
    DiskFailed,
    DiskFull,
    FolderReadOnly,
    IndexDiverged,
    InvalidRequest,
    OffsetTrimmed,
    Overloaded,
    SnapshotStoreUnavailable,
    TableNotFound,
    Unavailable,
)
from log_tier.model.identifiers import Offset, PartitionId
from log_tier.model.log import Bounds, Topic
from serving_tier.folders import discard
from serving_tier.snapshots.install import install_snapshot
from serving_tier.snapshots.manifest import SnapshotManifest
from serving_tier.snapshots.peer_copy import CopySource, install_copy
from serving_tier.snapshots.snapshot_store import SnapshotStore
from serving_tier.snapshots.source_plan import Offered, SourcePlan

__all__ = ["bootstrap"]

logger = logging.getLogger(__name__)

_OURS: Final = (DiskFailed, DiskFull, FolderReadOnly)
_SYSTEM: Final = (OSError, lmdb.Error)


async def bootstrap(
    plan: SourcePlan[CopySource],
    offered: Offered[CopySource],
    *,
    same_history: Callable[[Path, str], Awaitable[None]],
    store: SnapshotStore | None,
    topic: Topic,
    partition: PartitionId,
    folder: Path,
    progress: Progress | None = None,
    replay_max: int | None = None,
) -> str:
    """Fill the index folder `folder`, which nothing has open; return where the content came from, for people.

    With the log as the source it is left as it is (missing, usually), and the log is folded into it. `same_history`
    raises `IndexDiverged` for the folder of a copy (its name, for people) that is of another history than the log.

    `replay_max`: where a peer gives as many copies as it can, a log of more records is not folded instead: the peer's
    `Overloaded` is raised, and another try is made when it has given them. None: it is folded.

    Raises `OffsetTrimmed` naming each source and its trouble where none is left; `Unavailable` with the same text
    where one of them was only away, so that another try can help; `DiskFailed`, `DiskFull`, `FolderReadOnly`, and
    `Overloaded` where this process wants descriptors or addresses.
    """
    name, bounds = f"{topic.name}/{partition.partition}", offered.bounds
    tried = list(plan.passed_over)
    away = False
    busy: Overloaded | None = None
    is_long = replay_max is not None and bounds.latest - offered.start >= replay_max
    for choice in plan.choices:
        if busy is not None and is_long and choice.kind == "log":
            raise busy
        try:
            if choice.snapshot is not None:
                if store is None:
                    raise SnapshotStoreUnavailable("this node has no snapshot store: set one in its configuration")
                taken = await install_snapshot(
                    store, choice.snapshot.path, folder, partition=partition, progress=progress
                )
                await same_history(folder, f"{choice} of {name}")
                return f"snapshot {taken.id} at {taken.offset}"
            if choice.peer is not None:
                copied = await _copied(choice.peer, partition, bounds, folder, progress)
                await same_history(folder, f"the copy of {name} from {choice}")
                return f"{choice} at {copied.offset}"
            return "log"
        except _OURS:
            raise
        except (Damaged, Unavailable, InvalidRequest, TableNotFound, OffsetTrimmed) as error:
            if isinstance(error, Overloaded) and isinstance(error.__cause__, _SYSTEM):
                raise  # of this process; a peer's has no such cause
            logger.warning("%s: %s is not used: %s", name, choice, error)
            if isinstance(error, IndexDiverged):
                await in_thread(lambda _: discard(folder))
            away |= error.retryable
            busy = error if isinstance(error, Overloaded) else busy
            tried.append(f"{choice}: {error.message}")
    text = (
        f"no source is left for a replica of {name}: "
        + ("; ".join(tried) or "there is no snapshot, no peer, and the log was not wanted")
        + f". The log holds {bounds.earliest} to {bounds.latest}: bring back a node that has it, or a snapshot"
    )
    if away:
        raise Unavailable(text, partition=partition.partition, earliest=bounds.earliest)
    raise OffsetTrimmed(text, partition=partition.partition, asked=offered.start, earliest=bounds.earliest)


async def _copied(
    peer: CopySource, partition: PartitionId, bounds: Bounds, folder: Path, progress: Progress | None
) -> SnapshotManifest:
    async with aclosing(peer.copy(partition)) as parts:
        return await install_copy(
            parts,
            folder,
            peer=peer.name,
            partition=partition,
            accept=lambda offset: _check_way_on(offset, partition, bounds),
            progress=progress,
        )


def _check_way_on(offset: Offset, partition: PartitionId, bounds: Bounds) -> None:
    """Raise where the log does not go on after a copy. A live peer may be further than the bounds that we heard."""
    if not bounds.carries(offset):
        begins = f"begins at {bounds.earliest}" + f" and is compacted below {bounds.compacted}" * bool(bounds.compacted)
        raise OffsetTrimmed(
            f"the copy ends at {offset}, and the log {begins}: use another source",
            partition=partition.partition,
            asked=offset + 1,
            earliest=bounds.earliest,
        )
