from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from kit.cluster.two_nodes import TwoNodes, two_nodes


@pytest.fixture
async def nodes(tmp_path: Path) -> AsyncIterator[TwoNodes]:
    async with two_nodes(tmp_path) as opened:
        yield opened
