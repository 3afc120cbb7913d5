"""How long tests wait: one place, which waits longer on a machine that is busy with other things."""

from __future__ import annotations

import os
from typing import Final

__all__ = ["patience_s"]

# A load of fifteen for each processor is what a shared build machine has at worst; beyond it a test may fail.
_LONGER_MAX: Final = 15.0


def patience_s(seconds: float) -> float:
    """`seconds` as they are on a quiet machine, longer by as much as processes wait for each processor now."""
    busy = os.getloadavg()[0] / (os.cpu_count() or 1)
    return seconds * min(max(1.0, busy), _LONGER_MAX)
