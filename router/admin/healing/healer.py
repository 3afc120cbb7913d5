"""The seam: looks again and again, decides, submits."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Final, NamedTuple

from log_tier.catalog.actions import JobKind
from log_tier.catalog.catalog import Catalog
from log_tier.concurrency.background import Failed, only_logged, run_forever
from log_tier.concurrency.tasks import end_tasks
from router.admin.healing.absences import LOOK_S, Absences
from router.admin.healing.pace import Pace
from router.admin.healing.submission import Noted, not_noted, submit_decision
from router.admin.planners.cluster_view import Situation
from router.admin.planners.heal import HealBounds, JobDecision, decide_healing, newest_of
from router.admin.situations import said_of
from router.membership.views import Membership

__all__ = ["HealOutlook", "Healer"]

logger = logging.getLogger(__name__)

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
        self._noted = noted
        self._absences = Absences()
        self._pace = Pace(bounds.bytes_s, JobKind.HEAL)
        self._said: tuple[str, ...] = ()
        """What was last logged as being in the way: each trouble is one line."""
        self._running: asyncio.Task[None] | None = None

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
        healer._running = run_forever(healer._run(), name="healing lost nodes", failed=failed)
        return healer

    async def outlook(self) -> HealOutlook:
        """What would be done now, and why."""
        situation = self._look()
        lost = self._absences.lost()
        decision = await self._decided(situation)
        return HealOutlook(self._bounds, situation, lost, decision, self._left_s(), self._is_off())

    async def _run(self) -> None:
        while True:
            await self._round()
            await asyncio.sleep(LOOK_S)

    async def _round(self) -> None:
        situation = self._look()
        if not self._bounds.after_s:
            return
        decision = await self._decided(situation)
        if decision.blocked != self._said:
            self._said = decision.blocked
            if self._said:
                logger.warning("healing: %s", "; ".join(self._said))
        if decision.command is None or (decision.plan is not None and (self._is_off() or self._left_s() > 0)):
            return
        await submit_decision(self._catalog, decision, JobKind.HEAL, self._noted)

    def _is_off(self) -> bool:
        return JobKind.HEAL in self._catalog.map.by_hand

    def _look(self) -> Situation:
        situation = Situation(self._catalog.map, self._membership.nodes())
        self._absences.look(situation, asyncio.get_running_loop().time())
        return situation

    def _left_s(self) -> float:
        return self._pace.left_s(self._catalog.map, asyncio.get_running_loop().time())

    async def _decided(self, situation: Situation) -> JobDecision:
        lost = self._absences.longer_than(self._bounds.after_s)
        healing = newest_of(situation.cluster, JobKind.HEAL)
        if not lost and (healing is None or healing.state not in ("running", "failed")):
            return _NOTHING
        return await said_of(situation, lambda seen: decide_healing(seen, lost, copies=self._bounds.copies))

    async def close(self) -> None:
        """Stop looking. Idempotent."""
        await end_tasks(self._running)
