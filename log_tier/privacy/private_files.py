"""Folders and files that other users of the machine can neither list nor read, whatever the umask: 0700 and 0600.

A folder of mode 0700 closes everything below it, whatever the modes there. So data folders are made, and closed, as
folders; the files in them get 0600 where this process creates them by name. Server processes take a umask of 077 as
well, for files that libraries create.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Final

__all__ = ["FILE_MODE", "FOLDER_MODE", "make_private", "private_opener", "take_private_umask", "tighten"]

logger = logging.getLogger(__name__)

FOLDER_MODE: Final = 0o700
FILE_MODE: Final = 0o600

_OTHERS: Final = 0o077


def make_private(folder: str | os.PathLike[str]) -> None:
    """Make a folder, and those above it that are missing, for this user alone. One that is there stays as it is.

    Raises `OSError` as the disk does, and `FileExistsError` where there is something that is no folder.
    """
    path = os.fspath(folder)
    try:
        _make(path)
    except FileNotFoundError:
        above = os.path.dirname(path)
        if not above:
            raise
        if not os.path.isdir(above):  # else another thread has made it since
            make_private(above)
        _make(path)  # /proc takes no folder from anybody, and says that something is missing


def _make(path: str) -> None:
    try:
        os.mkdir(path, FOLDER_MODE)
    except FileExistsError:
        if not os.path.isdir(path):
            raise


def tighten(folder: Path) -> None:
    """Take every right on an existing folder from other users. Where that cannot be done, a warning names the folder.

    One `stat` for a folder that is private already. Call it for folders that are Duramen's only. One that is
    missing stays so: it is made private later (`make_private`), or not at all, where the log's disk is simulated.
    """
    try:
        mode = os.stat(folder).st_mode & 0o7777
    except FileNotFoundError:
        return
    if not mode & _OTHERS:
        return
    try:
        os.chmod(folder, mode & ~_OTHERS)
    except OSError as error:
        logger.warning(
            "%s has mode %04o, and other users of this machine may read what is in it; it cannot be changed (%s): its "
            "owner should run chmod 700 %s",
            folder,
            mode,
            error.strerror,
            folder,
        )
    else:
        logger.info("%s had mode %04o and has %04o now: no other user may look into it", folder, mode, mode & ~_OTHERS)


def private_opener(path: str, flags: int) -> int:
    """For `open(path, "w", opener=private_opener)`: a file that this creates has mode 0600."""
    return os.open(path, flags, FILE_MODE)


def take_private_umask() -> None:
    """Have this process create files and folders for its own user only. For server processes: it is process-wide."""
    os.umask(_OTHERS)
