"""A clearing that the catalog refuses: it waits for its turn, and ends where no turn will come."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import pytest
from kit.virtual_loop import run_virtually

from log_tier.catalog.jobs import Job
from log_tier.model.errors import CommandRejected, DeadlineExceeded
from log_tier.model.identifiers import Offset
from router.admin.clear import clear_table

TIMEOUT_S: Final = 30.0


class RefusingAdmin:
    """Refuses each clearing with the next of these reasons, then with the last one; nothing holds the table."""

    def __init__(self, *reasons: str) -> None:
        self.reasons = list(reasons)
        self.tries = 0

    async def clear(self, table: str, *, keep: int) -> int:
        await asyncio.sleep(0)
        self.tries += 1
        raise CommandRejected(self.reasons.pop(0) if len(self.reasons) > 1 else self.reasons[0], version=1)

    async def until_free(self, table: str) -> None:
        await asyncio.sleep(0)

    async def ended(self, job: int) -> Job:
        raise AssertionError("no job has begun")

    async def log_ends(self, table: str) -> list[Offset]:
        return []


def test_a_refusal_for_good_ends_it() -> None:
    async def run() -> None:
        admin: Any = RefusingAdmin("job 7 changes it", "it has too many versions")
        with pytest.raises(CommandRejected, match="too many versions"):
            await clear_table(admin, "flights", timeout=TIMEOUT_S)
        assert admin.tries == 3
        assert asyncio.get_running_loop().time() < TIMEOUT_S

    run_virtually(run())


def test_others_that_are_always_faster_are_not_raced_without_a_pause() -> None:
    async def run() -> None:
        admin: Any = RefusingAdmin(*(f"job {number} changes it" for number in range(10_000)))
        with pytest.raises(DeadlineExceeded, match="nothing was cleared: job"):
            await clear_table(admin, "flights", timeout=TIMEOUT_S)
        assert admin.tries < 500

    run_virtually(run())
