"""Makes the helpers of the folder above importable, and gives tests places for versions."""

from __future__ import annotations

from pathlib import Path

import pytest

from serving_tier.versions.version_store import VersionStore


@pytest.fixture(params=["folder", "s3"])
def any_place(request: pytest.FixtureRequest, tmp_path: Path) -> VersionStore:
    """Every kind of place that a version can lie in."""
    if request.param == "folder":
        return VersionStore.open(tmp_path / "version")
    address, name = request.getfixturevalue("s3_address"), request.getfixturevalue("bucket")
    return VersionStore.open(f"s3://{name}/versions/1?endpoint_url={address}")
