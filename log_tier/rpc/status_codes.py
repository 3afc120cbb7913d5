"""The one table between our errors and gRPC's status codes. Nothing else in Duramen knows a gRPC code.

And an error as `google.rpc.Status`, which clients of every language can read: https://google.aip.dev/193. gRPC carries
it in the trailing metadata under `STATUS_KEY`. It holds an `ErrorInfo` with the error's code as its reason and its
fields as metadata, and a `RetryInfo` where the same call may succeed later.
"""

from __future__ import annotations

from typing import Final

import grpc
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status

from log_tier.model.errors import ERRORS, DuramenError, Overloaded

__all__ = ["DOMAIN", "STATUS_KEY", "http_status_of", "status_details", "status_of"]

_STATUS: Final[dict[str, grpc.StatusCode]] = {
    "error": grpc.StatusCode.INTERNAL,
    "invalid_request": grpc.StatusCode.INVALID_ARGUMENT,
    "access_denied": grpc.StatusCode.PERMISSION_DENIED,
    "unauthenticated": grpc.StatusCode.UNAUTHENTICATED,
    "permission_denied": grpc.StatusCode.PERMISSION_DENIED,
    "location_refused": grpc.StatusCode.PERMISSION_DENIED,
    "token_ahead": grpc.StatusCode.OUT_OF_RANGE,
    "limit_exceeded": grpc.StatusCode.RESOURCE_EXHAUSTED,
    "table_not_found": grpc.StatusCode.NOT_FOUND,
    "table_exists": grpc.StatusCode.ALREADY_EXISTS,
    "offset_trimmed": grpc.StatusCode.OUT_OF_RANGE,
    "history_gone": grpc.StatusCode.OUT_OF_RANGE,
    "index_building": grpc.StatusCode.FAILED_PRECONDITION,
    "offset_passed": grpc.StatusCode.OUT_OF_RANGE,
    "rejected": grpc.StatusCode.FAILED_PRECONDITION,
    "unavailable": grpc.StatusCode.UNAVAILABLE,
    "overloaded": grpc.StatusCode.RESOURCE_EXHAUSTED,
    "disk_full": grpc.StatusCode.RESOURCE_EXHAUSTED,
    "deadline_exceeded": grpc.StatusCode.DEADLINE_EXCEEDED,
    "write_unknown": grpc.StatusCode.DEADLINE_EXCEEDED,
    "damaged": grpc.StatusCode.DATA_LOSS,
    "certificate_invalid": grpc.StatusCode.FAILED_PRECONDITION,
    "disk_failed": grpc.StatusCode.FAILED_PRECONDITION,
    "log_stopped": grpc.StatusCode.FAILED_PRECONDITION,
    "unknown_format": grpc.StatusCode.UNIMPLEMENTED,
}


def status_of(kind: type[DuramenError]) -> grpc.StatusCode:
    """The status of an error class: its own, or that of the nearest class above it which has one."""
    for ancestor in kind.__mro__:
        if issubclass(ancestor, DuramenError) and ancestor.code in _STATUS:
            return _STATUS[ancestor.code]
    raise AssertionError(f"{kind} is outside the tree")


_HTTP: Final[dict[grpc.StatusCode, int]] = {
    grpc.StatusCode.INVALID_ARGUMENT: 400,
    grpc.StatusCode.OUT_OF_RANGE: 400,
    grpc.StatusCode.UNAUTHENTICATED: 401,
    grpc.StatusCode.PERMISSION_DENIED: 403,
    grpc.StatusCode.NOT_FOUND: 404,
    grpc.StatusCode.ALREADY_EXISTS: 409,
    grpc.StatusCode.FAILED_PRECONDITION: 409,
    grpc.StatusCode.RESOURCE_EXHAUSTED: 429,
    grpc.StatusCode.UNIMPLEMENTED: 501,
    grpc.StatusCode.UNAVAILABLE: 503,
    grpc.StatusCode.DEADLINE_EXCEEDED: 504,
}


def http_status_of(kind: type[DuramenError]) -> int:
    """The status of HTTP for an error class: that of its status in gRPC, else 500."""
    return _HTTP.get(status_of(kind), 500)


assert set(_STATUS) <= set(ERRORS), f"unknown codes: {set(_STATUS) - set(ERRORS)}"

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
