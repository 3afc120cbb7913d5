from __future__ import annotations

import pytest
from kit.index.index_contract import IndexContract, Opened

from serving_tier.index.index import Index, IndexLimits
from serving_tier.index.memory_index import MemoryIndex


class TestMemoryIndex(IndexContract):
    @pytest.fixture
    def opened(self) -> Opened:
        def open_index(limits: IndexLimits | None = None) -> Index:
            return MemoryIndex(limits=limits or IndexLimits())

        return open_index
