"""A cluster of three nodes for each test that operates one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from kit.cluster.operated import Operated, operated


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Operated]:
    async with operated(tmp_path / "cluster") as made:
        yield made
