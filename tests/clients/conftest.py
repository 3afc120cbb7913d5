"""A cluster of three nodes in processes of their own, for all programs of a session."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kit.cluster.cluster_process import ClusterProcess


@pytest.fixture(scope="session")
def three_nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcess]:
    cluster = ClusterProcess(tmp_path_factory.mktemp("clients") / "cluster")
    yield cluster
    cluster.close()
