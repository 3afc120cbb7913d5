"""The contract of the `Log` seam, held by the client of a real server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from kit.log.log_contract import LogContract, NoTopicsOfOthersContract
from kit.log.log_server import served_log

from log_tier.model.log import Log
from log_tier.remote.remote_log import RemoteLog


class TestRemoteLog(LogContract, NoTopicsOfOthersContract):
    @pytest.fixture
    async def log(self, tmp_path: Path) -> AsyncIterator[Log]:
        async with served_log(tmp_path / "log") as server:
            remote = await RemoteLog.open(server.target)
            yield remote
            await remote.close()
