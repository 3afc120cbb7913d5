"""The files of a node's replicas that are not hosted indexes, and their removal; see `serving_tier.names`."""

from __future__ import annotations

import logging
import os
from pathlib import Path

from log_tier.catalog.cluster_map import ClusterMap
from log_tier.model.identifiers import TableId
from serving_tier.folders import clear_away, discard, rename
from serving_tier.names import is_version_of

__all__ = ["exchange", "tidy"]

logger = logging.getLogger(__name__)


def exchange(folder: Path, new: Path, old: Path) -> None:
    """Put `new` (it may be missing: then the log is replayed) in the place of `folder`, which is kept as `old`.

    Raises as `serving_tier.folders`; where the last step fails, the replica is brought up without an index.
    """
    discard(old)
    if folder.exists():
        rename(folder, old)
    if new.exists():
        rename(new, folder)


def tidy(root: Path, cluster: ClusterMap, node_id: str) -> dict[TableId, set[str]]:
    """Remove indexes that are not ours any more (H1), and what an interrupted rebuild left.

    Returns the names of the folders that are there then, by table.
    """
    left: dict[TableId, set[str]] = {}
    wanted: dict[str, set[str]] = {}
    for table, partition, _ in cluster.held_by(node_id):
        wanted.setdefault(table.id, set()).add(str(partition))
    dropped = set(cluster.dropped)
    for name in sorted(os.listdir(root)):
        folder, table_id = f"{root}/{name}", TableId(name)
        if table_id in dropped:
            logger.info("table %s was dropped: its indexes are removed", name)
            clear_away(root / name)
        elif table_id not in cluster.tables:
            logger.warning("%s is an index of a table that the catalog does not know: it is left alone", folder)
        else:
            here = wanted.get(name, set())
            found = left[table_id] = set(os.listdir(folder))
            for index in sorted(found - here):
                if not any(is_version_of(index, each) for each in here):
                    logger.info("%s is not hosted here any more: it is removed", f"{folder}/{index}")
                    clear_away(root / name / index)
                    found.remove(index)
    return left
