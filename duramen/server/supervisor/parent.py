"""A child that ends with its parent. Linux only: the kernel sends SIGTERM when the parent is gone."""

from __future__ import annotations

import ctypes
import os
import signal
from typing import Final

from log_tier.model.errors import ShuttingDown

__all__ = ["PARENT_VARIABLE", "end_with_parent"]

PARENT_VARIABLE: Final = "DURAMEN_PARENT_PID"
"""The environment variable in which a supervisor passes its process id to its children."""

_PR_SET_PDEATHSIG: Final = 1


def end_with_parent() -> None:
    """Where a supervisor started this process, get SIGTERM when it ends. Raises `ShuttingDown` if it has ended."""
    parent = os.environ.get(PARENT_VARIABLE)
    if parent is None:
        return
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != int(parent):
        raise ShuttingDown(f"the supervisor {parent} that started this process is gone")
