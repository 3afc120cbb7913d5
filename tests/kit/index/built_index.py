"""An index as a bulk build leaves it, of one that folded made-up batches: it says nothing of a last batch."""

from __future__ import annotations

from pathlib import Path

from kit.index.marker import change_marker
from serving_tier.index.lmdb.environment import MAP_BYTES_MAX, open_environment
from serving_tier.index.lmdb.format import STATE, State

__all__ = ["forget_last_batch"]


def forget_last_batch(folder: Path) -> None:
    """Of the index in `folder`, which is closed."""
    env, databases = open_environment(folder, map_bytes=MAP_BYTES_MAX)
    with env.begin(write=True) as txn:
        state = State.unpack(txn.get(STATE, db=databases.meta))
        txn.put(STATE, state._replace(last=None).pack(), db=databases.meta)
    env.close()
    change_marker(folder, lambda fields: fields.pop("summary"))
