"""Whether a table's retention can remove anything now, as a planner sees the cluster. Pure."""

from __future__ import annotations

from log_tier.model.identifiers import PartitionId
from router.admin.planners.cluster_view import Situation
from router.membership.views import ReportedState
from serving_tier.jobs.trim_limit import trim_limit

__all__ = ["held_by"]


def held_by(situation: Situation, partition: PartitionId) -> str:
    """Why retention removes nothing of a partition's log although its table has a bound; empty where it may."""
    table = situation.cluster.table(partition.table)
    if not table.retention.is_bounded:
        return ""
    views = [
        situation.replica(partition, node)
        for node, _ in table.assignments[partition.partition]
        if situation.is_alive(node)
    ]
    applied = [view.applied for view in views if view.state != ReportedState.UNKNOWN]
    return trim_limit(situation.cluster, partition, applied).held_by
