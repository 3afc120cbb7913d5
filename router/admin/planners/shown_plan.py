"""What was shown of a plan before somebody said yes: it begins as it was shown, once, or not at all. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from log_tier.catalog.cluster_map import ClusterMap
from log_tier.catalog.commands import AbortJob, ClearTable, ResumeJob, StartJob
from log_tier.catalog.jobs import SEEN
from log_tier.model.errors import CommandRejected
from log_tier.model.identifiers import Offset
from router.admin.planners.plan import Plan

__all__ = ["Shown"]


class Shown(NamedTuple):
    """The plan that was shown. Nothing of it: whatever is right now is begun."""

    plan_id: str = ""
    version: Offset | None = None
    """Of the catalog on which it was made."""

    def checked(self, plan: Plan, cluster: ClusterMap) -> StartJob | ClearTable | ResumeJob | AbortJob:
        """The command of a plan that is what was shown. Raises `CommandRejected`.

        The catalog's fold looks again for jobs that began meanwhile: of two that begin one plan at two servers at once,
        one begins. A clearing has no place for that, and no need: one job at a time changes a table's versions.
        """
        if self.plan_id and plan.id != self.plan_id:
            raise CommandRejected(
                f"the catalog changed since the plan {self.plan_id} was shown, it would be {plan.id} now: look at it "
                "again (--dry-run)",
                version=cluster.version,
            )
        if self.version is None:
            return plan.command
        if reason := cluster.job_since(self.version):
            raise CommandRejected(reason, version=cluster.version)
        command = plan.command
        if not isinstance(command, StartJob):
            return command
        return replace(command, arguments={**command.arguments, SEEN: self.version})
