"""The audit of a simulated cluster: its rows against what its servers have refused, and let in on an audited table."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from duramen import aio
from log_tier.audit.row_format import parse_row
from log_tier.model.identifiers import AUDIT_TABLE
from simulation.book import Broken
from simulation.cluster_turns import ASK_S
from simulation.cluster_world import NODES, ClusterWorld

__all__ = ["check_audit"]

_WRITTEN_S: Final = 15.0
"""What a server has noted is in the table by then: a row takes events for a second, and failed writes pause for 5 s."""
_LOOK_S: Final = 0.5


async def check_audit(world: ClusterWorld) -> None:
    """When all is level and nothing is at fault: the audit soon has what was refused, and what was let in on the
    audited table. Raises `Broken`.
    """
    if not world.has_audit:
        return
    lives = {name: world.processes[name].lives for name in (*NODES, "router")}
    ends_s = world.loop.time() + _WRITTEN_S
    while difference := await _difference(world, lives):
        if world.loop.time() > ends_s:
            raise Broken("audited", difference)
        await asyncio.sleep(_LOOK_S)
    whole = sum(count == 1 for count in lives.values())
    world.story.met["audit: server whose refusals are all there"] += whole
    world.story.met["audit: server that may lack some"] += len(lives) - whole
    world.story.met["audit: refused call"] += world.refusals.count
    for what, count in world.accesses.count.items():
        world.story.met[f"audit: {what}"] += count


async def _difference(world: ClusterWorld, lives: Mapping[str, int]) -> str:
    rows = await _rows()
    return world.refusals.difference(rows, lives) or world.accesses.difference(rows, lives)


async def _rows() -> list[dict[str, Any]]:
    async with await aio.connect("router:7070", timeout=ASK_S) as database:
        return [
            parse_row(key, value)
            async for key, value in database.table(AUDIT_TABLE).scan(level="strong", timeout=ASK_S)
        ]
