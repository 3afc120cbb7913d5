"""Closing a log: every partition's files as a clean close leaves them, then the journal."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from log_tier.embedded.commit.committer import Committer
from log_tier.embedded.segments.partition_log import PartitionLog
from log_tier.embedded.storage.refusal import refusal_of
from log_tier.model.errors import DuramenError

__all__ = ["close_files"]


def close_files(partitions: Iterable[PartitionLog], committer: Committer, folder: Path) -> None:
    """Finish or, in a log that stopped, abandon every partition, and close the journal.

    Whatever fails, all files are closed. Then the journal is not settled: the next open replays it, so nothing that was
    acknowledged is lost. Raises the first failure as one of Duramen's errors.
    """
    stopped, journal = committer.stopped is not None, committer.journal
    troubles: list[OSError | DuramenError] = []
    for partition in partitions:
        try:
            if not stopped:
                partition.finish()
        except (OSError, DuramenError) as error:
            troubles.append(error)
        partition.abandon()
    if journal is not None:
        try:
            journal.close(settle=not stopped and not troubles)
        except OSError as error:
            troubles.append(error)
    if troubles:
        first = troubles[0]
        if isinstance(first, DuramenError):
            raise first
        raise refusal_of(first, folder) from first
