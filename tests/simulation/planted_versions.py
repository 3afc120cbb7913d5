"""Bugs to plant in the versions of a table: where an empty one begins, what a standby takes over, and which snapshots
cover the log after a rollback.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from log_tier.catalog.cluster_map import ClusterMap, SnapshotEntry
from log_tier.model.identifiers import NOTHING, Offset, PartitionId
from serving_tier.replica import standby
from serving_tier.versions import empty
from simulation.planted import Patches

__all__ = ["PLANTED_IN_VERSIONS"]


def _empty_from_the_first_record() -> Patches:
    return [(empty, "empty_offsets", lambda url, partitions: [NOTHING] * partitions)]


def _empty_from_too_late() -> Patches:
    inner = empty.empty_offsets
    return [(empty, "empty_offsets", lambda url, partitions: [Offset(each + 1) for each in inner(url, partitions)])]


def _half_made_taken_for_whole() -> Patches:
    """It is made where it will lie, so that what a dying process leaves of it looks like the whole."""
    return [(empty, "incoming_folder", lambda folder: folder), (empty, "rename", lambda old, new: None)]


def _standby_judges_by_itself() -> Patches:
    def nothing(judgements: Any) -> frozenset[Offset]:
        return frozenset()

    return [(standby, "changed_nothing", nothing)]


def _covered_by_one_of_before_a_rollback() -> Patches:
    def covering(self: ClusterMap, partition: PartitionId) -> SnapshotEntry | None:
        live = self.table(partition.table).live_version
        return next((each for each in reversed(self.snapshots_of(partition)) if each.version == live), None)

    return [(ClusterMap, "covering", covering)]


PLANTED_IN_VERSIONS: Final[dict[str, Callable[[], Patches]]] = {
    "an empty version begins at the first record of the log": _empty_from_the_first_record,
    "an empty version begins behind the place that its clearing names": _empty_from_too_late,
    "a half-made empty version is taken for whole": _half_made_taken_for_whole,
    "a standby applies what the live version rejected": _standby_judges_by_itself,
    "a snapshot of before a swap and its rollback covers the log": _covered_by_one_of_before_a_rollback,
}
