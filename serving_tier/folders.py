"""Whole folders of this machine: removed, renamed. What the system refuses is an error of ours that names the folder.

`discard` is for a folder that must be gone before the next step; `clear_away` for one that nobody needs any more, which
may as well be removed at the next start.
"""

from __future__ import annotations

import logging
from pathlib import Path

from log_tier.concurrency.disk_errors import disk_refusal
from log_tier.model.errors import DuramenError
from serving_tier.disk import NODE_DISK

__all__ = ["clear_away", "discard", "rename"]

logger = logging.getLogger(__name__)


def discard(folder: Path) -> None:
    """Remove a folder, or a file or link of that name; does nothing if there is none.

    Raises `DiskFailed`, `FolderReadOnly`; some of the folder's files may be gone then.
    """
    try:
        if folder.is_dir() and not folder.is_symlink():
            NODE_DISK.get().remove_tree(folder)
        else:
            NODE_DISK.get().unlink(folder)
    except OSError as error:
        effect = "nothing else was touched"
        raise disk_refusal(error, f"{folder} cannot be removed", path=folder, effect=effect) from error


def clear_away(folder: Path) -> None:
    """`discard` for a folder that nobody uses: one that cannot be removed is named in the log, and stays."""
    try:
        discard(folder)
    except DuramenError as error:
        logger.warning("%s. It is not used, and stays", error.message)


def rename(old: Path, new: Path) -> None:
    """Give a folder another name, on the same file system. Raises `DiskFailed`, `DiskFull`, `FolderReadOnly`."""
    try:
        NODE_DISK.get().rename(old, new)
    except OSError as error:
        effect = "it keeps the name that it had"
        raise disk_refusal(error, f"{old} cannot become {new}", path=old, effect=effect) from error
