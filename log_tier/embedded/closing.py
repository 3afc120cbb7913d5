"""Closing a log: every partition's files as a clean close leaves them, then the journal.

A partition that was written to takes three syncs, each in files of its own. Several threads close many partitions: a
filesystem with a journal brings concurrent syncs to the disk together (group commit), so thousands take a fraction of
the time that they take one after another.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from log_tier.embedded.commit.committer import Committer
from log_tier.embedded.segments.partition_log import PartitionLog
from log_tier.embedded.storage.refusal import refusal_of
from log_tier.model.errors import DuramenError

__all__ = ["close_files"]

# Threads that close partitions: enough that a commit of the filesystem's journal holds several syncs. Sixteen are no
# faster than eight.
_CLOSERS: Final = 8

# Fewer partitions than this are closed by one thread.
_SHARED_OUT: Final = 64


def close_files(partitions: Sequence[PartitionLog], committer: Committer, folder: Path) -> None:
    """Finish or, in a log that stopped, abandon every partition, and close the journal.

    Whatever fails, all files are closed. Then the journal is not settled: the next open replays it, so nothing that was
    acknowledged is lost. Raises the first failure as one of Duramen's errors.
    """
    stopped, journal = committer.stopped is not None, committer.journal
    for partition in partitions:
        partition.keep_file()
    synced: set[Path] = set()
    troubles: list[OSError | DuramenError] = []

    def close(partition: PartitionLog) -> Path | None:
        try:
            return None if stopped else partition.finish()
        finally:
            partition.abandon()

    def close_all(some: Sequence[PartitionLog]) -> None:
        for partition in some:
            try:
                path = close(partition)
            except (OSError, DuramenError) as error:
                troubles.append(error)
            else:
                if path is not None:
                    synced.add(path)

    # Those whose file is open first: then there are hardly ever more open files than before.
    ordered = sorted(partitions, key=lambda partition: not partition.has_open_file)
    if len(ordered) < _SHARED_OUT:
        close_all(ordered)
    else:
        with ThreadPoolExecutor(_CLOSERS, thread_name_prefix="duramen-log-close") as threads:
            for ended in [threads.submit(close_all, ordered[at::_CLOSERS]) for at in range(_CLOSERS)]:
                ended.result()
    if journal is not None:
        try:
            journal.close(settle=not stopped and not troubles, synced=synced)
        except OSError as error:
            troubles.append(error)
    if troubles:
        first = troubles[0]
        if isinstance(first, DuramenError):
            raise first
        raise refusal_of(first, folder) from first
