"""The bounds of a log's settings: each may be met, and none passed."""

from __future__ import annotations

import pytest

from log_tier.embedded.storage.settings import EngineSettings
from log_tier.model.batch_header import BATCH_BYTES_MAX

LEAST = {
    "segment_bytes": 1 << 10,
    "queue_bytes_max": BATCH_BYTES_MAX,
    "index_every_bytes": 1,
    "queue_batches_max": 1,
    "tombstone_ms": 1,
    "tail_bytes_max": 0,
}


@pytest.mark.parametrize("name", LEAST)
def test_a_bound_may_be_met_and_not_passed(name: str) -> None:
    assert getattr(EngineSettings(**{name: LEAST[name]}), name) == LEAST[name]  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=name):
        EngineSettings(**{name: LEAST[name] - 1})  # type: ignore[arg-type]


def test_a_segment_has_two_gibibytes_at_most() -> None:
    assert EngineSettings(segment_bytes=1 << 31).segment_bytes == 1 << 31
    with pytest.raises(ValueError, match="segment_bytes"):
        EngineSettings(segment_bytes=(1 << 31) + 1)
