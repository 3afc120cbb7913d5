"""One machine for each test of the router."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from one_machine import DEADLINE_S, one_machine

from log_tier.table_ref import TableRef
from router.front import Front


@pytest.fixture
async def front(tmp_path: Path) -> AsyncIterator[Front]:
    async with one_machine(tmp_path) as opened:
        yield opened


@pytest.fixture
async def table(front: Front) -> TableRef:
    return await front.create_table("flights", partitions=4, timeout=DEADLINE_S)
