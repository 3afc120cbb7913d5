"""The caller of the call that the present task serves."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final

from log_tier.trust.caller import Caller

__all__ = ["CALLER"]

CALLER: Final[ContextVar[Caller | None]] = ContextVar("caller", default=None)
"""Who calls; None in a program's own database, and where nobody guards a server: then nothing is asked."""
