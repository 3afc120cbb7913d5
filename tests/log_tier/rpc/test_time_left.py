"""What a server keeps of its caller's time for the reply."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from log_tier.rpc.time_left import time_left_s


def left(remaining_s: float | None) -> float:
    context: Any = SimpleNamespace(time_remaining=lambda: remaining_s)
    return time_left_s(context, default_s=30.0)


@pytest.mark.parametrize(
    ("remaining_s", "work_s"),
    [
        (None, 30.0),
        (-1.0, 0.0),
        (0.01, 0.0),
        (0.05, 0.03),
        (0.2, 0.18),
        (1.0, 0.9),
        (2.5, 2.25),
        (60.0, 59.75),
        (1e15, 3600.0),
    ],
)
def test_a_tenth_is_for_the_reply_within_limits(remaining_s: float | None, work_s: float) -> None:
    assert left(remaining_s) == pytest.approx(work_s)
