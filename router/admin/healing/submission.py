"""A decision becomes a command of the catalog, a line of the log, and an event of the audit."""

from __future__ import annotations

import logging
from collections.abc import Callable

from log_tier.catalog.actions import JobKind
from log_tier.catalog.catalog import Catalog
from log_tier.model.errors import CommandRejected, DuramenError, ShuttingDown
from router.admin.planners.heal import JobDecision

__all__ = ["Noted", "not_noted", "submit_decision"]

logger = logging.getLogger(__name__)

Noted = Callable[[str, str, int], None]
"""Takes what was done (`begin heal`), about what and why, and at which offset of the catalog; for the audit."""


def not_noted(action: str, detail: str, offset: int) -> None:
    """There is no audit."""


async def submit_decision(catalog: Catalog, decision: JobDecision, kind: JobKind, noted: Noted = not_noted) -> None:
    """Begin or undo what was decided. Where another server decided first, or the catalog takes nothing now, the next
    look decides anew. Raises `ShuttingDown`.
    """
    command, plan = decision.command, decision.plan
    assert command is not None, decision
    try:
        offset, _ = await catalog.submit(command)
    except CommandRejected as error:
        logger.info("another server decided first: %s", error)
    except ShuttingDown:
        raise
    except DuramenError as error:
        logger.info("the catalog takes no %s now: %s", kind, error)
    else:
        if plan is not None:
            logger.warning(
                "job %s %ss %s: %s replicas go elsewhere%s",
                offset,
                kind,
                plan.subject,
                len(plan.steps),
                f", because it {decision.reason}" if decision.reason else "",
            )
            noted(f"begin {kind}", f"job {offset}, {plan.subject}: {decision.reason or 'it is lost for long'}", offset)
        else:
            logger.warning("job %s (%s) is undone: %s", decision.job, kind, decision.reason)
            noted(f"undo {kind}", f"job {decision.job}: {decision.reason}", offset)
