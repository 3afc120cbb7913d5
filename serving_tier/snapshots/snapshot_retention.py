"""Which snapshots may go. Pure.

Entries of the catalog are verified: a snapshot is made known after it was read back from the store.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from log_tier.catalog.cluster_map import SnapshotEntry

__all__ = ["snapshots_to_remove"]


def snapshots_to_remove(
    snapshots: Sequence[SnapshotEntry], *, keep: int, in_use: Collection[str] = frozenset()
) -> list[SnapshotEntry]:
    """What may be removed of one partition's verified snapshots, the oldest first, so that the newest `keep` stay.

    The newest one always stays (the log may have been trimmed up to it), and so do those whose id is `in_use`:
    somebody restores from them. Of two at one offset the one that comes later in `snapshots` is the newer.
    """
    _check_one_partition(snapshots)
    ordered = sorted(snapshots, key=lambda entry: entry.offset)
    return [entry for entry in ordered[: -max(keep, 1)] if entry.id not in in_use]


def _check_one_partition(snapshots: Sequence[SnapshotEntry]) -> None:
    places = {(entry.table, entry.partition) for entry in snapshots}
    assert len(places) <= 1, f"snapshots of several partitions: {sorted(places)}"
