from __future__ import annotations

import pytest
from index_contract import IndexContract, Opened

from serving_tier.index import Index, IndexLimits
from serving_tier.memory_index import MemoryIndex


class TestMemoryIndex(IndexContract):
    @pytest.fixture
    def opened(self) -> Opened:
        def open_index(limits: IndexLimits | None = None) -> Index:
            return MemoryIndex(limits=limits or IndexLimits())

        return open_index
