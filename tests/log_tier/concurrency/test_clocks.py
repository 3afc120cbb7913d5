"""The machine's clocks, and one that a test turns."""

from __future__ import annotations

import time

from log_tier.concurrency.clocks import SYSTEM_CLOCK


def test_units() -> None:
    before_s, before_ms = time.monotonic(), time.time_ns() // 1_000_000
    monotonic_s, wall_ms = SYSTEM_CLOCK.monotonic_s(), SYSTEM_CLOCK.wall_ms()
    assert before_s <= monotonic_s <= time.monotonic()
    assert before_ms <= wall_ms <= time.time_ns() // 1_000_000
