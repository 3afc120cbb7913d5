"""Refusing a folder that holds what Duramen did not make, before anything is written into it."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Final

from log_tier.model.errors import ForeignFolder
from log_tier.open import LOG_FOLDER
from serving_tier.names import NODE_FOLDERS, UP_FOLDERS

__all__ = ["DATA_NAMES", "refuse_foreign"]

DATA_NAMES: Final = frozenset({LOG_FOLDER, *NODE_FOLDERS, *UP_FOLDERS})
"""What the data folder of one machine holds, as one server or as the processes of a cluster."""

# So many names are given of those that are not Duramen's.
_NAMED_MAX: Final = 3


def refuse_foreign(folder: Path, own: Collection[str]) -> None:
    """Raise `ForeignFolder` for a file, and for a folder that holds a name that is not in `own`. A missing or empty
    folder is fine. Raises `OSError` as the disk does.
    """
    if not folder.exists():
        return
    if not folder.is_dir():
        raise ForeignFolder(f"{folder} is a file, the data folder must be a folder: name another one")
    foreign = sorted(entry.name for entry in folder.iterdir() if entry.name not in own)
    if foreign:
        named = ", ".join(foreign[:_NAMED_MAX]) + (" …" if len(foreign) > _NAMED_MAX else "")
        raise ForeignFolder(
            f"{folder} holds {named}, which Duramen did not make: name an empty folder, or one that Duramen made"
        )
