"""From an error of the disk to a typed one: a full disk, a read-only folder, no descriptors, or a disk that fails.

Every part that opens or writes files of this machine refuses with the same classes and in the same words.
"""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Final

from log_tier.concurrency.descriptors import OUT_OF_DESCRIPTORS, out_of_descriptors
from log_tier.model.errors import DiskFailed, DiskFull, DuramenError, FolderReadOnly

__all__ = ["NO_SPACE", "READ_ONLY", "disk_refusal"]

NO_SPACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""A file cannot grow: the disk is full, or a quota or the limit of the process on a file's size (`ulimit -f`) is met.
What was written stands, and the next try may fit.
"""

READ_ONLY: Final = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})
"""The folder or its file system lets this user not write."""


def disk_refusal(
    error: OSError, what: str, *, path: Path | str, effect: str, room: str = "make room and try again"
) -> DuramenError:
    """The typed error for `error`: `Overloaded`, `DiskFull`, `FolderReadOnly`, or `DiskFailed` for every other one.

    `what` was not done and begins the sentence; `effect` says what holds all the same; `room` is the remedy for a full
    disk. `path` is named where the error names no file itself.
    """
    if error.errno in OUT_OF_DESCRIPTORS:
        return out_of_descriptors(what, error)
    file = str(error.filename or path)
    why = error.strerror or str(error)
    if file not in what:
        why += f" ({file})"
    if error.errno in NO_SPACE:
        if error.errno == errno.EFBIG:
            room = "raise the limit on the size of a file (ulimit -f) and start again"
        return DiskFull(f"{what}: {why}: {room}; {effect}", file=file)
    if error.errno in READ_ONLY:
        return FolderReadOnly(
            f"{what}: {why}: make it writable for this user, or choose another folder; {effect}", file=file
        )
    return DiskFailed(f"{what}: {why}; {effect}: look at the disk and the kernel's log, then try again", file=file)
