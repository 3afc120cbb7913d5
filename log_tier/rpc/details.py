"""An error as `google.rpc.Status`, which clients of every language can read: https://google.aip.dev/193.

gRPC carries it in the trailing metadata under `STATUS_KEY`. It holds an `ErrorInfo` with the error's code as its reason
and its fields as metadata, and a `RetryInfo` where the same call may succeed later.
"""

from __future__ import annotations

from typing import Final

from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status

from log_tier.model.errors import DuramenError, Overloaded
from log_tier.rpc.status_codes import status_of

__all__ = ["DOMAIN", "STATUS_KEY", "status_details"]

STATUS_KEY: Final = "grpc-status-details-bin"
"""The metadata key in which every language's gRPC library looks for a `google.rpc.Status`."""

DOMAIN: Final = "duramen"
"""`ErrorInfo.domain`: reasons are names of ours."""

# A node that was lost is out of the map, or back, within some tens of milliseconds; a queue that is full takes longer
# to drain than one sync.
_RETRY_MS: Final = 50
_RETRY_OVERLOADED_MS: Final = 200


def status_details(error: DuramenError, message: str) -> bytes:
    """The serialized `Status`, with a message that the caller has cut to what metadata carries."""
    details = Status(code=status_of(type(error)).value[0], message=message)
    info = ErrorInfo(reason=error.code, domain=DOMAIN)
    for name, value in error.fields.items():
        info.metadata[name] = _text(value)
    details.details.add().Pack(info)
    if error.retryable:
        pause_ms = _RETRY_OVERLOADED_MS if isinstance(error, Overloaded) else _RETRY_MS
        details.details.add().Pack(RetryInfo(retry_delay=Duration(nanos=pause_ms * 1_000_000)))
    return bytes(details.SerializeToString())


# gRPC carries at most 8 KiB of metadata.
_TEXT_LENGTH_MAX: Final = 200


def _text(value: int | str) -> str:
    """A field as text that a message can carry: lone surrogates are shown and not sent."""
    return str(value).encode("utf-8", "backslashreplace").decode("utf-8")[:_TEXT_LENGTH_MAX]
