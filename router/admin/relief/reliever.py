"""The seam: looks again and again, decides, submits."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, NamedTuple

from log_tier.catalog.actions import JobKind
from log_tier.catalog.catalog import Catalog
from log_tier.concurrency.background import Failed, only_logged
from router.admin.healing.healer import Healer, HealOutlook
from router.admin.healing.own_jobs import Noted, OwnJobs, not_noted
from router.admin.healing.pace import Pace
from router.admin.planners.cluster_view import Situation
from router.admin.planners.heal import JobDecision
from router.admin.planners.strains import Strain, strains_of
from router.admin.relief.decision import HealingFirst, ReliefBounds, decide_relief
from router.admin.relief.strain_times import StrainTimes
from router.admin.situations import said_of
from router.membership.views import Membership

__all__ = ["ReliefOutlook", "Reliever"]

# A look costs some microseconds for each replica, and what it looks for lasts for minutes.
_LOOK_MAX_S: Final = 10.0
_LOOKS: Final = 10
"""So many are made in the time for which a node must have too much."""


class ReliefOutlook(NamedTuple):
    """What a reliever sees and would do now."""

    bounds: ReliefBounds
    strains: Sequence[Strain]
    seen_s: Sequence[float]
    """For how many seconds each of them was seen."""
    decision: JobDecision
    pause_s: float
    """How long the next job waits for the bound of bytes a second."""
    is_off: bool
    """An operator has switched it off in the catalog."""


class Reliever:
    """Relieves the nodes of a cluster from one router. `open()` makes one, `close()` ends it: what it began goes on."""

    def __init__(
        self,
        catalog: Catalog,
        membership: Membership,
        healer: Healer,
        bounds: ReliefBounds,
        noted: Noted = not_noted,
    ) -> None:
        self._catalog = catalog
        self._membership = membership
        self._healer = healer
        self._bounds = bounds
        self._look_s = max(0.1, min(_LOOK_MAX_S, bounds.after_s / _LOOKS)) if bounds.after_s else _LOOK_MAX_S
        self._times = StrainTimes(self._look_s)
        pace = Pace(bounds.bytes_s, JobKind.HEAL, JobKind.RELIEVE)
        self._jobs = OwnJobs(catalog, JobKind.RELIEVE, pace, noted)

    @classmethod
    def open(
        cls,
        catalog: Catalog,
        membership: Membership,
        healer: Healer,
        bounds: ReliefBounds,
        *,
        noted: Noted = not_noted,
        failed: Failed = only_logged,
    ) -> Reliever:
        """Begin to look. `healer`: of the same process, whose jobs go first; `noted`: takes what was done;
        `failed`: see `run_forever`. With `after_s` 0 it looks only when it is asked.
        """
        reliever = cls(catalog, membership, healer, bounds, noted)
        if bounds.after_s:
            name = "relieving nodes that have too much"
            reliever._jobs.look_on(reliever._round, reliever._look_s, name=name, failed=failed)
        return reliever

    async def outlook(self) -> ReliefOutlook:
        """What would be done now, and why. Where relief is off, what would be done if it were on, and at once."""
        situation = Situation(self._catalog.map, self._membership.nodes())
        strains = await self._look(situation)
        decision = await self._decided(situation, strains)
        seen_s = [self._times.seconds(each.node) for each in strains]
        return ReliefOutlook(self._bounds, strains, seen_s, decision, self._jobs.pause_s(), self._jobs.is_off())

    async def _round(self) -> None:
        situation = Situation(self._catalog.map, self._membership.nodes())
        await self._jobs.act(await self._decided(situation, await self._look(situation)))

    async def _look(self, situation: Situation) -> Sequence[Strain]:
        strains = await said_of(situation, strains_of)
        self._times.look(situation.cluster, strains, asyncio.get_running_loop().time())
        return strains

    async def _decided(self, situation: Situation, strains: Sequence[Strain]) -> JobDecision:
        healing = await self._healer.outlook()
        lasting = [each.node for each in strains if self._times.seconds(each.node) >= self._bounds.after_s]
        lost = [node for node, lost_s in healing.lost.items() if lost_s >= self._bounds.after_s]
        first = _healing_first(healing)
        copies = self._bounds.copies
        return await said_of(
            situation,
            lambda seen: decide_relief(seen, strains, lasting, healing=first, lost=lost, copies=copies),
        )

    async def close(self) -> None:
        """Stop looking. Idempotent."""
        await self._jobs.close()


def _healing_first(outlook: HealOutlook) -> HealingFirst:
    """What is missed may be where a relief wants to go, or what its disk is needed for."""
    if not outlook.bounds.after_s or outlook.is_off:
        return HealingFirst()  # nobody heals: a full disk is not left alone for that
    if outlook.decision.plan is not None:
        goes_first = f"the replicas of {outlook.decision.plan.subject}, which is lost, go first"
        return HealingFirst(goes_first, goes_first)
    if outlook.decision.job is not None:
        return HealingFirst(f"job {outlook.decision.job} heals: it goes first")
    waited = sorted(node for node, lost_s in outlook.lost.items() if lost_s < outlook.bounds.after_s)
    return HealingFirst(f"node {waited[0]} is lost, and is waited for" if waited else "")
