"""Makes the helpers of the folder above importable, and gives tests an index and a store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kit.index.live_index import LiveIndex

from serving_tier.snapshots import SnapshotStore


@pytest.fixture
def live(tmp_path: Path) -> Iterator[LiveIndex]:
    """A live index of a few thousand keys, and the log that it was folded from."""
    made = LiveIndex(tmp_path / "node" / "index")
    made.fill(3000)
    yield made
    made.close()


@pytest.fixture
def store(tmp_path: Path) -> SnapshotStore:
    """A store in a folder."""
    return SnapshotStore.open(tmp_path / "store")


@pytest.fixture(params=["folder", "s3"])
def any_store(request: pytest.FixtureRequest, tmp_path: Path) -> SnapshotStore:
    """Every kind of store that is kept."""
    if request.param == "folder":
        return SnapshotStore.open(tmp_path / "store")
    address, name = request.getfixturevalue("s3_address"), request.getfixturevalue("bucket")
    return SnapshotStore.open(f"s3://{name}/snapshots?endpoint_url={address}")
