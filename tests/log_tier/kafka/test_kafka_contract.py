"""The Kafka engine keeps the contract of the seam, on a real broker."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from kit.log.log_contract import LogContract

from log_tier.model.log import Log
from log_tier.open import open_log

pytestmark = pytest.mark.kafka


class TestKafkaLog(LogContract):
    keeps_bytes = False
    compacts = False
    bounds_size = False

    @pytest.fixture
    async def log(self, kafka_url: str) -> AsyncIterator[Log]:
        log = await open_log(kafka_url)
        yield log
        await log.close()
