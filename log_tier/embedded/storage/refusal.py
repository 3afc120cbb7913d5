"""From an `OSError` of the disk to a typed error: which file, what was not carried out, and what to do."""

from __future__ import annotations

from pathlib import Path

from log_tier.concurrency.descriptors import OUT_OF_DESCRIPTORS
from log_tier.concurrency.disk_errors import NO_SPACE, disk_refusal
from log_tier.embedded.storage.disk import SyncFailed
from log_tier.model.errors import DuramenError, LogStopped

__all__ = ["no_room", "refusal_of"]


def refusal_of(error: OSError, folder: Path) -> DuramenError:
    """The typed error for an `OSError`: it names the file, what cannot be done any more, and what to do."""
    file = str(error.filename or folder)
    if isinstance(error, SyncFailed):
        return LogStopped(
            f"a sync of {file} failed ({error.strerror or error}), so what is on the disk is unknown: this log "
            "acknowledges and changes nothing more. Reads go on; look at the disk, then restart to recover what it "
            "really holds",
            file=file,
        )
    return disk_refusal(
        error,
        f"{file} cannot be opened or written",
        path=file,
        effect="this call was not carried out, and nothing that was acknowledged is lost",
    )


def no_room(error: OSError, folder: Path) -> DuramenError:
    """Why a batch of the partition in `folder` was not written; raises `error` itself where it was not for want of
    space or descriptors.
    """
    if error.errno not in NO_SPACE | OUT_OF_DESCRIPTORS or isinstance(error, SyncFailed):
        raise error
    return disk_refusal(
        error,
        f"{error.filename or folder} cannot be opened or grow",
        path=folder,
        effect="this batch was not written",
        room="free space or trim the log, and try again",
    )
