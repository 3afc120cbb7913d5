"""The contract of the `Log` seam, held by the client of a real server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from log_contract import LogContract, NoTopicsOfOthersContract
from log_server import served_log

from log_tier.log import Log
from log_tier.service.client import RemoteLog


class TestRemoteLog(LogContract, NoTopicsOfOthersContract):
    @pytest.fixture
    async def log(self, tmp_path: Path) -> AsyncIterator[Log]:
        async with served_log(tmp_path / "log") as server:
            remote = await RemoteLog.open(server.target)
            yield remote
            await remote.close()
