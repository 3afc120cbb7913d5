"""The errors of commits: what a failed write or sync means for the log, and for callers whose batches were in it."""

from __future__ import annotations

from pathlib import Path

from log_tier.embedded.storage.disk import SyncFailed
from log_tier.model.errors import DuramenError, LogStopped, WriteUnknown

__all__ = ["own_copy", "write_failed", "write_unknown"]


def write_failed(folder: Path, error: OSError) -> LogStopped:
    """The error with which the log stops."""
    return LogStopped(
        f"{'a sync of' if isinstance(error, SyncFailed) else 'an operation on'} {error.filename or folder} failed "
        f"({error.strerror}), so what is on the disk is unknown: this log acknowledges "
        "nothing more. Reads go on; look at the disk, then restart to recover"
    )


def write_unknown(stopped: LogStopped) -> WriteUnknown:
    """The error for callers whose batches were written, or were being written, when the log stopped."""
    return WriteUnknown(
        f"{stopped.message}. This write was under way: after the restart it is in the log once or not at all; read the "
        "key, or append the same bytes again, a second copy is void"
    )


def own_copy(error: DuramenError) -> DuramenError:
    """One error may go to many callers; each gets its own, so that tracebacks do not pile up in one."""
    return type(error)(error.message, **dict(error.fields))
