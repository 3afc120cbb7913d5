"""The embedded engine keeps the contract of the seam: with its usual settings, and with segments of a few batches."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from kit.log.log_contract import LogContract, NoTopicsOfOthersContract

from log_tier.concurrency.workers import QuickWork
from log_tier.embedded import EmbeddedLog, EngineSettings
from log_tier.embedded.commit.committer import Committer


class TestEmbeddedLog(LogContract, NoTopicsOfOthersContract):
    @pytest.fixture
    async def log(self, tmp_path: Path) -> AsyncIterator[EmbeddedLog]:
        async with await EmbeddedLog.open(tmp_path / "log") as log:
            yield log


class TestEmbeddedLogWhoseCallersCommit(LogContract):
    """Every append is its caller's own commit, where nothing is queued."""

    @pytest.fixture
    async def log(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[EmbeddedLog]:
        monkeypatch.setattr(QuickWork, "__init__", lambda disk, _: setattr(disk, "is_quick", True))
        monkeypatch.setattr(QuickWork, "took", lambda *_: None)
        submit = Committer.submit
        monkeypatch.setattr(Committer, "submit", lambda self, batches, **_: submit(self, batches, gathered=True))
        async with await EmbeddedLog.open(tmp_path / "log") as log:
            yield log


class TestEmbeddedLogOfSmallSegments(LogContract):
    @pytest.fixture
    async def log(self, tmp_path: Path) -> AsyncIterator[EmbeddedLog]:
        settings = EngineSettings(segment_bytes=1024, index_every_bytes=200, tail_bytes_max=0)
        async with await EmbeddedLog.open(tmp_path / "log", settings=settings) as log:
            yield log
