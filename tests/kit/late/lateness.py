"""The fixture behind the options of lateness: `pytest --slow-replicas`, `--slow-reports`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from kit.late.sitecustomize import LATE

__all__ = ["lateness"]


@pytest.fixture(scope="session", autouse=True)
def lateness(request: pytest.FixtureRequest) -> Iterator[None]:
    """What was asked for is late, in this process and in those that it starts."""
    with pytest.MonkeyPatch.context() as patch:
        for late in LATE:
            seconds = request.config.getoption(late.option)
            if not seconds:
                continue
            for module in late.changes:
                late.change(import_module(module), seconds, patch.setattr)
            patch.setenv(late.variable, str(seconds))
            patch.setenv("PYTHONPATH", str(Path(__file__).parent), prepend=os.pathsep)
        yield
