"""Verifying a data folder at rest: the log, the indexes and the snapshots that are in it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from log_tier.embedded.storage.disk import hold_lock
from log_tier.embedded.storage.names import MARKER
from log_tier.embedded.verification import LogVerification, verify_log
from log_tier.model.errors import FolderInUse, InvalidRequest
from log_tier.model.files.finding import FileFinding
from log_tier.open import LOG_FOLDER
from serving_tier.names import INDEX_FOLDER, NODE_LOCK, SNAPSHOTS_FOLDER
from serving_tier.node.verification import index_folders, verify_index_folder
from serving_tier.snapshots.snapshot_store import SnapshotStore
from serving_tier.snapshots.verification import verify_snapshots

__all__ = ["FolderVerification"]


class FolderVerification:
    """One verification of a data folder: of `duramen up`, of a log, or of a serving node."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self.log = LogVerification()
        """What was read of the log so far."""
        self.indexes = 0
        """Indexes that were looked at."""
        self.snapshots = 0
        """Snapshots that were read."""

    def findings(self) -> Iterator[FileFinding]:
        """The findings, in the order in which they are made. Blocks; reads everything.

        Raises `FolderInUse` while a process has the folder, `InvalidRequest` for one in which nothing is Duramen's, and
        what the disk refuses.
        """
        try:
            yield from self._findings()
        except FolderInUse as error:
            process = f", process {error.fields['pid']}" if "pid" in error.fields else ""
            raise FolderInUse(
                f"{self._data} is open in another Duramen{process}, and nothing was verified: stop that process, or "
                "verify a snapshot of the file system; files that are copied while it writes are of different times",
                **error.fields,
            ) from error

    def _findings(self) -> Iterator[FileFinding]:
        log = self._data if (self._data / MARKER).exists() else self._data / LOG_FOLDER
        index, snapshots = self._data / INDEX_FOLDER, self._data / SNAPSHOTS_FOLDER
        if not any(folder.is_dir() for folder in (log, index, snapshots)):
            raise InvalidRequest(
                f"{self._data} is no data folder: name the one that `duramen up --data` or `duramen serve --data` has"
            )
        with ExitStack() as held:
            held.callback(hold_lock(self._data / NODE_LOCK))
            if log.is_dir():
                yield from verify_log(log, seen=self.log)
            for folder in index_folders(index):
                yield from verify_index_folder(folder)
                self.indexes += 1
            if snapshots.is_dir():
                yield from asyncio.run(self._of_snapshots(snapshots))

    async def _of_snapshots(self, folder: Path) -> list[FileFinding]:
        found: list[FileFinding] = []
        async for finding in verify_snapshots(SnapshotStore.open(folder)):
            self.snapshots += finding is None or finding.is_damage
            if finding is not None:
                found.append(finding)
        return found
