from __future__ import annotations

import pytest

from serving_tier.node.node_load import Load


def test_requests_under_way() -> None:
    load = Load()
    with load:
        with load:
            assert load.under_way == 2
        with pytest.raises(ValueError, match="failed"), load:
            raise ValueError("failed")
        assert load.under_way == 1
    assert load.under_way == 0
