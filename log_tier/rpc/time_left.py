"""How long a server may work on a call: until its caller's deadline, less what the reply needs to arrive before it."""

from __future__ import annotations

from typing import Any, Final

import grpc

__all__ = ["time_left_s"]

# For callers that set no deadline: nobody waits for ever by accident.
_DEFAULT_S: Final = 30.0

# A longer time is no deadline; gRPC itself reports numbers that overflow a clock.
_MAX_S: Final = 3600.0

# A tenth of the caller's time is kept for the reply: a reply that comes too late is a bare `DeadlineExceeded`, and says
# nothing of what the server knows. On an idle machine a reply takes a millisecond, on one with ten processes for each
# processor a hundred. Of a deadline of some milliseconds the work gets most.
_REPLY_SHARE: Final = 0.1
_REPLY_MARGIN_MIN_S: Final = 0.02
_REPLY_MARGIN_MAX_S: Final = 0.25


def time_left_s(context: grpc.aio.ServicerContext[Any, Any], *, default_s: float = _DEFAULT_S) -> float:
    """Seconds that are left for the work of this call, from 0 to 3600; `default_s` where the caller set no deadline."""
    remaining_s = context.time_remaining()
    if remaining_s is None:
        return default_s
    # Compared, and not a `min` of a `max`: every call comes here.
    margin_s = remaining_s * _REPLY_SHARE
    if margin_s < _REPLY_MARGIN_MIN_S:
        margin_s = _REPLY_MARGIN_MIN_S
    elif margin_s > _REPLY_MARGIN_MAX_S:
        margin_s = _REPLY_MARGIN_MAX_S
    left_s: float = remaining_s - margin_s
    return 0.0 if left_s < 0.0 else min(left_s, _MAX_S)
