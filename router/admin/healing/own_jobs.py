"""The jobs that a router begins by itself: a decision becomes a command of the catalog, a line of the log, and an event
of the audit.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from log_tier.catalog.actions import JobKind
from log_tier.catalog.catalog import Catalog
from log_tier.concurrency.background import Failed, run_forever
from log_tier.concurrency.tasks import end_tasks
from log_tier.model.errors import CommandRejected, DuramenError, ShuttingDown
from router.admin.healing.pace import Pace
from router.admin.planners.heal import JobDecision

__all__ = ["Noted", "OwnJobs", "not_noted"]

logger = logging.getLogger(__name__)

Noted = Callable[[str, str, int], None]
"""Takes what was done (`begin heal`), about what and why, and at which offset of the catalog; for the audit."""


_CALLED: Final = {JobKind.HEAL: "healing", JobKind.RELIEVE: "relief"}


def not_noted(action: str, detail: str, offset: int) -> None:
    """There is no audit."""


class OwnJobs:
    """Jobs of one kind: none begins while an operator has switched them off, or before its pace allows it."""

    def __init__(self, catalog: Catalog, kind: JobKind, pace: Pace, noted: Noted = not_noted) -> None:
        self._catalog, self._kind, self._pace, self._noted = catalog, kind, pace, noted
        self._said: tuple[str, ...] = ()
        """What was last logged as being in the way: each trouble is one line."""
        self._looking: asyncio.Task[None] | None = None

    def look_on(self, look: Callable[[], Awaitable[None]], every_s: float, *, name: str, failed: Failed) -> None:
        """Begin to look again and again, until `close`. `name`, `failed`: see `run_forever`."""
        self._looking = run_forever(_look_on(look, every_s), name=name, failed=failed)

    def is_off(self) -> bool:
        """Has an operator switched them off in the catalog?"""
        return self._kind in self._catalog.map.by_hand

    def pause_s(self) -> float:
        """How long the next one waits for the bound of bytes a second."""
        return self._pace.left_s(self._catalog.map, asyncio.get_running_loop().time())

    async def act(self, decision: JobDecision) -> None:
        """Say what is in the way, and begin or undo what was decided. Where another server decided first, or the
        catalog takes nothing now, the next look decides anew. Raises `ShuttingDown`.
        """
        if decision.blocked != self._said:
            self._said = decision.blocked
            if self._said:
                logger.warning("%s: %s", _CALLED[self._kind], "; ".join(self._said))
        if decision.command is None or (decision.plan is not None and (self.is_off() or self.pause_s() > 0)):
            return
        try:
            offset, _ = await self._catalog.submit(decision.command)
        except CommandRejected as error:
            logger.info("another server decided first: %s", error)
        except ShuttingDown:
            raise
        except DuramenError as error:
            logger.info("the catalog takes no %s now: %s", self._kind, error)
        else:
            self._note(decision, offset)

    def _note(self, decision: JobDecision, offset: int) -> None:
        kind, plan = self._kind, decision.plan
        if plan is not None:
            logger.warning(
                "job %s %ss %s: %s replicas go elsewhere%s",
                offset,
                kind,
                plan.subject,
                len(plan.steps),
                f", because it {decision.reason}" if decision.reason else "",
            )
            why = decision.reason or "it is lost for long"
            self._noted(f"begin {kind}", f"job {offset}, {plan.subject}: {why}", offset)
        else:
            logger.warning("job %s (%s) is undone: %s", decision.job, kind, decision.reason)
            self._noted(f"undo {kind}", f"job {decision.job}: {decision.reason}", offset)

    async def close(self) -> None:
        """Look no more; what was begun goes on. Idempotent."""
        await end_tasks(self._looking)


async def _look_on(look: Callable[[], Awaitable[None]], every_s: float) -> None:
    while True:
        await look()
        await asyncio.sleep(every_s)
