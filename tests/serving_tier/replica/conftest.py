"""A log, a topic and an applier for the tests of replicas, and one replica of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from kit.index.one_replica import ReplicaSetting, replica_setting

from serving_tier.replica.replica import Replica


@pytest.fixture
async def setting(tmp_path: Path) -> AsyncIterator[ReplicaSetting]:
    async with replica_setting(tmp_path) as made:
        yield made


@pytest.fixture
async def replica(setting: ReplicaSetting) -> AsyncIterator[Replica]:
    opened = await setting.open()
    yield opened
    opened.check()
    await opened.close()
    opened.check()
