"""One machine for the tests of tasks."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from kit.jobs.single_machine import SingleMachine

from log_tier.catalog.catalog import Catalog
from log_tier.embedded import EmbeddedLog, EngineSettings


@pytest.fixture
async def machine(tmp_path: Path) -> AsyncIterator[SingleMachine]:
    async with await EmbeddedLog.open(tmp_path / "log", settings=EngineSettings(segment_bytes=4096)) as log:
        catalog = await Catalog.open(log)
        made = SingleMachine(tmp_path, log, catalog)
        yield made
        await made.close()
        await catalog.close()
