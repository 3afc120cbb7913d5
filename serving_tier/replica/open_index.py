"""Opening the indexes of a replica: trusted, discarded, or refused, by what they hold and what the log holds."""

from __future__ import annotations

import asyncio
import logging

from log_tier.concurrency.tasks import to_the_end
from log_tier.model.errors import DuramenError, IndexDamaged, IndexDiverged, LogDamaged, OffsetTrimmed
from log_tier.model.log import Bounds, Log
from serving_tier.folders import discard
from serving_tier.index.divergence import check_history, is_surely_the_same
from serving_tier.index.lmdb.folder import folder_trouble
from serving_tier.index.lmdb.lmdb_index import LmdbIndex
from serving_tier.replica.applier import Applier
from serving_tier.replica.refusals import compacted_away
from serving_tier.replica.version_folders import ReplicaFolder, close_indexes, open_in, open_versions

__all__ = ["open_index", "open_indexes"]

logger = logging.getLogger(__name__)


async def open_indexes(
    name: str, folder: ReplicaFolder, bounds: Bounds, *, log: Log, applier: Applier, repair: bool
) -> tuple[LmdbIndex, list[LmdbIndex]]:
    """The live index in `folder`, of the history that the log holds, and those of other versions. Raises as
    `Replica.open` does.
    """
    first = await open_index(name, folder, bounds, applier=applier, repair=repair)
    live, others = await open_versions(first, folder, applier)
    applied, last = live.applied, live.last_batch
    if is_surely_the_same(last, applied, bounds):
        return live, others
    try:
        await check_history(log, folder.partition, applied=applied, last=last, name=f"the index of {name}")
    except BaseException as error:
        await close_indexes([live, *others], applier)
        if others or not (repair and isinstance(error, IndexDiverged)):
            raise
        logger.error("%s; it is built again from the log", error)
        await to_the_end(asyncio.to_thread(discard, folder.path))
        return await open_index(name, folder, bounds, applier=applier, repair=repair), []
    return live, others


async def open_index(name: str, folder: ReplicaFolder, bounds: Bounds, *, applier: Applier, repair: bool) -> LmdbIndex:
    """The index in `folder`, which the log within `bounds` can carry on; a new one begins at the folder's `start`.
    `name` is for messages.

    With `folder.environments` it may come at rest: its file is opened when it is needed. Raises as `Replica.open` does.
    """

    def opening() -> LmdbIndex:
        try:
            return folder.at_rest() or folder.open()
        except OSError as error:
            raise folder_trouble(error, folder.path) from error

    try:
        index = await open_in(applier, opening)
    except IndexDamaged as error:
        if not repair:
            raise
        logger.warning("%s: %s; it is built again from the log", name, error)
        await to_the_end(asyncio.to_thread(discard, folder.path))
        index = await open_in(applier, opening)
    refusal = _refusal(index, name, folder, bounds)
    if refusal is not None:
        await close_indexes([index], applier)
        raise refusal
    return index


def _refusal(index: LmdbIndex, name: str, folder: ReplicaFolder, bounds: Bounds) -> DuramenError | None:
    """The error if this log cannot carry this index on; else None."""
    applied = index.applied
    if applied > bounds.latest:
        return LogDamaged(
            f"the index of {name} has applied {applied}, the log ends at {bounds.latest}: "
            f"{applied - bounds.latest} acknowledged records are gone from the log. Nothing was changed. Bring the "
            f"log back from a copy; or, to accept the loss, remove {folder.path} and start again",
            offset=bounds.latest,
        )
    if applied + 1 < bounds.earliest:
        return OffsetTrimmed(
            f"the index of {name} has applied {applied}, the log begins at {bounds.earliest}: "
            "what lies between can only come from a copy of the index",
            partition=folder.partition.partition,
            asked=applied + 1,
            earliest=bounds.earliest,
        )
    if not bounds.carries(applied):
        what, partition = f"the index of {name}", folder.partition.partition
        return compacted_away(what, partition, applied=applied, compacted=bounds.compacted)
    return None
