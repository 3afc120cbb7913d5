"""The indexes of a node as the end of its process, or of its machine, leaves them.

LMDB is real, and so are its files. After a kill the kernel has all that was written, without what a clean close would
have added: the node goes on from there. After a loss of power an index that was in use holds its applied offset and not
all of its entries, as pages that reach the disk in any order leave it, and its marker is of an earlier boot.
"""

from __future__ import annotations

import json
import random
import shutil
from contextvars import Context
from pathlib import Path
from typing import Final

from kit.index.marker import change_marker

from serving_tier.index.lmdb.environment import MAP_BYTES_MAX, open_environment
from serving_tier.names import DATA_FILE, MARKER_FILE

__all__ = ["copy_indexes", "put_indexes_back"]

_LOST: Final = 0.3
"""Of the entries of an index that was in use when the power was lost."""
_BOOT: Final = "an earlier boot"


def copy_indexes(node: Path) -> None:
    """Copy a node's indexes as they are now, while they are open. LMDB's table of readers belongs to the process."""
    if (node / "index").is_dir():
        shutil.copytree(node / "index", node / "crashed", ignore=shutil.ignore_patterns("lock.mdb"))


def put_indexes_back(node: Path, power: random.Random | None) -> bool:
    """Have the copy in the place of what a close has left. `power`: the machine has lost it. True if one was torn."""
    crashed = node / "crashed"
    if not crashed.is_dir():
        return False
    shutil.rmtree(node / "index", ignore_errors=True)
    crashed.rename(node / "index")
    torn = [_tear(marker.parent, power) for marker in sorted((node / "index").rglob(MARKER_FILE)) if power is not None]
    return any(torn)


def _tear(folder: Path, chance: random.Random | None) -> bool:
    assert chance is not None
    if json.loads((folder / MARKER_FILE).read_bytes()).get("clean") or not (folder / DATA_FILE).is_file():
        return False
    # In a context without the disk of the node, which fails.
    env, databases = Context().run(open_environment, folder, map_bytes=MAP_BYTES_MAX)
    with env.begin(db=databases.data, write=True) as txn:
        for key in [key for key, _ in txn.cursor() if chance.random() < _LOST]:
            txn.delete(key)
    env.close()
    change_marker(folder, lambda fields: fields.update(boot_id=_BOOT))
    return True
