"""The seam: looks again and again, decides, submits."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final, NamedTuple

from log_tier.catalog.actions import JobKind
from log_tier.catalog.catalog import Catalog
from log_tier.concurrency.background import Failed, only_logged
from router.admin.healing.absences import LOOK_S, Absences
from router.admin.healing.own_jobs import Noted, OwnJobs, not_noted
from router.admin.healing.pace import Pace
from router.admin.planners.cluster_view import Situation
from router.admin.planners.heal import HealBounds, JobDecision, decide_healing, newest_of
from router.admin.situations import said_of
from router.membership.views import Membership

__all__ = ["HealOutlook", "Healer"]

_NOTHING: Final = JobDecision()


class HealOutlook(NamedTuple):
    """What a healer sees and would do now."""

    bounds: HealBounds
    situation: Situation
    lost: Mapping[str, float]
    """The nodes that are lost, and for how many seconds."""
    decision: JobDecision
    pause_s: float
    """How long the next job waits for the bound of bytes a second."""
    is_off: bool
    """An operator has switched it off in the catalog."""


class Healer:
    """Heals a cluster from one router. `open()` makes one, `close()` ends it: what it began goes on."""

    def __init__(self, catalog: Catalog, membership: Membership, bounds: HealBounds, noted: Noted = not_noted) -> None:
        self._catalog = catalog
        self._membership = membership
        self._bounds = bounds
        self._absences = Absences()
        self._jobs = OwnJobs(catalog, JobKind.HEAL, Pace(bounds.bytes_s, JobKind.HEAL), noted)

    @classmethod
    def open(
        cls,
        catalog: Catalog,
        membership: Membership,
        bounds: HealBounds,
        *,
        noted: Noted = not_noted,
        failed: Failed = only_logged,
    ) -> Healer:
        """Begin to look. `noted`: takes what was done; `failed`: see `run_forever`. With `after_s` 0 it looks,
        and does nothing.
        """
        healer = cls(catalog, membership, bounds, noted)
        healer._jobs.look_on(healer._round, LOOK_S, name="healing lost nodes", failed=failed)
        return healer

    async def outlook(self) -> HealOutlook:
        """What would be done now, and why."""
        situation = self._look()
        lost = self._absences.lost()
        decision = await self._decided(situation)
        return HealOutlook(self._bounds, situation, lost, decision, self._jobs.pause_s(), self._jobs.is_off())

    async def _round(self) -> None:
        situation = self._look()
        if self._bounds.after_s:
            await self._jobs.act(await self._decided(situation))

    def _look(self) -> Situation:
        situation = Situation(self._catalog.map, self._membership.nodes())
        self._absences.look(situation, asyncio.get_running_loop().time())
        return situation

    async def _decided(self, situation: Situation) -> JobDecision:
        lost = self._absences.longer_than(self._bounds.after_s)
        healing = newest_of(situation.cluster, JobKind.HEAL)
        if not lost and (healing is None or healing.state not in ("running", "failed")):
            return _NOTHING
        return await said_of(situation, lambda seen: decide_healing(seen, lost, copies=self._bounds.copies))

    async def close(self) -> None:
        """Stop looking. Idempotent."""
        await self._jobs.close()
