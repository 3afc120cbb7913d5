"""One machine for each test of the router, its files in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from kit.cluster.one_machine import DEADLINE_S, one_machine
from kit.storage.memory_folders import (
    pytest_fixture_post_finalizer,
    pytest_fixture_setup,
    tmp_path,
    tmp_path_factory,
)

from log_tier.model.table_ref import TableRef
from log_tier.rows.table_spec import TableSpec
from router.data.local_data import LocalData

__all__ = ["pytest_fixture_post_finalizer", "pytest_fixture_setup", "tmp_path", "tmp_path_factory"]


@pytest.fixture
async def data_plane(tmp_path: Path) -> AsyncIterator[LocalData]:
    async with one_machine(tmp_path) as opened:
        yield opened


@pytest.fixture
async def table(data_plane: LocalData) -> TableRef:
    return await data_plane.create_table(TableSpec("flights", partitions=4), timeout=DEADLINE_S)
