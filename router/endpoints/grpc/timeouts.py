"""How long a call may take: its caller's deadline, or one of ours."""

from __future__ import annotations

from typing import Any, Final

import grpc

__all__ = ["call_timeout"]

# For callers that set no deadline: nobody waits for ever by accident.
_TIMEOUT_DEFAULT_S: Final = 30.0

# The reply must be on its way before the caller's deadline, else it learns nothing of what we know.
_REPLY_MARGIN_S: Final = 0.02

# What is longer is no deadline; gRPC itself knows numbers that overflow a clock.
_TIMEOUT_MAX_S: Final = 3600.0


def call_timeout(context: grpc.aio.ServicerContext[Any, Any]) -> float:
    """Seconds that are left for the work of this call."""
    remaining = context.time_remaining()
    if remaining is None:
        return _TIMEOUT_DEFAULT_S
    return max(0.0, min(remaining - _REPLY_MARGIN_S, _TIMEOUT_MAX_S))
