"""A folder of certificates as a place: made for its owner alone, and changed by one process at a time."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from typing import Final

from duramen.certificates.names import AUTHORITY, files_of, lock_of, part_of
from log_tier.concurrency.disk_errors import disk_refusal
from log_tier.model.errors import FolderInUse, ForeignFolder, InvalidRequest

__all__ = ["changing", "make_folder"]

_OWNERS_ONLY: Final = 0o700


def make_folder(folder: Path) -> None:
    """Make a folder for a CA that only its owner can open, or take one that is empty. One that has a CA stays as it is.

    Raises `ForeignFolder` for one with other files: closing it to others would take those from them.
    """
    try:
        folder.mkdir(mode=_OWNERS_ONLY, parents=True, exist_ok=True)
        own = files_of(folder, AUTHORITY)
        if any(file.exists() for file in own):
            return
        ours = {lock_of(folder), *map(part_of, own)}
        if others := sorted(each.name for each in folder.iterdir() if each not in ours):
            raise ForeignFolder(f"{folder} holds {others[0]} and no CA: name a new folder, or an empty one")
        folder.chmod(_OWNERS_ONLY)
    except OSError as error:
        raise disk_refusal(error, f"{folder} cannot be made", path=folder, effect="nothing was made") from error


@contextmanager
def changing(folder: Path) -> Iterator[None]:
    """Change the folder's files, alone. Raises `FolderInUse` while another process does, `InvalidRequest` if there is
    no folder, `FolderReadOnly`.
    """
    if not folder.is_dir():
        raise InvalidRequest(f"there is no folder {folder}: `duramen cert init --dir {quote(str(folder))}` makes it")
    try:
        descriptor = os.open(lock_of(folder), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise disk_refusal(error, f"{folder} cannot be changed", path=folder, effect="nothing was changed") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        raise FolderInUse(f"another command changes {folder}: repeat this one when that has ended") from error
    try:
        yield
    finally:
        os.close(descriptor)
