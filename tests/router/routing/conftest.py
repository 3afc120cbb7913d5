"""A cluster of three nodes for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from kit.cluster.in_process import DEADLINE_S, TestCluster, cluster_of

from log_tier.model.table_ref import TableRef
from log_tier.rows.table_spec import TableSpec


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[TestCluster]:
    async with cluster_of(tmp_path) as made:
        yield made


@pytest.fixture
async def table(cluster: TestCluster) -> TableRef:
    """Four partitions, each on every node."""
    made = await cluster.router.create_table(TableSpec("flights", partitions=4), timeout=DEADLINE_S)
    await cluster.hosted(made)
    return made


@pytest.fixture
async def spread(cluster: TestCluster) -> TableRef:
    """Seven partitions, each on one node."""
    made = await cluster.router.create_table(TableSpec("spread", partitions=7, replicas=1), timeout=DEADLINE_S)
    await cluster.hosted(made)
    return made
