"""An index as a bulk build leaves it, of one that folded made-up batches: it says nothing of a last batch."""

from __future__ import annotations

import json
from pathlib import Path

from serving_tier.index.lmdb.environment import MAP_BYTES_MAX, open_environment
from serving_tier.index.lmdb.format import STATE, State
from serving_tier.names import MARKER_FILE

__all__ = ["forget_last_batch"]


def forget_last_batch(folder: Path) -> None:
    """Of the index in `folder`, which is closed."""
    env, databases = open_environment(folder, map_bytes=MAP_BYTES_MAX)
    with env.begin(write=True) as txn:
        state = State.unpack(txn.get(STATE, db=databases.meta))
        txn.put(STATE, state._replace(last=None).pack(), db=databases.meta)
    env.close()
    marker = json.loads((folder / MARKER_FILE).read_bytes())
    del marker["summary"]
    (folder / MARKER_FILE).write_text(json.dumps(marker))
