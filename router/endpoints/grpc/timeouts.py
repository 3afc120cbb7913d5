"""How long a call may take: its caller's deadline, or one of ours."""

from __future__ import annotations

from typing import Any, Final

import grpc

from log_tier.rpc.time_left import time_left_s

__all__ = ["call_timeout"]

# For callers that set no deadline: nobody waits for ever by accident.
_TIMEOUT_DEFAULT_S: Final = 30.0

# What is longer is no deadline; gRPC itself knows numbers that overflow a clock.
_TIMEOUT_MAX_S: Final = 3600.0


def call_timeout(context: grpc.aio.ServicerContext[Any, Any]) -> float:
    """Seconds that are left for the work of this call."""
    return min(time_left_s(context, default_s=_TIMEOUT_DEFAULT_S), _TIMEOUT_MAX_S)
