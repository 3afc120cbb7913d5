"""What a router decides by itself reaches the catalog and the audit, and only what the catalog took."""

from __future__ import annotations

from typing import Any

import pytest
from kit.cluster.situations import seen, with_nodes, with_table

from log_tier.catalog.actions import JobKind
from log_tier.catalog.commands import AbortJob, Command
from log_tier.model.errors import CommandRejected, Disconnected, DuramenError, ShuttingDown
from router.admin.healing.own_jobs import OwnJobs
from router.admin.healing.pace import Pace
from router.admin.planners.heal import JobDecision, decide_healing


class OneAnswer:
    """A catalog that answers each command alike: with an offset, or an error."""

    def __init__(self, answer: int | DuramenError) -> None:
        self._answer = answer
        self.map = with_table(with_nodes("n1", "n2", "n3"), ["n1 n2"])
        self.commands: list[Command] = []

    async def submit(self, command: Command) -> tuple[int, Any]:
        self.commands.append(command)
        if isinstance(self._answer, DuramenError):
            raise self._answer
        return self._answer, None


async def submitted(decision: JobDecision, kind: JobKind, answer: int | DuramenError) -> list[tuple[str, str, int]]:
    """What is noted."""
    noted: list[tuple[str, str, int]] = []
    catalog: Any = OneAnswer(answer)
    await OwnJobs(catalog, kind, Pace(0, kind), lambda *what: noted.append(what)).act(decision)
    assert catalog.commands == [decision.command]
    return noted


def healing() -> JobDecision:
    cluster = with_table(with_nodes("n1", "n2", "n3"), ["n1 n2"])
    return decide_healing(seen(cluster, lost=["n2"]), ["n2"], copies=1)


async def test_what_began_and_what_was_undone_is_noted_with_its_reason() -> None:
    assert await submitted(healing(), JobKind.HEAL, 12) == [
        ("begin heal", "job 12, node n2: it is lost for long", 12),
    ]
    undone = JobDecision(AbortJob(12), reason="node n2 is back, with what it had", job=12)
    assert await submitted(undone, JobKind.HEAL, 13) == [
        ("undo heal", "job 12: node n2 is back, with what it had", 13),
    ]


@pytest.mark.parametrize("error", [CommandRejected("decide anew", version=7), Disconnected("the log is away")])
async def test_what_the_catalog_does_not_take_is_not_noted(error: DuramenError) -> None:
    assert await submitted(healing(), JobKind.HEAL, error) == []


async def test_a_catalog_that_ends_ends_the_router() -> None:
    with pytest.raises(ShuttingDown):
        await submitted(healing(), JobKind.HEAL, ShuttingDown("it is closed"))
