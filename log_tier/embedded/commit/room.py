"""Room for a commit over many partitions: their files are made, or grow, in several threads.

The first append to a partition makes a file, allocates it and writes a checkpoint: three syncs, one after another, in
files of its own. One commit over a thousand fresh partitions would wait for three thousand. A filesystem with a journal
brings concurrent syncs to the disk together, so several threads take a fraction of that time.

Each partition's steps keep their order, and partitions do not depend on each other: what a crash leaves of one is what
it would leave if that partition were alone. The committing thread waits meanwhile, and nobody else uses the files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from log_tier.concurrency.descriptors import OUT_OF_DESCRIPTORS
from log_tier.concurrency.disk_errors import NO_SPACE
from log_tier.concurrency.workers import Workers
from log_tier.embedded.segments.partition_log import PartitionLog
from log_tier.embedded.storage.disk import SyncFailed
from log_tier.model.errors import DuramenError

__all__ = ["SHARED_OUT", "CommitRoom"]

SHARED_OUT: Final = 16
"""A commit in which fewer partitions lack room makes it in its own thread: a sync for each, some milliseconds."""

# Enough that a commit of the filesystem's journal holds several syncs. Sixteen are no faster than eight.
_THREADS: Final = 8

_Group = tuple[PartitionLog, list[tuple[bytes, int]]]


class CommitRoom:
    """Makes room in partitions; belongs to the thread that has the committer's turn."""

    def __init__(self, workers: Workers) -> None:
        self._pool = workers.pool(_THREADS, name="duramen-log-room")

    def make(
        self, groups: Mapping[PartitionLog, list[tuple[bytes, int]]]
    ) -> dict[PartitionLog, OSError | DuramenError]:
        """See that each partition has room for its batches (bytes, span); return what failed for good. Blocks: three
        syncs for a new file, two for one that grows.

        A partition that lacks space or descriptors is left out: it asks again when it is its turn, and says so.
        """
        failed: dict[PartitionLog, OSError | DuramenError] = {}
        lacking = [(log, group) for log, group in groups.items() if log.lacks_room(len(group[0][0]))]
        if len(lacking) < SHARED_OUT:
            return failed
        files = lacking[0][0].files
        some = max(1, min(len(lacking), files.files_max))
        for at in range(0, len(lacking), some):
            share = lacking[at : at + some]
            files.make_room(len(share))  # here, so that no thread closes what another one has just opened
            begun = [self._pool.submit(_make, share[each::_THREADS], failed) for each in range(_THREADS)]
            for ended in begun:
                ended.result()
        return failed

    def close(self) -> None:
        """End the threads. Idempotent."""
        self._pool.shutdown(wait=True)


def _make(share: Sequence[_Group], failed: dict[PartitionLog, OSError | DuramenError]) -> None:
    """Runs in a thread: room in these partitions, one after another. Nothing more is begun once something has failed
    for good.
    """
    for log, group in share:
        if failed:
            return
        try:
            log.make_room(group)
        except DuramenError as error:
            failed[log] = error
        except OSError as error:
            if isinstance(error, SyncFailed) or error.errno not in NO_SPACE | OUT_OF_DESCRIPTORS:
                failed[log] = error
