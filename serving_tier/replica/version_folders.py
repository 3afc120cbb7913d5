"""The folders of a replica's versions: the replica's own, and one for each version that came later.

    <table id>/3            the index that the replica began with
    <table id>/3.v2         version 2, which may be the live one by now

Which version an index is, and which one is live, is written in the indexes themselves (`meta`): the names only keep
them apart. Where the first folder is gone (its version was deleted, or it was damaged), another one takes its name.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from log_tier.concurrency.tasks import to_the_end
from log_tier.model.errors import DuramenError, IndexDamaged
from log_tier.model.identifiers import FIRST, Offset, PartitionId
from log_tier.rows.definition import TableDefinition
from serving_tier.folders import clear_away, rename
from serving_tier.index.lmdb.lmdb_index import LmdbIndex
from serving_tier.index.lmdb.open_environments import OpenEnvironments
from serving_tier.names import is_version_of, version_folder
from serving_tier.replica.applier import Applier

__all__ = [
    "ReplicaFolder",
    "close_indexes",
    "open_in",
    "open_versions",
    "promote",
    "remove_versions",
    "version_folders",
]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ReplicaFolder:
    """The folder of a replica's indexes, and what is needed to open them."""

    path: Path
    """The replica's own folder."""
    partition: PartitionId
    start: Offset = FIRST
    """The table's first offset."""
    environments: OpenEnvironments | None = None
    """Which files are open; None: each stays open until it is closed."""
    definition: TableDefinition | None = None
    """What the table's keys and values are; None: bytes."""

    def version(self, number: int) -> Path:
        """The folder of a version that was added after the first one."""
        return version_folder(self.path, number)

    def open(self, path: Path | None = None) -> LmdbIndex:
        """Open the index in `path` (None: the replica's own folder). Raises as `LmdbIndex.open`."""
        return LmdbIndex.open(
            path or self.path,
            partition=self.partition,
            start=self.start,
            environments=self.environments,
            definition=self.definition,
        )

    def at_rest(self) -> LmdbIndex | None:
        """The replica's own index with its file closed, where that can be; see `LmdbIndex.at_rest`."""
        if self.environments is None:
            return None
        return LmdbIndex.at_rest(
            self.path,
            partition=self.partition,
            start=self.start,
            environments=self.environments,
            definition=self.definition,
        )


def version_folders(folder: Path) -> list[Path]:
    """The folders next to a replica's folder that hold its versions, by name."""
    try:
        return sorted(path for path in folder.parent.iterdir() if is_version_of(path.name, folder.name))
    except FileNotFoundError:  # the last replica of the table has just gone, and the folder with it
        return []


def promote(folder: Path) -> bool:
    """Rename a version's folder to the replica's, if that one is missing. False if the replica has no folder at all."""
    if folder.exists():
        return True
    others = version_folders(folder)
    if not others:
        return False
    rename(others[0], folder)
    return True


def remove_versions(folder: Path) -> None:
    """Remove every version next to a replica's folder."""
    for path in version_folders(folder):
        clear_away(path)


async def open_in(applier: Applier, opening: Callable[[], LmdbIndex]) -> LmdbIndex:
    """Open in the applier's thread. A caller that is cancelled meanwhile leaves no index open that nobody knows of."""
    return await to_the_end(applier.run(opening), undo=lambda index: _close([index], applier))


async def close_indexes(indexes: Sequence[LmdbIndex], applier: Applier, *, clean: bool = True) -> None:
    """Close indexes in the applier's thread. A caller that is cancelled goes on when they are closed."""
    await to_the_end(_close(indexes, applier, clean=clean))


async def _close(indexes: Sequence[LmdbIndex], applier: Applier, *, clean: bool = True) -> None:
    failure: DuramenError | None = None
    for index in indexes:
        try:
            await applier.run(lambda index=index: index.close(clean=clean))  # type: ignore[misc]
        except DuramenError as error:
            failure = failure or error  # the others are closed all the same
    if failure is not None:
        raise failure


async def open_versions(first: LmdbIndex, folder: ReplicaFolder, applier: Applier) -> tuple[LmdbIndex, list[LmdbIndex]]:
    """Open all versions next to `first`, the index in `folder`; return the live one, and the others.

    What cannot be trusted, or is there twice, is removed. Raises `IndexDamaged` where the version that is live is not
    here; then all of them are closed.
    """
    indexes = [first]
    try:
        live = await _live_of(indexes, folder, applier)
    except BaseException:
        await close_indexes(indexes, applier)
        raise
    return live, [index for index in indexes if index is not live]


async def _live_of(indexes: list[LmdbIndex], folder: ReplicaFolder, applier: Applier) -> LmdbIndex:
    """Add the other versions to `indexes`, which has the first; return the one of them that is live."""
    for path in await asyncio.to_thread(version_folders, folder.path):
        try:
            index = await open_in(applier, lambda path=path: folder.open(path))  # type: ignore[misc]
        except IndexDamaged as error:
            logger.warning("%s; it is removed", error)
        else:
            if all(index.version != other.version for other in indexes):
                indexes.append(index)
                continue
            await close_indexes([index], applier, clean=False)
        await to_the_end(asyncio.to_thread(clear_away, path))
    # A process that died between two of them left the newest one at the latest barrier.
    newest = max(indexes, key=lambda index: (index.live.job, index.applied))
    number = newest.live.version
    live = next((index for index in indexes if index.version == number), None)
    if live is None:
        here = ", ".join(str(index.version) for index in indexes)
        raise IndexDamaged(
            f"{folder.path} holds version {here} of its table, and version {number} is live since offset "
            f"{newest.live.since}: discard it and fetch the live one",
            file=str(folder.path),
        )
    return live
