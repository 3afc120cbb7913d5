"""From an `OSError` of the disk to a typed error: which file, what was not carried out, and what to do."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Final

from log_tier.concurrency.descriptors import OUT_OF_DESCRIPTORS, out_of_descriptors
from log_tier.embedded.storage.disk import NO_SPACE, SyncFailed
from log_tier.model.errors import DiskFailed, DiskFull, DuramenError, FolderReadOnly, LogStopped

__all__ = ["no_room", "refusal_of"]

_READ_ONLY: Final = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})


def refusal_of(error: OSError, folder: Path) -> DuramenError:
    """The typed error for an `OSError`: it names the file, what cannot be done any more, and what to do."""
    if error.errno in OUT_OF_DESCRIPTORS:
        return out_of_descriptors(f"{error.filename or folder} cannot be opened", error)
    file, why = str(error.filename or folder), error.strerror or str(error)
    if isinstance(error, SyncFailed):
        return LogStopped(
            f"a sync of {file} failed ({why}), so what is on the disk is unknown: this log acknowledges and changes "
            "nothing more. Reads go on; look at the disk, then restart to recover what it really holds",
            file=file,
        )
    if error.errno in NO_SPACE:
        return DiskFull(f"{file} cannot grow: {why}; {_remedy(error, 'free space')}", file=file)
    if error.errno in _READ_ONLY:
        return FolderReadOnly(
            f"{file} cannot be opened or written: {why}; make it writable for this user, or choose another folder",
            file=file,
        )
    return DiskFailed(
        f"the disk refused an operation on {file}: {why}. This call was not carried out, and nothing that was "
        "acknowledged is lost; look at the disk, then try again",
        file=file,
    )


def no_room(error: OSError, folder: Path) -> DuramenError:
    """Why a batch of the partition in `folder` was not written; raises `error` itself where it was not for want of
    space or descriptors.
    """
    if error.errno in OUT_OF_DESCRIPTORS:
        return out_of_descriptors(f"{folder} cannot be opened for a write", error)
    if error.errno not in NO_SPACE or isinstance(error, SyncFailed):
        raise error
    return DiskFull(
        f"{error.filename or folder} cannot grow: {error.strerror}. This batch was not written; "
        f"{_remedy(error, 'free space or trim the log')}"
    )


def _remedy(error: OSError, more_space: str) -> str:
    if error.errno == errno.EFBIG:
        return "raise the limit on the size of a file (ulimit -f) and start again"
    return f"{more_space} and try again"
