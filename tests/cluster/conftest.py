"""Clusters of real processes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kit.cluster.cluster_process import ClusterProcess


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ClusterProcess]:
    """Three nodes that hold a table `flights`: four partitions with two replicas each, and 400 keys."""
    made = ClusterProcess(tmp_path / "data")
    try:
        with made.connect() as database:
            table = database.create_table("flights", partitions=4, replicas=2)
            table.put_many((b"UA%d" % number, b"on time") for number in range(400))
        made.wait_ready("flights")
        yield made
    finally:
        made.close()
