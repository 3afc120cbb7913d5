"""The fixture behind `pytest --slow-replicas`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from kit.late.sitecustomize import LATE_VARIABLE, apply_late
from serving_tier.replica.apply import Applying

__all__ = ["late_replicas"]


@pytest.fixture(scope="session", autouse=True)
def late_replicas(request: pytest.FixtureRequest) -> Iterator[None]:
    """With `--slow-replicas`, all replicas of this process and of those that it starts apply late."""
    seconds = request.config.getoption("--slow-replicas")
    with pytest.MonkeyPatch.context() as patch:
        if seconds:
            patch.setattr(Applying, "chunk", Applying.chunk)  # to be put back
            apply_late(Applying, seconds)
            patch.setenv(LATE_VARIABLE, str(seconds))
            patch.setenv("PYTHONPATH", str(Path(__file__).parent), prepend=os.pathsep)
        yield
